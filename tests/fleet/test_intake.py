"""Bundles that are taken: packed by us, and what comes of them."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import tarfile
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from orchestrator.errors import InfrastructureError
from orchestrator.fleet import staging
from orchestrator.fleet.archive import Limits
from orchestrator.fleet.bundle import Names, is_safe
from orchestrator.fleet.intake import Taken, take
from orchestrator.fleet.packing import pack
from orchestrator.fleet.refusal import Kind, Refusal
from tests.fleet.forge import EXPECTED, MLP, NONCE, NOW, SUM, Forge, document, everything


def taken(outcome: Taken | Refusal) -> Taken:
    assert isinstance(outcome, Taken), str(outcome)
    return outcome


@pytest.fixture
def output(tmp_path: Path, forge: Forge) -> Path:
    """What `lh-ci exec` left."""
    folder = tmp_path / "out"
    for name, data in forge.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def packed(forge: Forge, output: Path, limits: Limits | None = None) -> Path:
    path = forge.root / "b.results.tar.gz"
    pack(output, path, warrant=forge.warrant, signers=[forge.key], now=NOW, limits=limits)
    return path


def test_an_honest_bundle_is_taken(forge: Forge) -> None:
    found = taken(forge.send())
    assert [(r.cell, r.attempt, r.agent) for r in found.results] == [
        (MLP, 1, "intel-lab-1"),
        (SUM, 1, "intel-lab-1"),
    ]
    assert found.missing == ()
    assert found.folder == forge.target / NONCE
    assert {
        str(p.relative_to(found.folder)): p.read_bytes()
        for p in found.folder.rglob("*")
        if p.is_file()
    } == forge.files
    assert list(forge.target.iterdir()) == [found.folder]


def test_what_is_packed_is_taken(forge: Forge, output: Path) -> None:
    (forge.root / "again").mkdir()
    as_made_by_hand = taken(Forge(forge.root / "again").send())
    found = taken(forge.send(packed(forge, output)))
    assert found.results == as_made_by_hand.results
    assert (found.folder / f"artifacts/{MLP}/ir/01-ingress.mlir").read_bytes() == b"module {}\n"


def test_the_same_output_gives_the_same_bytes_and_everybody_can_open_it(
    forge: Forge, output: Path
) -> None:
    first = packed(forge, output).read_bytes()
    assert packed(forge, output).read_bytes() == first
    with tarfile.open(forge.root / "b.results.tar.gz") as archive:
        assert archive.getnames() == ["manifest.json", *sorted(forge.files)]
    assert sorted(p.name for p in forge.root.iterdir()) == [
        "b.results.tar.gz",
        "inbox",
        "out",
        "state",
    ]


def test_packing_makes_text_harmless_and_keeps_html(forge: Forge, output: Path) -> None:
    message = "<script>alert(1)</script> &amp; \x1b[31mred\x1b[0m \x00 \u202e"
    (output / f"results/{MLP}.1.json").write_bytes(document(MLP, message=message))
    (output / "log.txt").write_bytes(b"\x1b]0;title\x07<b>\xff\r\nend\n")
    found = taken(forge.send(packed(forge, output)))
    assert found.results[0].message == "<script>alert(1)</script> &amp; red ? ?"
    assert (found.folder / "log.txt").read_text() == "<b>\ufffd\nend\n"


def test_html_is_text(forge: Forge) -> None:
    message = '<img src=x onerror="alert(1)"> <!-- ]]> </script> {{ 7*7 }} %s `id` $(id)'
    forge.files[f"results/{MLP}.1.json"] = document(MLP, message=message, last_words=message)
    forge.files["log.txt"] = message.encode()
    found = taken(forge.send())
    assert found.results[0].message == message
    assert found.results[0].last_words == message
    assert (found.folder / "log.txt").read_text() == message


def test_what_compresses_like_a_bomb_is_packed_as_it_is(forge: Forge, output: Path) -> None:
    (output / f"artifacts/{MLP}/zeros.bin").write_bytes(b"\0" * (20 << 20))
    path = packed(forge, output)
    assert path.stat().st_size > 20 << 20
    assert (
        taken(forge.send(path)).folder / f"artifacts/{MLP}/zeros.bin"
    ).stat().st_size == 20 << 20


def test_artifacts_without_room_are_left_out_and_counted(forge: Forge, output: Path) -> None:
    folder = output / f"artifacts/{MLP}"
    for name in ("a.bin", "b.bin", ".hidden", "x" * 120):
        (folder / name).write_bytes(b"x" * 6_000)
    (folder / "ir/01-INGRESS.mlir").write_bytes(b"x")
    (folder / "link").symlink_to("/etc/hostname")
    limits = dataclasses.replace(Limits(), unpacked=12_000)
    path = forge.root / "b.results.tar.gz"
    manifest = pack(
        output, path, warrant=forge.warrant, signers=[forge.key], now=NOW, limits=limits
    )
    kept = [f.name.rpartition("/")[2] for f in manifest.files if f.name.startswith("artifacts/")]
    assert kept == ["a.bin", "01-INGRESS.mlir"]
    assert manifest.left_out == 5
    forge.limits = limits
    taken(forge.send(path))


@pytest.mark.parametrize("name", ["exec.json", "log.txt"])
def test_an_output_that_is_not_whole_is_not_packed(forge: Forge, output: Path, name: str) -> None:
    (output / name).unlink()
    with pytest.raises(InfrastructureError, match=f"{re.escape(name)} is missing: did lh-ci exec"):
        packed(forge, output)
    assert not (forge.root / "b.results.tar.gz").exists()


def test_a_damaged_result_is_not_packed(forge: Forge, output: Path) -> None:
    (output / f"results/{MLP}.1.json").write_text("{")
    with pytest.raises(InfrastructureError, match="is damaged"):
        packed(forge, output)


def test_cells_without_a_result_are_named(forge: Forge) -> None:
    del forge.files[f"results/{SUM}.1.json"]
    found = taken(forge.send())
    assert found.missing == (SUM,)


def test_values_that_are_not_finite_are_fine_where_they_mean_something(forge: Forge) -> None:
    error = {
        "index": 0,
        "shape": [2, 3],
        "dtype": "f32",
        "elements": 6,
        "mismatches": 6,
        "max_abs": "NaN",
        "max_rel": "Infinity",
        "worst": [0, 1],
        "worst_got": "-Infinity",
        "worst_golden": -1.5e300,
        "rtol": 1e-6,
        "atol": 0.0,
        "reason": "table",
    }
    forge.files[f"results/{MLP}.1.json"] = document(MLP, status="fail", errors=[error])
    assert taken(forge.send()).results[0].errors[0].max_rel == float("inf")


def test_an_expected_failure_of_ours(forge: Forge) -> None:
    cited = f"{EXPECTED.reason} ({EXPECTED.issue})"
    forge.files[f"results/{SUM}.1.json"] = document(
        SUM, status="xfail", phase=EXPECTED.phase, message="legalize", expectation=cited
    )
    assert taken(forge.send()).results[1].status == "xfail"


def test_while_a_key_is_rotated_either_signature_counts(forge: Forge) -> None:
    forge.signers = (forge.unknown_key, forge.key)  # the new one is not registered yet
    taken(forge.send())


def test_a_quarantined_agent_may_answer_a_health_job(forge: Forge) -> None:
    forge.quarantined = ("intel-lab-1",)
    forge.health = True
    taken(forge.send())


def test_the_target_is_made(forge: Forge) -> None:
    forge.target.rmdir()
    taken(forge.send())


def test_a_full_disk_is_no_refusal_and_leaves_nothing(
    forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = forge.root / "b.results.tar.gz"
    path.write_bytes(forge.bundle())
    before = everything(forge.root)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InfrastructureError, match="No space left on device"):
        forge.send(path)
    assert everything(forge.root) == before


def test_of_two_at_once_one_is_taken(forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one arrives while the first is being checked."""
    path = forge.root / "b.results.tar.gz"
    path.write_bytes(forge.bundle())
    original = staging.settle
    second: list[Taken | Refusal] = []

    def settle(folder: Path, final: Path) -> None:
        monkeypatch.setattr("orchestrator.fleet.intake.settle", original)
        second.append(take(path, forge.desk(), forge.target, now=NOW))
        original(folder, final)

    monkeypatch.setattr("orchestrator.fleet.intake.settle", settle)
    first = forge.send(path)
    assert isinstance(first, Refusal)
    assert first.kind == Kind.REPLAY
    assert os.listdir(forge.target) == [taken(second[0]).folder.name]  # noqa: PTH208


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        ("a/b", "a/c", True),
        ("a/b", "a/b", False),
        ("a/b", "a/B", False),
        ("a/b", "A/c", False),
        ("a", "a/b", False),
        ("a/b", "a", False),
        ("A/b/c", "A/B", False),
    ],
)
def test_names_that_are_one_file_on_some_machine(first: str, second: str, fits: bool) -> None:
    names = Names()
    assert names.add(first)
    assert names.add(second) is fits


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("artifacts/x/a+b.txt", True),
        ("a" * 100, True),
        ("a" * 101, False),
        ("/".join(["f" * 50] * 3 + ["a"]), False),
        ("a//b", False),
        ("a/", False),
        ("", False),
        ("a b", False),
        ("a\\b", False),
        ("a/.b", False),
        ("C:/x", False),
    ],
)
def test_names_that_lead_nowhere_else(name: str, safe: bool) -> None:
    assert is_safe(name) is safe


