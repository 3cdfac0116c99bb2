"""What a failure on a GPU comes to, given what was seen of the GPU from outside."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from orchestrator.backends.device import HOLD_S
from orchestrator.health.evidence import Evidence, Vendor
from orchestrator.health.look import Look
from orchestrator.job import Alive, Job, Outcome
from tests.backends.gpus import (
    BAD_MEMORY,
    CLEANED_UP,
    CRASHED,
    ILLEGAL_ADDRESS,
    LATE,
    RING,
    WRONG,
    Lab,
    done,
    executing,
    first_job,
    gpu_job,
    ids,
    last,
)
from tests.backends.samples import Notebook
from tests.fakes import (
    HELLO,
    PASS,
    FakeGpus,
    FakeMonitor,
    Step,
    Wait,
    cell_steps,
    fail,
)


@pytest.mark.parametrize("outcome", [LATE, CRASHED, WRONG])
def test_a_failure_beside_a_device_fault_is_no_verdict(lab: Lab, outcome: Outcome) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        lab.gpus.say(BAD_MEMORY)
        yield done("a", outcome)

    lab.engine.script = script
    told = lab.run(gpu_job("a"), retries=0)
    assert last(told, "a").status == "miss"
    assert last(told, "a").message == (
        f"GPU fault seen from outside: {BAD_MEMORY.text}\n{outcome.message}"
    )
    assert last(told, "a").phase == outcome.phase
    assert told.last("torch.a.f32@nvidia-gpu").evidence[0] == BAD_MEMORY


def test_a_fault_that_is_logged_right_after_the_end_counts(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        yield done("a", CRASHED)
        lab.gpus.say(BAD_MEMORY)
        yield from executing("b")
        yield Wait(2.0)
        yield Wait(2.0)
        yield done("b", PASS)

    lab.engine.script = first_job(script)
    told = lab.run(gpu_job("a", "b"), retries=0)
    assert last(told, "a").status == "miss"
    assert told.attempts[0].seconds == pytest.approx(0.2)


def test_a_fault_that_is_logged_when_the_job_has_ended_counts(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        yield done("a", CRASHED)

    def sleep(seconds: float) -> None:
        lab.engine.time.advance(seconds)
        lab.gpus.say(BAD_MEMORY)

    clock = dataclasses.replace(lab.engine.time.clock(), sleep=sleep)
    lab.engine.script = script
    lab.engine.time.clock = lambda: clock  # type: ignore[method-assign]
    assert last(lab.run(gpu_job("a"), retries=0), "a").status == "miss"


def test_what_the_program_did_wrong_stays_its_failure(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        lab.gpus.say(ILLEGAL_ADDRESS, ILLEGAL_ADDRESS, CLEANED_UP)
        yield done("a", CRASHED)
        yield from executing("b")
        yield done("b", PASS)

    lab.engine.script = script
    told = lab.run(gpu_job("a", "b"))
    attempt = told.last("torch.a.f32@nvidia-gpu")
    assert attempt.outcome == CRASHED
    assert attempt.evidence == (ILLEGAL_ADDRESS, CLEANED_UP)
    assert last(told, "b") == PASS
    assert len(lab.engine.jobs) == 1
    assert not lab.engine.sessions[0].killed


def test_a_death_beside_something_unclear_is_no_verdict(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        lab.gpus.say(RING)
        yield done("a", CRASHED)

    lab.engine.script = script
    told = lab.run(gpu_job("a"), retries=0)
    assert last(told, "a").status == "miss"
    assert "lh-ci run 'torch.a.f32@software-gpu*'" in last(told, "a").message


@pytest.mark.parametrize("seen", [(), (CLEANED_UP,)])
def test_a_hang_is_no_verdict_and_says_what_would_be_one(
    lab: Lab, seen: tuple[Evidence, ...]
) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        yield Wait(60.0)
        yield done("a", LATE)
        lab.gpus.say(*seen)
        yield from executing("b")
        while True:
            yield Wait(1.0)

    lab.engine.script = first_job(script)
    told = lab.run(gpu_job("a", "b", "c"))
    first = told.attempts[0].outcome
    assert (first.status, first.phase) == ("miss", "execute")
    assert first.message.splitlines() == [
        (
            "A kernel that never ends and a GPU that hangs look the same from outside, so this "
            "is no verdict: it is the program if the same happens on another GPU of this kind, "
            "or on the software GPU: lh-ci run 'torch.a.f32@software-gpu*'"
        ),
        LATE.message,
    ]
    # the next cell is not left to a GPU that may hang, and loses no attempt
    assert [ids(j) for j in lab.engine.jobs] == [["a", "b", "c"], ["b", "c"], ["a"]]
    assert [(c.split(".")[1], n, s) for c, n, s, _ in told.story()] == [
        ("a", 1, "miss"),
        ("b", 1, "pass"),
        ("c", 1, "pass"),
        ("a", 2, "pass"),
    ]


def test_the_last_cell_of_a_job_that_hangs_goes_by_itself_too(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        full = Outcome(status="miss", phase="ingress", message="no space left on the device")
        yield from cell_steps("torch.a.f32@nvidia-gpu", full)
        yield from executing("b")
        yield done("b", LATE)

    lab.engine.script = first_job(script)
    lab.run(gpu_job("a", "b"))
    assert [ids(j) for j in lab.engine.jobs] == [["a", "b"], ["a"], ["b"]]


def test_a_hang_that_the_program_explains_is_its_failure(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        lab.gpus.say(ILLEGAL_ADDRESS)
        yield Wait(60.0)
        yield done("a", LATE)

    lab.engine.script = script
    assert last(lab.run(gpu_job("a")), "a") == LATE


@pytest.mark.parametrize(
    ("busy", "text"),
    [
        (100, "a GPU was busy for the last 54 s at least"),
        (0, "no GPU was busy: the host's code or the driver waited"),
    ],
)
def test_a_hang_tells_whether_the_gpu_was_busy(lab: Lab, busy: int, text: str) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        lab.gpus.busy = busy
        for _ in range(59):
            yield Wait(1.0)
        yield done("a", LATE)
        lab.gpus.busy = 0  # it was killed

    lab.engine.script = script
    told = lab.run(gpu_job("a"), retries=0)
    assert told.attempts[0].evidence == (Evidence(kind="busy", blame="nobody", text=text),)
    assert bool(told.notes) == bool(busy)
    assert all("has been busy for" in note and "torch.a.f32" in note for note in told.notes)


@pytest.mark.parametrize(
    "outcome", [fail("refused", "lower:gpu-map"), fail("cannot be loaded", "codegen"), PASS]
)
def test_what_no_device_had_a_part_in_is_told_at_once(lab: Lab, outcome: Outcome) -> None:
    told: list[Notebook] = [Notebook()]

    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        yield done("a", outcome)
        yield Wait(0.0)
        assert [a.outcome for a in told[0].attempts] == [outcome]

    lab.engine.script = script
    lab.run(gpu_job("a"), notebook=told[0])
    assert told[0].attempts[0].evidence == ()


def test_a_verdict_does_not_wait_for_a_look_that_never_comes(lab: Lab) -> None:
    class Blind(FakeMonitor):
        def wait(self, limit_s: float) -> tuple[Look, ...]:
            return ()

    class Hung(FakeGpus):
        def __call__(self, vendor: Vendor) -> FakeMonitor:
            self.open += 1
            return Blind(self)

    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        yield done("a", CRASHED)
        yield from executing("b")
        for _ in range(int(HOLD_S) + 2):
            yield Wait(1.0)
            yield Alive(running=())
        seen.append([a.outcome.message for a in told.attempts])
        yield done("b", CRASHED)

    seen: list[list[str]] = []
    told = Notebook()
    lab.gpus = Hung(lab.engine.time)
    lab.engine.script = script
    lab.run(gpu_job("a", "b"), notebook=told)
    assert seen == [[CRASHED.message]]
    assert last(told, "b") == CRASHED


def test_evidence_from_before_a_cell_is_not_held_against_it(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        lab.gpus.say(ILLEGAL_ADDRESS)
        yield done("a", CRASHED)
        yield Wait(10.0)
        yield from executing("b")
        yield done("b", WRONG)

    lab.engine.script = script
    told = lab.run(gpu_job("a", "b"))
    assert told.last("torch.b.f32@nvidia-gpu").evidence == ()
