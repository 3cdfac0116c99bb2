"""Goldens: written, read, recorded, and refused when they are not what was recorded."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from orchestrator.harness import formula
from orchestrator.harness.arrays import npz, read_golden
from orchestrator.harness.blame import MachineFault
from orchestrator.job import Golden
from tests.harness import fakes
from tests.harness.incell import INPUT, Array, Surroundings

OUTPUTS = [np.arange(6.0).reshape(2, 3), np.array(7, np.int64), np.zeros((0, 2), np.bool_)]


def written(folder: Path, outputs: Sequence[Array] = OUTPUTS, inputs: str = "") -> Golden:
    """A golden file and its record."""
    data = npz({f"output_{i}": a for i, a in enumerate(outputs)})
    (folder / "g.npz").write_bytes(data)
    return Golden(
        file="g.npz",
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        inputs_sha256=inputs,
    )


def test_a_golden_reads_as_it_was_written(tmp_path: Path) -> None:
    many = [np.full(3, i, np.float64) for i in range(12)]  # output_10 comes after output_9
    for outputs in (OUTPUTS, many):
        found = read_golden(tmp_path, written(tmp_path, outputs))
        assert [a.dtype for a in found] == [a.dtype for a in outputs]
        assert [a.shape for a in found] == [a.shape for a in outputs]
        assert [a.tobytes() for a in found] == [a.tobytes() for a in outputs]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:100],
        lambda data: b"",
        lambda data: data + b"extra",
        lambda data: data[:50] + bytes([data[50] ^ 1]) + data[51:],
    ],
    ids=["truncated", "empty", "grown", "a bit flipped"],
)
def test_a_golden_that_was_damaged_in_the_jobs_folder_is_nobodys_verdict(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    """What is in the repository was checked when the job was written."""
    golden = written(tmp_path)
    path = tmp_path / "g.npz"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(MachineFault, match=r"g\.npz is not the file that was planned"):
        read_golden(tmp_path, golden)


def test_a_golden_that_is_gone_from_the_jobs_folder(tmp_path: Path) -> None:
    golden = written(tmp_path)
    (tmp_path / "g.npz").unlink()
    with pytest.raises(MachineFault, match=r"g\.npz of the job cannot be read: No such file"):
        read_golden(tmp_path, golden)


def test_a_recorded_golden_is_compared_with(context: Surroundings, tmp_path: Path) -> None:
    inputs = formula.digest([INPUT])
    golden = written(tmp_path, [2.0 * INPUT.astype(np.float64)], inputs)
    found = context.run(fakes.cell(tmp_path, golden=golden))
    assert (found.status, found.golden, found.inputs_sha256) == ("pass", "recorded", inputs)
    golden = written(tmp_path, [3.0 * INPUT.astype(np.float64)], inputs)
    assert context.run(fakes.cell(tmp_path, golden=golden)).phase == "compare"


def test_a_golden_of_other_inputs_is_not_used(context: Surroundings, tmp_path: Path) -> None:
    golden = written(tmp_path, [INPUT], "f" * 64)
    found = context.run(fakes.cell(tmp_path, golden=golden))
    assert (found.status, found.phase) == ("error", "ingress")
    assert found.message == (
        "the golden was recorded from other inputs (ffffffffffff, now "
        f"{formula.digest([INPUT])[:12]}). Record it again: lh-ci golden update doubling"
    )


def test_recording_leaves_outputs_and_where_they_came_from(
    context: Surroundings, tmp_path: Path
) -> None:
    found = context.run(fakes.cell(tmp_path), record=True)
    assert (found.status, found.inputs_sha256) == ("pass", formula.digest([INPUT]))
    kept = context.scratch / "kept"
    assert json.loads((kept / "golden.json").read_text()) == {
        "source": "numpy@f64",
        "inputs_sha256": found.inputs_sha256,
    }
    with np.load(kept / "golden.npz", allow_pickle=False) as archive:
        assert archive["output_0"].tolist() == (2.0 * INPUT.astype(np.float64)).tolist()
    assert context.stages() == [("ingress", "error")]


def test_recording_nan_is_refused(context: Surroundings, tmp_path: Path) -> None:
    found = context.run(fakes.cell(tmp_path), record=True, outputs=lambda: [np.full(4, np.nan)])
    assert (found.status, found.phase) == ("error", "ingress")
    assert not (context.scratch / "kept").exists()


def test_an_archives_bytes_depend_on_nothing_but_its_arrays(tmp_path: Path) -> None:
    one = OUTPUTS[0]
    archive = npz({"output_0": one})
    assert npz({"output_0": np.asfortranarray(one)}) == archive
    assert npz({"output_0": np.repeat(one, 2, axis=1)[:, ::2]}) == archive
    assert npz({"output_0": one + 1}) != archive
    assert npz({"output_1": one}) != archive
    with zipfile.ZipFile(io.BytesIO(archive)) as content:
        (member,) = content.infolist()
    assert member.date_time == (1980, 1, 1, 0, 0, 0)


def test_an_archive_keeps_every_shape_and_type(tmp_path: Path) -> None:
    arrays = {f"a{i}": a for i, a in enumerate(OUTPUTS)}
    with np.load(io.BytesIO(npz(arrays)), allow_pickle=False) as archive:
        for name, array in arrays.items():
            assert (archive[name].dtype, archive[name].shape) == (array.dtype, array.shape)


def test_objects_are_not_archived() -> None:
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        npz({"a": np.array([None])})