def test_results_are_the_agents_whatever_they_say(forge: Forge) -> None:
    forge.files[f"results/{MLP}.1.json"] = document(MLP, agent="intel-lab-1", run="another")
    document_ = json.loads(forge.files[f"results/{MLP}.1.json"])
    assert document_["run"] == "another"
    assert taken(forge.send()).results[0].agent == "intel-lab-1"


class TestLeftovers:
    """What a collector that was killed left behind."""

    def test_it_goes_with_the_next_bundle(self, forge: Forge) -> None:
        (forge.target / ".incoming-dead/results").mkdir(parents=True)
        (forge.target / ".incoming-dead/results/x.json").write_text("{}")
        found = taken(forge.send())
        assert list(forge.target.iterdir()) == [found.folder]

    def test_it_stays_while_somebody_is_at_work(self, forge: Forge) -> None:
        with staging.staging(forge.target) as mine:
            (mine / "x").touch()
            found = taken(forge.send())
            assert sorted(forge.target.iterdir()) == [mine, found.folder]
            assert (mine / "x").exists()
        assert list(forge.target.iterdir()) == [found.folder]

    def test_who_is_swept_before_it_has_its_lock_begins_anew(
        self, forge: Forge, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original = tempfile.mkdtemp
        swept: list[str] = []

        def made(*, dir: Path, prefix: str) -> str:  # noqa: A002  tempfile's name
            folder = original(dir=dir, prefix=prefix)
            if not swept:
                swept.append(folder)
                staging._sweep(forge.target)
            return folder

        monkeypatch.setattr("tempfile.mkdtemp", made)
        with staging.staging(forge.target) as mine:
            assert mine.is_dir()
            assert [str(mine)] != swept
