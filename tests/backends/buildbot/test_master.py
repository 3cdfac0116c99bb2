"""The configuration that Buildbot is given: checked by Buildbot itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("buildbot")

from orchestrator.backends.buildbot.fleet import make_fleet, parse_worker
from orchestrator.backends.buildbot.folders import write_master
from orchestrator.errors import UsageError
from tests.backends.buildbot.test_fleet import POOLS


def configure(folder: Path, *workers: str) -> dict[str, Any]:
    from orchestrator.backends.buildbot.master import configuration

    write_master(folder, make_fleet(POOLS, [parse_worker(text) for text in workers]))
    return configuration(str(folder))


def test_buildbot_takes_it(tmp_path: Path) -> None:
    from buildbot.config.master import MasterConfig

    raw = configure(tmp_path, "a=intel-cpu,nvidia-gpu;jobs=2", "b=intel-cpu")
    config = MasterConfig.loadFromDict(raw, "master.cfg")
    assert {b.name: sorted(b.workernames) for b in config.builders} == {
        "intel-cpu": ["a", "b"],
        "nvidia-gpu": ["a"],
    }
    assert {w.workername: w.max_builds for w in config.workers} == {"a": 2, "b": 1}
    assert list(config.schedulers) == ["dispatch"]
    assert config.collapseRequests is False


def test_one_gpu_runs_one_job(tmp_path: Path) -> None:
    raw = configure(tmp_path, "a=intel-cpu,nvidia-gpu,cross-nvidia")
    locks = {builder.name: builder.locks for builder in raw["builders"]}
    assert locks["intel-cpu"] == locks["cross-nvidia"] == []
    (access,) = locks["nvidia-gpu"]
    assert (access.mode, access.lockid.maxCount) == ("exclusive", 1)


def test_the_worker_runs_the_one_argv_and_hands_everything_back(tmp_path: Path) -> None:
    raw = configure(tmp_path, "a=intel-cpu")
    names = [step.kwargs["name"] for step in raw["builders"][0].factory.steps]
    assert names == ["job", "unpack", "exec", "pack", "results"]
    steps = {step.kwargs["name"]: step.kwargs for step in raw["builders"][0].factory.steps}
    assert steps["exec"]["command"] == ["lh-ci", "exec", "job/job.json", "--out", "out"]
    assert steps["results"]["alwaysRun"]
    assert steps["pack"]["alwaysRun"]
    assert steps["results"]["maxsize"] is not None


def test_a_password_that_others_can_read_stops_the_master(tmp_path: Path) -> None:
    from orchestrator.backends.buildbot.master import configuration

    configure(tmp_path, "a=intel-cpu")
    (tmp_path / "secrets" / "a.password").chmod(0o644)
    with pytest.raises(UsageError, match="others can read it"):
        configuration(str(tmp_path))


def test_no_password_is_in_the_configuration(tmp_path: Path) -> None:
    raw = configure(tmp_path, "a=intel-cpu")
    secret = (tmp_path / "secrets" / "a.password").read_text().strip()
    (worker,) = raw["workers"]
    assert secret not in repr(vars(worker))


def chosen(
    free: list[tuple[str, int]],
    tried: list[int],
    avoid: str,
    priorities: dict[str, int],
    agents: str = "",
) -> str | None:
    """The worker that a request gets."""
    from orchestrator.backends.buildbot.master import _next_worker

    def builds(path: object) -> list[dict[str, int]]:
        return [{"workerid": number} for number in tried]

    candidates = [
        SimpleNamespace(worker=SimpleNamespace(workername=name, workerid=number))
        for name, number in free
    ]
    given = {"avoid": avoid, "agents": agents}
    request = SimpleNamespace(id=7, properties=SimpleNamespace(getProperty=given.get))
    builder = SimpleNamespace(master=SimpleNamespace(data=SimpleNamespace(get=builds)))
    found: list[Any] = []
    _next_worker(priorities)(builder, candidates, request).addCallback(found.append)
    return str(found[0].worker.workername) if found[0] else None


def test_who_has_not_tried_a_job_comes_first_then_who_has_priority() -> None:
    free, priorities = [("a", 1), ("b", 2), ("c", 3)], {"a": 9, "b": 5, "c": 7}
    assert chosen(free, [], "", priorities) == "a"
    assert chosen(free, [1], "", priorities) == "c"
    assert chosen(free, [1], "c,d", priorities) == "b"
    assert chosen(free, [1, 2, 3], "", priorities) == "a"


def test_only_who_may_take_a_job_gets_it() -> None:
    free, priorities = [("a", 1), ("b", 2), ("c", 3)], {"a": 9, "b": 5, "c": 7}
    assert chosen(free, [], "", priorities, "b,c") == "c"
    assert chosen(free, [3], "", priorities, "b,c") == "b"
    assert chosen(free, [], "", priorities, "d") is None


def test_a_job_that_waits_for_a_busy_worker_holds_up_no_other() -> None:
    from orchestrator.backends.buildbot.master import _next_build

    def request(number: int, priority: int, agents: str) -> Any:
        properties = SimpleNamespace(getProperty={"agents": agents}.get)
        return SimpleNamespace(id=number, priority=priority, properties=properties)

    free = [SimpleNamespace(worker=SimpleNamespace(workername="a"))]
    builder = SimpleNamespace(getAvailableWorkers=lambda: free)
    urgent, late, early = request(1, 9, "b"), request(3, 5, "a"), request(2, 5, "")
    assert _next_build(builder, [urgent, late, early]) is early
    assert _next_build(builder, [urgent, late]) is late
    assert _next_build(builder, [urgent]) is None
