"""GPUs that fall ill under a job, and what is done before the next one uses them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from orchestrator.backends.recovery import WAIT_S
from orchestrator.engines.base import Exit
from orchestrator.host import Gpu
from orchestrator.job import Alive, Job, Outcome
from tests.backends.gpus import (
    BAD_MEMORY,
    CRASHED,
    ILLEGAL_ADDRESS,
    LATE,
    NO_LOG,
    OFF_THE_BUS,
    RESET,
    RING,
    Lab,
    done,
    executing,
    first_job,
    gpu_job,
    ids,
    last,
)
from tests.backends.samples import run
from tests.fakes import (
    HELLO,
    PASS,
    Step,
    Wait,
    cell_steps,
)


def test_a_device_fault_ends_the_job_within_a_minute_and_spares_the_others(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from cell_steps("torch.a.f32@nvidia-gpu", PASS)
        yield from executing("b")
        for _ in range(10):
            yield Wait(30.0)
            yield Alive(running=("b",))
        lab.gpus.say(OFF_THE_BUS)
        struck.append(lab.engine.time.seconds)
        while True:
            yield Wait(1.0)
            yield Alive(running=("b",))

    struck: list[float] = []
    lab.engine.script = first_job(script)
    told = lab.run(gpu_job("a", "b", "c", "d", timeout_s=7200.0))
    b = told.attempts[1]
    assert (b.cell.id, b.outcome.status, b.outcome.phase) == (
        "torch.b.f32@nvidia-gpu",
        "miss",
        "execute",
    )
    assert b.outcome.message == f"GPU fault seen from outside: {OFF_THE_BUS.text}"
    assert b.evidence == (OFF_THE_BUS,)
    assert lab.engine.sessions[0].killed
    assert b.started.timestamp() + b.seconds - lab.engine.time.start.timestamp() <= (
        struck[0] - 1000.0 + 60.0
    )
    # the others have lost no attempt, and go before the suspect
    assert [ids(j) for j in lab.engine.jobs] == [["a", "b", "c", "d"], ["c", "d"], ["b"]]
    assert [(n, s) for _, n, s, _ in told.story()] == [
        (1, "pass"),
        (1, "miss"),
        (1, "pass"),
        (1, "pass"),
        (2, "pass"),
    ]


def test_a_device_that_does_not_come_back_costs_the_rest_one_attempt_each(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        lab.gpus.say(OFF_THE_BUS)
        lab.gpus.answered = False
        for _ in range(60):
            yield Wait(1.0)
            yield Alive(running=())

    lab.engine.script = script
    told = lab.run(gpu_job("a", "b"), gpu_job("c", name="run.other"))
    assert len(lab.engine.jobs) == 1
    assert [(c.split(".")[1], n, s, f) for c, n, s, f in told.story()] == [
        ("a", 1, "miss", False),
        ("c", 1, "miss", True),
        ("b", 1, "miss", True),
        ("a", 2, "miss", True),
    ]
    for name in "abc":
        assert last(told, name).phase == "build"
        assert last(told, name).message == (
            "never started: the device did not come back: the NVIDIA GPU was waited for 60 s, "
            f"after: GPU fault seen from outside: {OFF_THE_BUS.text}"
        )
    # it was waited for once, not for each job
    assert lab.engine.time.seconds < 1000.0 + 30.0 + WAIT_S + 10.0
    assert told.notes == [
        (
            "waiting for the NVIDIA GPU to answer, after: GPU fault seen from outside: "
            f"{OFF_THE_BUS.text}"
        )
    ]


def test_a_device_is_waited_for_until_it_answers(lab: Lab) -> None:
    lab.gpus.answered = False

    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        lab.gpus.say(BAD_MEMORY)
        yield Wait(6.0)
        yield Wait(6.0)

    def sleep(seconds: float) -> None:
        lab.engine.time.advance(seconds)
        lab.gpus.answered = lab.engine.time.seconds > fell_ill + 20.0

    fell_ill = lab.engine.time.seconds
    clock = dataclasses.replace(lab.engine.time.clock(), sleep=sleep)
    lab.engine.script = first_job(script)
    lab.engine.time.clock = lambda: clock  # type: ignore[method-assign]
    told = lab.run(gpu_job("a"))
    assert last(told, "a").status == "pass"
    assert any("the NVIDIA GPU answers again" in note for note in told.notes)


def test_a_gpu_off_the_bus_has_to_prove_that_it_is_there(lab: Lab) -> None:
    lab.gpus.answered = None  # there is no tool to ask

    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        lab.gpus.say(fault)
        yield Wait(6.0)
        yield Wait(6.0)

    fault = OFF_THE_BUS
    lab.engine.script = first_job(script)
    assert last(lab.run(gpu_job("a")), "a").status == "miss"
    # a fault that leaves it there needs no such proof
    fault = BAD_MEMORY
    lab.engine.script = first_job(script)
    assert last(lab.run(gpu_job("a")), "a").status == "pass"


def test_a_reset_that_the_program_brought_about_is_the_programs(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        lab.gpus.say(ILLEGAL_ADDRESS)
        yield Wait(6.0)
        lab.gpus.say(RING, RESET)
        yield Wait(6.0)
        yield done("a", CRASHED)

    lab.engine.script = script
    assert last(lab.run(gpu_job("a")), "a") == CRASHED


def test_a_reset_of_unknown_cause_ends_the_job(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        lab.gpus.say(RING, RESET)
        for _ in range(30):
            yield Wait(1.0)
            yield Alive(running=())

    lab.engine.script = script
    told = lab.run(gpu_job("a"), retries=0)
    assert last(told, "a").status == "miss"
    assert RESET.text in last(told, "a").message
    assert lab.engine.sessions[0].killed


def test_a_fault_that_the_runtime_saw_itself_puts_the_device_in_doubt(lab: Lab) -> None:
    inside = Outcome(status="miss", phase="execute", message="CUDA_ERROR_ECC_UNCORRECTABLE")

    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        lab.gpus.say(BAD_MEMORY)
        yield done("a", inside)
        yield from executing("b")
        while True:
            yield Wait(1.0)

    lab.engine.script = first_job(script)
    told = lab.run(gpu_job("a", "b"))
    assert told.attempts[0].outcome == inside
    assert told.attempts[0].evidence == (BAD_MEMORY,)
    assert [last(told, name).status for name in "ab"] == ["pass", "pass"]
    assert told.last("torch.b.f32@nvidia-gpu").number == 1


def test_a_container_that_vanished_is_told_with_what_was_seen(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        lab.gpus.say(NO_LOG, RING)
        yield Wait(6.0)
        yield Exit(code=137, reason="killed")

    lab.engine.script = script
    told = lab.run(gpu_job("a"), retries=0)
    assert told.attempts[0].outcome.message == "the job ended under this cell: killed"
    assert told.attempts[0].evidence == (RING, NO_LOG)


def test_without_a_device_nothing_is_watched(lab: Lab) -> None:
    """Software GPUs and code that is only assembled: a hang there is the program's."""

    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from executing("a")
        lab.gpus.say(OFF_THE_BUS)
        yield Wait(20.0)
        yield done("a", LATE)

    lab.engine.script = script
    told = lab.run(dataclasses.replace(gpu_job("a"), device=""))
    assert last(told, "a") == LATE
    assert told.attempts[0].gpu == {}
    assert lab.gpus.opened == []


def test_results_know_their_gpu(lab: Lab) -> None:
    gpus = (
        Gpu(vendor="amd", name="Radeon", chip="gfx1100"),
        Gpu(vendor="nvidia", name="NVIDIA H100", chip="sm_90", driver_version="550.54"),
    )
    told = lab.run(gpu_job("a"), gpus=gpus)
    assert told.attempts[0].gpu == {
        "gpu_name": "NVIDIA H100",
        "gpu_chip": "sm_90",
        "gpu_driver": "550.54",
    }


def test_an_interrupt_lets_go_of_the_gpus(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield KeyboardInterrupt()

    lab.engine.script = script
    with pytest.raises(KeyboardInterrupt):
        run(lab.engine, gpu_job("a"), monitors=lab.gpus)
    assert (lab.gpus.opened, lab.gpus.open) == (["nvidia"], 0)
