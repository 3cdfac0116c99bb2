"""Recorded outputs: found, and checked down to the header of every array, never unpickled."""

from __future__ import annotations

import ast
import datetime as dt
import hashlib
import json
import math
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.config.cells import CellKey
from orchestrator.config.models import GoldenRecord
from orchestrator.config.objects import GoldenFile, WorkloadFile
from orchestrator.config.source import Source
from orchestrator.config.suggest import listing, nearest
from orchestrator.config.validate import validate
from orchestrator.errors import Problem

FOLDER = "golden"


class _GoldenError(Exception):
    """Carries what is wrong with a golden, without the advice."""


def read_goldens(
    root: Path,
    workloads: Mapping[str, WorkloadFile],
    names: Sequence[str],
    problems: list[Problem],
) -> dict[tuple[str, str], GoldenFile]:
    """All goldens by workload and variant; one that cannot be trusted is a problem.

    Args:
        root: the repository.
        workloads: those whose files are right; `names` has the others too.
        names: all that must not be called orphans.
        problems: what is wrong is added here.
    """
    found: dict[tuple[str, str], GoldenFile] = {}
    for folder in sorted((root / FOLDER).glob("*/")):
        if not folder.is_dir():
            continue
        workload = folder.name
        if workload not in names:
            meant = nearest(workload, names)
            question = f" Did you mean `{meant}`?" if meant else ""
            message = f"no workload `{workload}`.{question} Bring it back, or delete the folder"
            problems.append(Problem(f"{FOLDER}/{workload}", 0, 0, message))
            continue
        for variant in sorted({p.stem for p in folder.glob("*") if p.suffix in (".npz", ".json")}):
            path = folder / f"{variant}.npz"
            try:
                record = _read(path, workload, variant, workloads.get(workload))
            except _GoldenError as e:
                file = path.relative_to(root).as_posix()
                problems.append(Problem(file, 0, 0, f"{e}. {_again(workload)}"))
            else:
                found[workload, variant] = GoldenFile(record=record, path=path)
    return found


def missing_goldens(root: Path, keys: Iterable[CellKey]) -> list[Problem]:
    """A problem for each workload and variant that a cell needs and nobody recorded."""
    needed: dict[tuple[str, str], set[str]] = {}
    for key in keys:
        needed.setdefault((key.workload, key.variant), set()).add(key.pipeline)
    problems = []
    for (workload, variant), pipelines in needed.items():
        file = f"{FOLDER}/{workload}/{variant}.npz"
        # what is there is judged where it is read
        if not (root / file).exists() and not (root / file).with_suffix(".json").exists():
            message = f"no golden for {listing(pipelines)}. "
            message += f"Record it: lh-ci golden update {workload}"
            problems.append(Problem(file, 0, 0, message))
    return problems


def _again(workload: str) -> str:
    return f"Record it again: lh-ci golden update {workload}"


def _read(path: Path, workload: str, variant: str, file: WorkloadFile | None) -> GoldenRecord:
    record = _read_record(path.with_suffix(".json"))
    if (record.workload, record.variant) != (workload, variant):
        raise _GoldenError(f"recorded as {record.workload}/{record.variant}")
    try:
        size = path.stat().st_size
        content = path.read_bytes() if size == record.size else b""
    except FileNotFoundError as e:
        raise _GoldenError("the record is there, the array file is missing") from e
    except OSError as e:
        raise _GoldenError(f"cannot be read: {e.strerror}") from e
    if size < record.size:
        raise _GoldenError(f"truncated at {size:,} of {record.size:,} bytes")
    if size > record.size:
        raise _GoldenError(f"has {size:,} bytes, {record.size:,} were recorded")
    if hashlib.sha256(content).hexdigest() != record.sha256:
        raise _GoldenError("its digest (sha256) is not the recorded one: it was changed")
    _check_arrays(path)
    if file is not None and file.sha256 != record.workload_sha256:
        raise _GoldenError(f"recorded from another version of {workload}.py")
    return record


def _read_record(path: Path) -> GoldenRecord:
    try:
        data = json.loads(path.read_bytes(), object_hook=_with_date)
    except FileNotFoundError as e:
        raise _GoldenError(f"its record {path.name} is missing") from e
    except OSError as e:
        raise _GoldenError(f"its record {path.name} cannot be read: {e.strerror}") from e
    except (ValueError, RecursionError) as e:
        raise _GoldenError(f"its record {path.name} is not valid JSON: {e}") from e
    checked = validate(GoldenRecord, Source(file=path.name, data=data))
    if checked.problems or checked.value is None:
        said = "; ".join(problem.message for problem in checked.problems)
        raise _GoldenError(f"its record {path.name} is wrong: {said}")
    return checked.value


def _with_date(entries: dict[str, Any]) -> dict[str, Any]:
    """JSON has no dates: the one that a record has is put in."""
    try:
        return {**entries, "recorded": dt.date.fromisoformat(entries["recorded"])}
    except (KeyError, TypeError, ValueError):
        return entries


def _check_arrays(path: Path) -> None:
    """`output_0`, `output_1`, …: each a whole array of plain numbers.

    Raises:
        _GoldenError: says which is not.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError) as e:
        raise _GoldenError(f"corrupt: {e}") from e
    wanted = [f"output_{i}.npy" for i in range(len(arrays))]
    if not arrays or set(arrays) != set(wanted):
        raise _GoldenError(f"corrupt: it holds {listing(arrays) or 'nothing'}")
    for name in wanted:
        _check_array(name.removesuffix(".npy"), arrays[name])


def _check_array(name: str, content: bytes) -> None:
    # magic, version, length of the header in 2 bytes or, since version 2, in 4
    start = 8 + (2 if content[6:7] == b"\x01" else 4)
    end = start + int.from_bytes(content[8:start], "little")
    try:
        header = ast.literal_eval(content[start:end].decode("utf-8").strip())
        item = re.fullmatch(r"[<>|=][biufcV](\d+)", header["descr"])
        size = math.prod(header["shape"]) * int(item[1] if item else "objects")
    except (ValueError, SyntaxError, KeyError, TypeError, RecursionError) as e:
        raise _GoldenError(f"corrupt: {name} is no array of numbers") from e
    if content[:6] != b"\x93NUMPY" or len(content) != end + size:
        raise _GoldenError(f"corrupt: {name} has {len(content) - end:,} of {size:,} bytes")
