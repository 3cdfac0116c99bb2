"""`lh-ci golden`: recorded in the engine, shown before it is written."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from orchestrator.harness.arrays import npz
from orchestrator.job import Job, Outcome
from tests.cli.conftest import Lab
from tests.fakes import HELLO, PASS, Step, cell_steps

ERROR = Outcome(status="error", phase="ingress", message="sum.py:4: ValueError: no such layer")


class Framework:
    """What the framework computes: an array for each workload, or a failure."""

    def __init__(self, **outputs: Any) -> None:
        """By workload; `numpy` arrays, outcomes, or files."""
        self.outputs = outputs

    def __call__(self, job: Job) -> Iterator[Step]:
        """A job in mode `record`."""
        assert job.mode == "record"
        yield HELLO
        for cell in job.cells:
            assert cell.golden is None
            output = self.outputs.get(cell.workload.name, np.ones((2, 3)))
            if isinstance(output, Outcome):
                yield from cell_steps(cell.id, output)
            elif isinstance(output, dict):
                yield from cell_steps(cell.id, PASS, output)
            else:
                about = {"source": "eager@f64", "inputs_sha256": "1" * 64}
                files = {
                    "golden.npz": npz({"output_0": output}),
                    "golden.json": json.dumps(about).encode(),
                }
                yield from cell_steps(cell.id, PASS, files)


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """One whose framework answers."""
    lab.engine.script = Framework()
    return lab


def files(lab: Lab) -> dict[str, bytes]:
    """All files in `golden/` by name."""
    folder = lab.tree.root / "golden"
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_list_shows_what_is_there_and_what_is_missing(lab: Lab) -> None:
    lines = lab("golden", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == ["mlp/f16", "mlp/f32", "sum/f32"]
    assert lines[1].split()[1:3] == ["eager@f64", "2026-11-20"]
    assert lines[-1] == "3 goldens"
    (lab.tree.root / "golden/sum/f32.npz").unlink()
    (lab.tree.root / "golden/sum/f32.json").unlink()
    done = lab("golden", "list")
    assert done.exit_code == 0, done.output
    assert ["sum/f32", "missing"] in [line.split() for line in done.stdout.splitlines()]
    (lab.tree.root / "golden/mlp/f16.npz").write_bytes(b"x")
    done = lab("golden", "list")
    assert ["mlp/f16", "broken"] in [line.split() for line in done.stdout.splitlines()]
    assert "golden/mlp/f16.npz  truncated at 1 of" in done.stdout


def test_a_new_golden_is_shown_and_written(lab: Lab) -> None:
    for suffix in ("npz", "json"):
        (lab.tree.root / f"golden/sum/f32.{suffix}").unlink()
    done = lab("golden", "update", "sum", "--yes")
    assert done.exit_code == 0, done.output
    assert "golden/sum/f32.npz   new\n  output_0   2x3 float64\n" in done.stdout
    assert done.stdout.endswith("written: 1 golden\n")
    record = json.loads((lab.tree.root / "golden/sum/f32.json").read_text())
    npz_file = (lab.tree.root / "golden/sum/f32.npz").read_bytes()
    workload = (lab.tree.root / "recipes/workloads/sum.py").read_bytes()
    assert record == {
        "schema": 1,
        "workload": "sum",
        "variant": "f32",
        "source": "eager@f64",
        "sha256": hashlib.sha256(npz_file).hexdigest(),
        "size": len(npz_file),
        "inputs_sha256": "1" * 64,
        "workload_sha256": hashlib.sha256(workload).hexdigest(),
        "versions": {"torch": "2.13.0", "mlir-opt": "22.1.8"},
        "command": "lh-ci golden update sum",
        "recorded": "2026-11-20",
    }
    assert lab("check").exit_code == 0


def test_recording_twice_changes_nothing(lab: Lab) -> None:
    assert lab("golden", "update", "--yes").exit_code == 0
    before = files(lab)
    lab.engine.time.advance(3 * 86400)
    done = lab("golden", "update", "--yes")
    assert done.stdout.splitlines()[-2:] == ["3 unchanged", "nothing to write"]
    assert files(lab) == before


def test_each_workload_and_variant_is_recorded_once(lab: Lab) -> None:
    lab("golden", "update", "--yes")
    (job,) = lab.engine.jobs
    assert [(c.workload.name, c.variant) for c in job.cells] == [
        ("mlp", "f32"),
        ("mlp", "f16"),
        ("sum", "f32"),
    ]


def test_what_moves_is_shown_with_numbers(lab: Lab) -> None:
    lab("golden", "update", "--yes")
    moved = np.ones((2, 3))
    moved[1, 2] = 1.5
    lab.engine.script = Framework(sum=moved)
    done = lab("golden", "update", "--yes")
    assert (
        "golden/sum/f32.npz   changed\n  output_0   1 of 6 elements, max abs 0.5, max rel 0.5\n"
        "1 changed, 2 unchanged\n"
    ) in done.stdout.replace("2 unchanged, 1 changed", "1 changed, 2 unchanged")


def test_the_same_numbers_from_another_program_are_told_apart(lab: Lab) -> None:
    lab("golden", "update", "--yes")
    lab.tree.write("recipes/workloads/sum.py", "class Model: ...\ndef get_inputs(): 1\n")
    done = lab("golden", "update", "sum", "--yes")
    assert "golden/sum/f32.npz   same numbers, new record\n  output_0   unchanged\n" in done.stdout
    assert lab("check").exit_code == 0


@pytest.mark.parametrize("damage", [b"", b"PK", b"x" * 4096])
def test_a_broken_golden_can_be_recorded_again(lab: Lab, damage: bytes) -> None:
    (lab.tree.root / "golden/sum/f32.npz").write_bytes(damage)
    assert lab("check").exit_code == 3
    done = lab("golden", "update", "sum", "--yes")
    assert done.exit_code == 0, done.output
    assert "golden/sum/f32.npz   new\n" in done.stdout
    assert lab("check").exit_code == 0


def test_nothing_is_written_when_there_is_nobody_to_ask(lab: Lab) -> None:
    before = files(lab)
    done = lab("golden", "update")
    assert done.exit_code == 2
    assert "same numbers, new record" in done.stdout
    assert "nothing was written: there is nobody to ask. Pass --yes" in done.stderr
    assert files(lab) == before


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 130)])
def test_on_a_terminal_one_is_asked(
    lab: Lab, answer: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.cli.golden._can_ask", lambda: True)
    before = files(lab)
    done = lab("golden", "update", "sum", stdin=answer)
    assert done.exit_code == code
    assert "Write 1 golden? [y/N]" in done.stdout
    assert (files(lab) == before) == (code != 0)


def test_what_cannot_be_recorded_is_shown_and_the_rest_written(lab: Lab) -> None:
    lab.engine.script = Framework(sum=ERROR)
    done = lab("golden", "update", "--yes")
    assert done.exit_code == 3
    assert "  error torch_cpu.sum.f32@intel-cpu   ingress\n" in done.stdout
    assert "        sum.py:4: ValueError: no such layer\n" in done.stdout
    assert done.stdout.endswith("written: 2 goldens\n")


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"golden.npz": b"x", "golden.json": b"{}"},
        {"golden.npz": npz({"other": np.ones(1)}), "golden.json": b'{"source": "e"}'},
        {"golden.npz": npz({"output_0": np.ones(1)}), "golden.json": b"[]"},
    ],
)
def test_what_a_harness_sends_is_not_trusted(lab: Lab, sent: dict[str, bytes]) -> None:
    before = files(lab)
    lab.engine.script = Framework(sum=sent)
    done = lab("golden", "update", "sum", "--yes")
    assert done.exit_code == 4
    assert "what the harness recorded cannot be used" in done.stdout
    assert files(lab) == before


def test_no_pickle_is_ever_loaded(lab: Lab) -> None:
    evil = np.array([{"a": 1}], dtype=object)
    buffer = io.BytesIO()
    np.savez(buffer, output_0=evil, allow_pickle=True)
    about = b'{"source": "eager", "inputs_sha256": "1"}'
    lab.engine.script = Framework(sum={"golden.npz": buffer.getvalue(), "golden.json": about})
    done = lab("golden", "update", "sum", "--yes")
    assert done.exit_code == 4
    assert "Object arrays cannot be loaded" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sun"], "no workload `sun`. Did you mean `sum`?"),
        (["--variant", "f23"], "no variant `f23`. Did you mean `f32`?"),
        (["sum", "--variant", "f16"], "no cell has both this workload and this variant"),
    ],
)
def test_what_does_not_exist(lab: Lab, words: list[str], message: str) -> None:
    done = lab("golden", "update", *words, "--yes")
    assert done.exit_code == 2
    assert message in done.stderr


def test_nothing_is_left_of_the_recording(lab: Lab) -> None:
    lab("golden", "update", "--yes")
    assert list((lab.tree.root / ".lh" / "record").iterdir()) == []
    assert lab.runs.all() == ()
