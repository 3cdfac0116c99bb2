"""The local backend against every way in which a job can end."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from orchestrator.engines.base import Exit
from orchestrator.errors import DefinitionError, InfrastructureError, LighthouseError
from orchestrator.job import Alive, Artifact, Broken, Done, Job, Outcome, StageBegan, Started
from tests.backends.samples import Notebook, cell, job, run
from tests.fakes import HELLO, ISOLATION, PASS, FakeEngine, Play, Step, Wait, cell_steps, fail

MISS = Outcome(status="miss", phase="execute", message="no space left on the device")


def test_every_cell_passes() -> None:
    engine = FakeEngine()
    told = run(engine, job("a", "b"))
    assert told.story() == [("a", 1, "pass", True), ("b", 1, "pass", True)]
    attempt = told.last("b")
    assert attempt.environment is not None
    assert attempt.environment.reference == "lh/pytorch:3f9c2a1"
    assert attempt.hello == HELLO
    assert attempt.isolation == ISOLATION
    assert attempt.argv == ("python", "-m", "orchestrator.harness", "/job")
    assert attempt.seconds == pytest.approx(0.3)
    assert attempt.started == engine.time.start.replace(second=16, microsecond=600000)
    (session,) = engine.sessions
    assert session.closed
    assert not session.killed
    ((name, seconds),) = told.starts
    assert name == "run.pytorch"
    assert seconds == pytest.approx(0.1)


def test_a_stack_is_prepared_once_for_all_its_jobs_and_before_any_runs() -> None:
    engine = FakeEngine()
    run(engine, job("a"), job("b"), job("c", stack="jax"))
    assert [stack for stack, _ in engine.prepared] == ["pytorch", "jax"]
    assert [j.cells[0].id for j in engine.jobs] == ["a", "b", "c"]


def test_failures_and_errors_are_not_tried_again() -> None:
    error = Outcome(status="error", phase="ingress", message="raised")
    told = run(FakeEngine(Play({"a": [fail()], "b": [error]})), job("a", "b"))
    assert told.story() == [("a", 1, "fail", True), ("b", 1, "error", True)]


def test_a_miss_is_tried_again_in_a_new_job_until_it_has_a_verdict() -> None:
    engine = FakeEngine(Play({"a": [MISS, MISS, PASS]}))
    told = run(engine, job("a", "b"))
    assert told.story() == [
        ("a", 1, "miss", False),
        ("b", 1, "pass", True),
        ("a", 2, "miss", False),
        ("a", 3, "pass", True),
    ]
    assert [j.id for j in engine.jobs] == ["run.pytorch", "run.pytorch.r1", "run.pytorch.r2"]
    assert [[c.id for c in j.cells] for j in engine.jobs] == [["a", "b"], ["a"], ["a"]]


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_a_miss_that_stays_is_tried_again_so_many_times(retries: int) -> None:
    engine = FakeEngine(Play({"a": [MISS]}))
    told = run(engine, job("a"), retries=retries)
    assert len(engine.jobs) == retries + 1
    assert [a.final for a in told.attempts] == [False] * retries + [True]


def test_attempts_of_a_resumed_run_are_counted_on() -> None:
    told = run(FakeEngine(Play({"a": [MISS, PASS]})), job("a", "b"), attempts={"a": 3})
    assert [(c, n) for c, n, _, _ in told.story()] == [("a", 4), ("b", 1), ("a", 5)]


def test_a_broken_stack_is_a_miss_of_all_cells_with_its_message() -> None:
    def script(job: Job) -> Iterator[Step]:
        yield Broken(message="ModuleNotFoundError: no torch_mlir")
        yield Exit(code=3, reason="exit 3", stderr_tail="Traceback …")

    told = run(FakeEngine(script), job("a", "b"), retries=0)
    assert [s for _, _, s, _ in told.story()] == ["miss", "miss"]
    outcome = told.last("a").outcome
    assert (outcome.phase, outcome.message) == ("build", "ModuleNotFoundError: no torch_mlir")
    assert outcome.last_words == "Traceback …"


def test_a_job_that_dies_early_spoils_only_what_had_not_ended() -> None:
    def script(job: Job) -> Iterator[Step]:
        if len(job.cells) < 4:
            yield from Play()(job)
            return
        yield HELLO
        yield from cell_steps("a", PASS)
        yield Started(cell="b")
        yield StageBegan(cell="b", stage="lower:tile")
        yield Exit(code=137, reason="killed: out of memory (limit 8 GiB)", stderr_tail="dying")

    engine = FakeEngine(script)
    told = run(engine, job("a", "b", "c", "d"))
    b, c = told.attempts[1].outcome, told.attempts[2].outcome
    assert (b.status, b.phase) == ("miss", "lower:tile")
    assert b.message == "the job ended under this cell: killed: out of memory (limit 8 GiB)"
    assert b.last_words == "dying"
    assert (c.status, c.phase) == ("miss", "build")
    assert c.message == (
        "never started: the job ended while b ran: killed: out of memory (limit 8 GiB)"
    )
    # the suspect goes by itself, after the others
    assert [[c.id for c in j.cells] for j in engine.jobs[1:]] == [["c", "d"], ["b"]]
    assert told.story()[4:] == [
        ("c", 2, "pass", True),
        ("d", 2, "pass", True),
        ("b", 2, "pass", True),
    ]


def test_a_cell_that_always_takes_its_job_down_costs_the_others_nothing() -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        for each in job.cells:
            if each.id == "poison":
                yield Started(cell="poison")
                yield Exit(code=137, reason="killed")
                return
            yield from cell_steps(each.id, PASS)

    told = run(FakeEngine(script), job("poison", "a", "b"))
    assert told.last("poison").outcome.status == "miss"
    assert told.last("poison").number == 3
    assert [told.last(c).outcome.status for c in "ab"] == ["pass", "pass"]


def test_a_harness_that_lets_a_deadline_pass_is_killed_and_the_others_go_on() -> None:
    def script(job: Job) -> Iterator[Step]:
        if job.id != "run.pytorch":
            yield from Play()(job)
            return
        yield HELLO
        yield Started(cell="slow")
        yield StageBegan(cell="slow", stage="codegen")
        yield Started(cell="beside")
        yield StageBegan(cell="beside", stage="ingress")
        while True:
            yield Wait(1.0)
            yield Alive(running=("slow", "beside"))

    slow, beside = cell("slow", timeout_s=10.0), cell("beside", timeout_s=100.0)
    engine = FakeEngine(script)
    told = run(engine, dataclasses.replace(job("waiting"), cells=(slow, beside, cell("waiting"))))
    assert engine.sessions[0].killed
    first = told.attempts[0]
    assert (first.cell.id, first.outcome.status, first.outcome.phase) == ("slow", "miss", "codegen")
    assert first.outcome.message == (
        "the harness stopped answering: nothing about this cell 15 s after its deadline of 10 s"
    )
    assert 25.0 < first.seconds < 27.5
    # what we killed along with it has lost no attempt
    assert told.story()[1:] == [
        ("beside", 1, "pass", True),
        ("waiting", 1, "pass", True),
        ("slow", 2, "pass", True),
    ]


def test_a_cell_that_ends_within_the_grace_is_taken_as_it_is() -> None:
    late = Outcome(status="fail", phase="execute", message="no answer within 10 s")

    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield Started(cell="a")
        for _ in range(20):
            yield Wait(1.0)
            yield Alive(running=("a",))
        yield Done(cell="a", outcome=late)

    told = run(FakeEngine(script), dataclasses.replace(job(), cells=(cell("a", timeout_s=10.0),)))
    assert told.last("a").outcome == late


def test_a_silent_harness_is_killed() -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield Started(cell="a")
        yield StageBegan(cell="a", stage="execute")
        for _ in range(1000):
            yield Wait(1.0)

    engine = FakeEngine(script)
    told = run(engine, dataclasses.replace(job(), cells=(cell("a", 600.0), cell("b"))), retries=0)
    assert engine.sessions[0].killed
    outcome = told.last("a").outcome
    assert (outcome.status, outcome.phase) == ("miss", "execute")
    assert outcome.message == "the harness stopped answering: not a word for 60 s"
    assert engine.time.seconds < 1000 + 5 + 63 + 63


def test_heartbeats_keep_a_quiet_job_alive() -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield Started(cell="a")
        for _ in range(20):
            yield Wait(50.0)
            yield Alive(running=("a",))
        yield Done(cell="a", outcome=PASS)

    told = run(FakeEngine(script), dataclasses.replace(job(), cells=(cell("a", 7200.0),)))
    assert told.story() == [("a", 1, "pass", True)]


def test_a_harness_that_never_answers_is_killed() -> None:
    def script(job: Job) -> Iterator[Step]:
        for _ in range(1000):
            yield Wait(1.0)

    engine = FakeEngine(script)
    told = run(engine, job("a", "b"), retries=0)
    assert engine.sessions[0].killed
    for name in "ab":
        outcome = told.last(name).outcome
        assert (outcome.status, outcome.phase) == ("miss", "build")
        assert outcome.message == "the harness did not answer within 180 s of its start"


def test_time_in_which_nobody_could_look_counts_against_nobody() -> None:
    """Ctrl-Z, a machine that is paused, a clock that jumps."""

    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield Started(cell="a")
        yield Wait(3600.0)
        yield Alive(running=("a",))
        yield Done(cell="a", outcome=PASS)

    told = run(FakeEngine(script), job("a"))
    assert told.story() == [("a", 1, "pass", True)]
    assert told.last("a").seconds < 60.0
    (note,) = told.notes
    assert note.startswith("job run.pytorch: nothing was looked at for 3600 s")


def test_a_stack_that_nothing_can_be_started_in_is_prepared_again() -> None:
    engine = FakeEngine()
    engine.start_errors = [InfrastructureError("the image was removed after it was made ready")]
    told = run(engine, job("a", "b"))
    assert [stack for stack, _ in engine.prepared] == ["pytorch", "pytorch"]
    assert [told.last(name).outcome.status for name in "ab"] == ["pass", "pass"]


def test_a_stack_that_cannot_be_prepared_again_is_told_once_more() -> None:
    class Gone(FakeEngine):
        def prepare(self, stack: str, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            if self.jobs:
                raise InfrastructureError("no engine answers")
            return super().prepare(stack, *args, **kwargs)  # type: ignore[arg-type]

    engine = Gone()
    engine.start_errors = [InfrastructureError("the engine stopped answering")]
    told = run(engine, job("a"), job("b"))
    assert [(c, n, final) for c, n, _, final in told.story()] == [
        ("a", 1, False),
        ("b", 1, True),
        ("a", 2, True),
    ]
    assert told.last("a").outcome.message == "no engine answers"


def test_an_engine_that_cannot_be_killed_is_left_behind() -> None:
    def script(job: Job) -> Iterator[Step]:
        while True:
            yield Wait(1.0)

    class Stubborn(FakeEngine):
        def start(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            session = super().start(*args, **kwargs)  # type: ignore[arg-type]
            session.kill = lambda: None  # type: ignore[method-assign]
            return session

    told = run(Stubborn(script), job("a"), retries=0)
    assert told.last("a").outcome.status == "miss"


def test_an_engine_that_dies_under_way_is_a_miss_with_its_reason() -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from cell_steps("a", PASS)
        yield Started(cell="b")
        yield InfrastructureError("the engine stopped answering")

    told = run(FakeEngine(script), job("a", "b"), retries=0)
    assert [s for _, _, s, _ in told.story()] == ["pass", "miss"]
    assert told.last("b").outcome.message.endswith("the engine stopped answering")


def test_a_job_that_cannot_be_started_is_a_miss_and_tried_again() -> None:
    engine = FakeEngine()
    engine.start_errors = [InfrastructureError("no such image"), InfrastructureError("again")]
    told = run(engine, job("a"))
    assert told.story() == [
        ("a", 1, "miss", False),
        ("a", 2, "miss", False),
        ("a", 3, "pass", True),
    ]
    first = told.attempts[0]
    assert (first.outcome.phase, first.outcome.message) == ("build", "no such image")
    assert first.isolation is None
    assert first.hello is None


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DefinitionError("torch 9.9.9 does not exist"), "error"),
        (InfrastructureError("no index answers"), "miss"),
    ],
)
def test_a_stack_that_cannot_be_made_ready_is_told_once_for_each_cell(
    error: LighthouseError, status: str
) -> None:
    engine = FakeEngine()
    engine.prepare_error = error
    told = run(engine, job("a", "b"))
    assert told.story() == [("a", 1, status, True), ("b", 1, status, True)]
    assert told.last("a").outcome.message == str(error)
    assert told.last("a").outcome.phase == "build"
    assert told.last("a").environment is None
    assert engine.jobs == []


def test_another_stack_runs_when_one_cannot_be_made_ready() -> None:
    class HalfBroken(FakeEngine):
        def prepare(self, stack: str, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            if stack == "pytorch":
                raise InfrastructureError("no index answers")
            return super().prepare(stack, *args, **kwargs)  # type: ignore[arg-type]

    told = run(HalfBroken(), job("a"), job("b", stack="jax"))
    assert [(c, s) for c, _, s, _ in told.story()] == [("a", "miss"), ("b", "pass")]


def test_events_that_make_no_sense_are_ignored_and_noted_once() -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield Done(cell="stranger", outcome=PASS)
        yield from cell_steps("a", PASS)
        yield Done(cell="a", outcome=fail())
        yield Artifact(cell="a", name="late", data="")
        yield StageBegan(cell="b", stage="never started")
        yield from cell_steps("b", PASS)

    told = run(FakeEngine(script), job("a", "b"))
    assert told.story() == [("a", 1, "pass", True), ("b", 1, "pass", True)]
    assert told.artifacts == []
    assert told.notes == ["job run.pytorch: a `done` event that makes no sense was ignored"]


def test_artifacts_and_stages_know_their_attempt() -> None:
    play = Play({"a": [MISS, PASS]}, files={"x": b""})
    told = run(FakeEngine(play), job("a"))
    assert told.artifacts == [("x", 1), ("x", 2)]
    assert ("a", "codegen", 2) in told.began_stages


def test_enough_stops_at_once_and_reports_nothing_more() -> None:
    engine = FakeEngine()
    told = run(engine, job("a", "b"), job("c"), notebook=Notebook(stop_after=1))
    assert [c for c, _, _, _ in told.story()] == ["a"]
    assert engine.sessions[0].killed
    assert len(engine.jobs) == 1


def test_an_interrupt_closes_the_session_and_goes_on_up() -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from cell_steps("a", PASS)
        yield KeyboardInterrupt()

    engine = FakeEngine(script)
    told = Notebook()
    with pytest.raises(KeyboardInterrupt):
        run(engine, job("a", "b"), notebook=told)
    assert told.story() == [("a", 1, "pass", True)]
    assert engine.sessions[0].closed


def test_results_that_cannot_be_kept_end_everything_with_the_session_closed() -> None:
    class Full(Notebook):
        def attempted(self, attempt: object) -> None:
            raise InfrastructureError("cannot write: No space left on device")

    engine = FakeEngine()
    with pytest.raises(InfrastructureError, match="No space left"):
        run(engine, job("a", "b"), notebook=Full())
    assert engine.sessions[0].closed
