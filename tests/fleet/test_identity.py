"""A machine that is an agent: what it runs once, goes on with, refuses, and signs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.fleet import identity as identities
from orchestrator.fleet import keys
from orchestrator.fleet.bundle import DECLINED
from orchestrator.fleet.envelope import Journal, path_of, sign
from orchestrator.fleet.identity import Identity
from orchestrator.fleet.intake import Desk, is_signed, take
from orchestrator.fleet.refusal import Kind, Refusal
from tests.fleet.forge import NOW, agent
from tests.fleet.samples import write_agents
from tests.fleet.test_envelope import Machine

LAB = "intel-lab-1"


class Lab(Machine):
    """An agent's machine, with the folder of a job's results."""

    def __init__(self, root: Path) -> None:
        """It was handed a job."""
        super().__init__(root)
        self.out = root / "out"
        self.out.mkdir()
        (self.out / "order.json").write_text("{}")
        self.state = root / "agent"
        self.own = keys.make(self.state, LAB)
        self.deliver()

    def deliver(self, envelope: bytes | None = None) -> None:
        """Puts the warrant into the job's folder."""
        path = self.folder / path_of(LAB)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(sign(self.warrant, self.signers) if envelope is None else envelope)

    def me(self) -> Identity:
        """Anew, as another process has it."""
        return Identity(agent=agent("lab-1", self.own), trusted=self.trusted(), state=self.state)

    def begin(self, out: Path | None = None) -> Refusal | None:
        """As `lh-ci exec` does."""
        return self.me().begin(self.folder, self.warrant.job, out or self.out, self.now)

    def desk(self) -> Desk:
        """Of the orchestrator."""
        return Desk(agents={LAB: agent("lab-1", self.own)}, given=lambda _: None)

    def sent(self) -> Refusal:
        """What becomes of what this machine sends now."""
        target = self.root / "sent.tar.gz"
        self.me().pack(self.out, target, self.now)
        found = take(target, self.desk(), self.root / "inbox", now=self.now)
        assert isinstance(found, Refusal)
        return found


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Nothing was run yet, and no power cut is to be survived."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    return Lab(tmp_path)


def refused(outcome: Refusal | None) -> Kind:
    assert outcome is not None
    return outcome.kind


def test_warrants_are_not_part_of_what_is_signed(lab: Lab) -> None:
    assert lab.begin() is None
    (lab.folder / path_of("intel-lab-2")).write_text("anything")
    assert lab.begin() is None


def test_what_was_begun_goes_on(lab: Lab) -> None:
    assert lab.begin() is None
    (lab.out / "results").mkdir()
    lab.now += dt.timedelta(days=3)  # it had begun while the warrant counted
    assert lab.begin() is None
    assert (lab.out / "results").is_dir()


def test_the_same_warrant_in_another_folder_is_a_replay(lab: Lab) -> None:
    assert lab.begin() is None
    other = lab.root / "other"
    other.mkdir()
    for _ in range(2):  # that it was refused makes it no better
        assert refused(lab.begin(other)) == Kind.REPLAY
    assert lab.begin() is None


def test_a_folder_that_was_emptied_or_copied_is_another_one(lab: Lab) -> None:
    assert lab.begin() is None
    mark = (lab.out / identities._BEGUN).read_text()
    (lab.out / identities._BEGUN).unlink()
    assert refused(lab.begin()) == Kind.REPLAY
    (lab.out / identities._BEGUN).write_text(mark.replace(lab.warrant.nonce, "0" * 32))
    assert refused(lab.begin()) == Kind.REPLAY


def test_another_warrant_begins_anew(lab: Lab) -> None:
    assert lab.begin() is None
    (lab.out / "results").mkdir()
    (lab.out / "exec.json").write_text("{}")
    lab.change(nonce="1" * 32)
    lab.deliver()
    assert lab.begin() is None
    assert sorted(path.name for path in lab.out.iterdir()) == [identities._BEGUN, "order.json"]


def test_a_warrant_that_is_refused_costs_nothing_that_is_there(lab: Lab) -> None:
    assert lab.begin() is None
    (lab.out / "results").mkdir()
    lab.deliver(sign(dataclasses.replace(lab.warrant, nonce="1" * 32), [lab.other_key]))
    assert refused(lab.begin()) == Kind.UNREGISTERED
    assert (lab.out / "results").is_dir()
    lab.deliver()
    assert lab.begin() is None
    assert not (lab.out / DECLINED).exists()


