"""A machine with GPUs to play with, what is seen of them, and how cells end on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from orchestrator.health.evidence import Evidence
from orchestrator.job import Done, Job, Outcome, StageBegan, StageTime, Started
from tests.backends.samples import Notebook, cell, run
from tests.fakes import FakeEngine, FakeGpus, Play, Step, fail

OFF_THE_BUS = Evidence(
    kind="lost",
    blame="device",
    text="NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.",
    gpu="0000:65:00",
    code="79",
)
BAD_MEMORY = Evidence(kind="ecc", blame="device", text="GPU 0: 2 new ECC errors", gpu="0")
ILLEGAL_ADDRESS = Evidence(
    kind="xid", blame="program", text="NVRM: Xid (PCI:0000:65:00): 31, MMU fault", code="31"
)
CLEANED_UP = Evidence(kind="aftermath", blame="program", text="NVRM: Xid 45", code="45")
RING = Evidence(kind="hang", blame="unclear", text="amdgpu: ring comp_1.1.0 timeout")
RESET = Evidence(kind="reset", blame="unclear", text="amdgpu: GPU reset begin!")
NO_LOG = Evidence(kind="unreadable", blame="nobody", text="kernel log not readable: forbidden")


def ended(exit_: str, message: str, phase: str = "execute") -> Outcome:
    return fail(message, phase, stages=(StageTime(stage=phase, seconds=1.0, exit=exit_),))


LATE = ended("timeout", "no answer within 60 s: killed at its deadline")
CRASHED = ended("signal SIGSEGV", "died of SIGSEGV")
WRONG = ended("fail", "8 of 24 elements off", "compare")


@dataclasses.dataclass
class Lab:
    """A machine with GPUs."""

    engine: FakeEngine
    gpus: FakeGpus

    def run(self, *jobs: Job, notebook: Notebook | None = None, **options: object) -> Notebook:
        told = run(self.engine, *jobs, notebook=notebook, monitors=self.gpus, **options)
        assert self.gpus.open == 0
        return told


def gpu_job(*names: str, name: str = "run.gpu", timeout_s: float = 60.0) -> Job:
    cells = tuple(cell(f"torch.{n}.f32@nvidia-gpu", timeout_s) for n in names)
    return Job(id=name, stack="pytorch", pool="nvidia-gpu", cells=cells, device="nvidia")


def executing(name: str) -> list[Step]:
    full = f"torch.{name}.f32@nvidia-gpu"
    return [Started(cell=full), StageBegan(cell=full, stage="execute")]


def done(name: str, outcome: Outcome) -> Done:
    return Done(cell=f"torch.{name}.f32@nvidia-gpu", outcome=outcome)


def last(told: Notebook, name: str) -> Outcome:
    return told.last(f"torch.{name}.f32@nvidia-gpu").outcome


def first_job(script: Callable[[Job], Iterator[Step]]) -> Callable[[Job], Iterator[Step]]:
    """`script` for the first job; in those after it every cell passes."""
    seen: list[Job] = []

    def play(job: Job) -> Iterator[Step]:
        seen.append(job)
        yield from script(job) if len(seen) == 1 else Play()(job)

    return play


def ids(job: Job) -> list[str]:
    return [c.id.split(".")[1] for c in job.cells]
