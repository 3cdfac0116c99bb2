"""Registered agents."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from orchestrator.errors import DefinitionError
from orchestrator.fleet import public
from orchestrator.fleet.agents import Fleet, key_state, load_fleet, public_key
from orchestrator.fleet.terms import Request, why_not
from tests.config.tree import Tree, make_tree
from tests.fleet.samples import AGENT, FILE, KEY_A, KEY_B, KEY_C, write_agents


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """The sample repository, with one agent."""
    tree = make_tree(tmp_path)
    write_agents(tmp_path)
    return tree


def problems(tree: Tree) -> list[str]:
    """What loading tells, a line each."""
    try:
        load_fleet(tree.root)
    except DefinitionError as error:
        return [str(problem) for problem in error.problems]
    return []


def test_a_repository_without_agents(tmp_path: Path) -> None:
    make_tree(tmp_path)
    assert load_fleet(tmp_path) == Fleet(agents={}, orchestrator=None)


def test_a_whole_agent(tree: Tree) -> None:
    fleet = load_fleet(tree.root)
    agent = fleet.agents["intel-lab-1"]
    assert (agent.vendor, agent.name, agent.backend) == ("intel", "lab-1", "buildbot")
    assert agent.terms.disk == 20 << 30
    assert agent.terms.time == 3600.0
    assert agent.keys[0].until == dt.date(2027, 11, 1)
    assert agent.revoked[0].reason == "the disk was lost"
    assert fleet.orchestrator is not None
    assert fleet.orchestrator.repositories == ("https://example.org/lighthouse",)


def line(text: str) -> int:
    """Where a text stands in the sample."""
    return AGENT[: AGENT.index(text)].count("\n") + 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("pools: [intel-cpu]", "pools: [inter-cpu]", "no pool `inter-cpu`. Did you mean `intel-cp"),
        ("pools: [intel-cpu]", "pools: [intel-cpu, intel-cpu]", "`intel-cpu` is here twice"),
        ('["torch_*"]', "[torhc_cpu]", "no pipeline `torhc_cpu`. Did you mean `torch_cpu`?"),
        ("pools: [intel-cpu]", "pools: [arm-cpu]", "none of these pipelines runs on a pool"),
        ("name: lab-1", "name: lab-2", "this is agent `intel-lab-2`: name the file agents/intel-l"),
        ("22:00-06:00", "22:00-26:00", "expected hours in UTC such as `22:00-06:00`, got"),
        ("22:00-06:00", "22:00-22:00", "begins when it ends"),
        (KEY_A, "ed25519:AAAA", "expected a public key as `lh-ci keys show` prints it"),
        (KEY_A, KEY_A[:-2] + "h=", "expected a public key"),
        (KEY_A, KEY_B, "this key is revoked below: take it out here"),
        (KEY_A, KEY_C, "this key is in agents/_orchestrator.yaml too"),
        ("until: 2027-11-01", "until: 2026-10-01", "the key ends on 2026-10-01, before it begins"),
        ("backend: buildbot", "backend: buildbto", "Did you mean `buildbot`?"),
        ("level: probation", "levle: probation", "unknown key. Did you mean `level`?"),
        ("vendor: intel", "vendor: In-tel", "a vendor's name is lower-case letters and digits"),
        ("jobs: 2", "jobs: 0", "terms.jobs: must be at least 1, got the number 0"),
        ("disk: 20GiB", "disk: 20", "expected a size such as `512MiB` or `4GiB`"),
        ("contact: ci@example.org\n", "", "missing key `contact`"),
    ],
)
def test_what_is_wrong_is_told(tree: Tree, old: str, new: str, said: str) -> None:
    tree.edit(FILE, old, new)
    told = problems(tree)
    assert any(said in each for each in told), told
    assert all(each.startswith("agents/") for each in told)


def test_problems_have_their_place_and_come_all_at_once(tree: Tree) -> None:
    tree.edit(FILE, "[intel-cpu]", "[intel-cpu, amd-cup]")
    tree.edit(FILE, '["torch_*"]', '["torch_*", jax_cpu]')
    tree.edit(FILE, "forks: approved", "forks: always")
    first, second, third = problems(tree)
    assert first.startswith(f"{FILE}:{line('pools')}:20  pools[1]: no pool `amd-cup`. Did you mean")
    assert second.startswith(f"{FILE}:{line('  pipelines')}:26  terms.pipelines[1]: no pipeline")
    assert third.startswith(f"{FILE}:{line('  forks')}:10  terms.forks: expected one of `never`")


def test_a_broken_matrix_is_not_told_here(tree: Tree) -> None:
    tree.edit("matrix.yaml", "defaults:", "defautls:")
    assert problems(tree) == []


def test_two_agents_do_not_share_a_key(tree: Tree) -> None:
    tree.write("agents/intel-lab-2.yaml", AGENT.replace("lab-1", "lab-2"))
    told = problems(tree)
    assert len(told) == 2  # the key that counts, and the revoked one
    assert all(f"this key is in {FILE} too" in each for each in told)


def test_states_of_keys(tree: Tree) -> None:
    agent = load_fleet(tree.root).agents["intel-lab-1"]
    mine, lost, other = map(public.fingerprint, (KEY_A, KEY_B, KEY_C))

    def state(key: str, *day: int) -> str:
        return key_state(agent, key, dt.date(*day))

    assert state(mine, 2026, 10, 31) == "early"
    assert state(mine, 2026, 11, 1) == "valid"
    assert state(mine, 2027, 11, 1) == "valid"
    assert state(mine, 2027, 11, 2) == "expired"
    assert state(lost, 2026, 1, 1) == "revoked"
    assert state(other, 2026, 11, 20) == "unknown"
    assert public_key(agent, mine) == KEY_A
    assert public_key(agent, lost) == KEY_B
    assert public_key(agent, other) == ""


NIGHT = dt.datetime(2026, 11, 20, 23, 30, tzinfo=dt.UTC)


def request(**changed: object) -> Request:
    """A job that the sample takes."""
    values: dict[str, object] = {
        "pool": "intel-cpu",
        "pipelines": ("torch_cpu",),
        "branch": "main",
        "commit": "0123456789abcdef",
        "fork": False,
        "approved": False,
        "disk_bytes": 1 << 30,
        "seconds": 600.0,
        **changed,
    }
    return Request(**values)  # type: ignore[arg-type]


def reasons(
    tree: Tree, *, now: dt.datetime = NIGHT, running: int = 0, **changed: object
) -> tuple[str, ...]:
    """Why the sample does not take a job."""
    agent = load_fleet(tree.root).agents["intel-lab-1"]
    return why_not(agent, request(**changed), now=now, running=running)


def test_a_job_within_the_terms(tree: Tree) -> None:
    assert reasons(tree) == ()
    assert reasons(tree, branch="release/22", running=1) == ()
    assert reasons(tree, fork=True, approved=True) == ()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"pool": "amd-cpu"}, "does not serve pool amd-cpu"),
        ({"pipelines": ("torch_cpu", "jax_cpu")}, "does not run pipeline jax_cpu (runs torch_*)"),
        ({"branch": "users/me"}, "does not run branch users/me (runs main, release/*)"),
        ({"fork": True}, "commit 0123456789ab of a fork was not approved by a maintainer"),
        ({"disk_bytes": 21 << 30}, "needs 21.0 GiB of disk, and a job may take 20.0 GiB"),
        ({"seconds": 3601.0}, "may take 1 h 00 min, and its owner allows 1 h 00 min"),
        ({"running": 2}, "it has 2 jobs, and its owner allows 2"),
        ({"now": NIGHT.replace(hour=12)}, "jobs begin at 22:00-06:00 UTC, and it is 12:30"),
    ],
)
def test_a_job_outside_of_the_terms(tree: Tree, changed: dict[str, object], said: str) -> None:
    (reason,) = reasons(tree, **changed)  # type: ignore[arg-type]
    assert said in reason


def test_all_reasons_at_once(tree: Tree) -> None:
    assert len(reasons(tree, pool="x", branch="y", running=9, now=NIGHT.replace(hour=9))) == 4


def test_forks_may_be_left_out_altogether(tree: Tree) -> None:
    tree.edit(FILE, "forks: approved", "forks: never")
    assert reasons(tree, fork=True, approved=True) == ("its owner runs no code of forks",)


@pytest.mark.parametrize(
    ("hours", "clock", "inside"),
    [
        ("22:00-06:00", (22, 0), True),
        ("22:00-06:00", (5, 59), True),
        ("22:00-06:00", (6, 0), False),
        ("08:00-12:00", (8, 0), True),
        ("08:00-12:00", (12, 0), False),
        ("00:00-24:00", (23, 59), True),
    ],
)
def test_windows(tree: Tree, hours: str, clock: tuple[int, int], inside: bool) -> None:
    tree.edit(FILE, "22:00-06:00", hours)
    now = NIGHT.replace(hour=clock[0], minute=clock[1])
    assert (reasons(tree, now=now) == ()) is inside
    # the same moment, told in another time zone
    there = now.astimezone(dt.timezone(dt.timedelta(hours=9)))
    assert (reasons(tree, now=there) == ()) is inside