@pytest.mark.parametrize("moment", ["write_atomically", "claim"])
def test_killed_while_it_takes_a_warrant_it_takes_it_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def killed(*args: object) -> bool:
        raise KeyboardInterrupt

    where = Journal if moment == "claim" else identities
    with monkeypatch.context() as patch:
        patch.setattr(where, moment, killed)
        with pytest.raises(KeyboardInterrupt):
            lab.begin()
    assert lab.begin() is None


def test_of_two_folders_at_once_one_wins(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    other = lab.root / "other"
    other.mkdir()
    original = identities._empty

    def empty(out: Path) -> None:
        monkeypatch.setattr(identities, "_empty", original)
        assert lab.begin(other) is None
        original(out)

    monkeypatch.setattr(identities, "_empty", empty)
    assert refused(lab.begin()) == Kind.REPLAY
    assert refused(lab.begin()) == Kind.REPLAY


def none(lab: Lab) -> None:
    """There is no warrant."""
    (lab.folder / path_of(LAB)).unlink()


def linked(lab: Lab) -> None:
    """It lies elsewhere."""
    path = lab.folder / path_of(LAB)
    path.rename(lab.root / "warrant.json")
    path.symlink_to(lab.root / "warrant.json")


def pipe(lab: Lab) -> None:
    """It never ends."""
    none(lab)
    os.mkfifo(lab.folder / path_of(LAB))


def large(lab: Lab) -> None:
    """It is no warrant."""
    lab.deliver(b" " * (1 << 20))


def late(lab: Lab) -> None:
    """It came too late."""
    lab.now += dt.timedelta(days=3)


def changed(lab: Lab) -> None:
    """The job is another one."""
    (lab.folder / "workloads/mlp.py").write_text("import os\n")


def linked_folder(lab: Lab) -> None:
    """The folder of warrants is elsewhere."""
    (lab.folder / "warrants").rename(lab.root / "warrants")
    (lab.folder / "warrants").symlink_to(lab.root / "warrants")


@pytest.mark.parametrize(
    ("kind", "bend"),
    [
        (Kind.UNSIGNED, none),
        (Kind.UNSIGNED, linked),
        (Kind.SYNTAX, pipe),
        (Kind.TOO_LARGE, large),
        (Kind.EXPIRED, late),
        (Kind.CHANGED, changed),
        (Kind.LINK, linked_folder),
    ],
)
def test_what_is_refused_is_said_over_the_agents_signature(
    lab: Lab, kind: Kind, bend: Callable[[Lab], None]
) -> None:
    bend(lab)
    assert refused(lab.begin()) == kind
    told = lab.sent()
    assert (told.kind, told.agent, told.job, told.declined) == (kind, LAB, lab.warrant.job, True)
    assert str(told).startswith(f"refused: {LAB} would not run it ({kind}): ")


def test_nobody_else_says_so(lab: Lab) -> None:
    none(lab)
    assert lab.begin() is not None
    lab.own = keys.make(lab.root / "x", LAB)  # the desk knows another key
    target = lab.root / "sent.tar.gz"
    lab.me().pack(lab.out, target, lab.now)
    found = take(target, lab.desk(), lab.root / "inbox", now=lab.now)
    assert isinstance(found, Refusal)
    assert (found.kind, found.agent, found.job, found.declined) == (
        Kind.UNREGISTERED,
        "",
        "",
        False,
    )
    assert is_signed(target)


def test_what_ran_for_no_warrant_is_not_signed(lab: Lab) -> None:
    with pytest.raises(InfrastructureError, match="holds nothing that intel-lab-1 ran"):
        lab.me().pack(lab.out, lab.root / "sent.tar.gz", NOW)
    assert lab.begin() is None
    mark = lab.out / identities._BEGUN
    mark.write_text(mark.read_text().replace('"mark": "', '"mark": "0'))
    with pytest.raises(InfrastructureError, match="holds nothing that intel-lab-1 ran"):
        lab.me().pack(lab.out, lab.root / "sent.tar.gz", NOW)


def test_without_a_key_it_is_told(lab: Lab) -> None:
    (path,) = (lab.state / "keys" / LAB).iterdir()
    path.unlink()
    with pytest.raises(UsageError, match=f"lh-ci keys rotate {LAB}"):
        lab.me().pack(lab.out, lab.root / "sent.tar.gz", NOW)


def test_who_this_machine_is(tmp_path: Path) -> None:
    write_agents(tmp_path)
    assert identities.identity(tmp_path, tmp_path, LAB).agent.id == LAB
    with pytest.raises(UsageError, match="Did you mean `intel-lab-1`"):
        identities.identity(tmp_path, tmp_path, "intel-lab-l")
    (tmp_path / "agents/_orchestrator.yaml").unlink()
    with pytest.raises(UsageError, match="nobody's jobs may be run"):
        identities.identity(tmp_path, tmp_path, LAB)
