"""The speed of a made-up year in the form of airspeed velocity, to have it published by that.

One machine, one environment; a commit for each night, a benchmark for each cell. The format is that
of asv 0.6: https://asv.readthedocs.io/en/stable/dev.html#benchmark-suite-layout-and-file-formats
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.history.events import Planted, read
from orchestrator.results.history.source import find
from orchestrator.results.history.table import Table, load

_MACHINE = {"machine": "fleet", "os": "Linux", "arch": "x86_64", "cpu": "made up"}
_ENVIRONMENT = "virtualenv-py3.11"
_COLUMNS = (
    *("result", "params", "version", "started_at", "duration"),
    *("stats_ci_99_a", "stats_ci_99_b", "stats_q_25", "stats_q_75", "stats_number", "stats_repeat"),
)
_VERSION = "0" * 64


def write(results: Path, out: Path) -> Path:
    """Writes a project with the results of a made-up year; returns its configuration's path."""
    out.mkdir(parents=True)
    planted = read(results)
    found = find(results, out / "cache", lambda _: None)
    nights = [night.night for night in planted.nights if night.run]
    commits = dict(zip(nights, _repository(out / "repository", nights), strict=True))
    noise = {each.cell: each.sigma for each in planted.noise}
    machine = out / "results" / _MACHINE["machine"]
    machine.mkdir(parents=True)
    _dump(machine / "machine.json", {**_MACHINE, "version": 1})
    table = load(found.sources)
    for night, values in _nights(table, planted):
        commit = commits[night]
        name = f"{commit[:8]}-{_ENVIRONMENT}.json"
        _dump(machine / name, _results(commit, night, values, noise))
    _dump(out / "results" / "benchmarks.json", _benchmarks(table.texts["cell"].values))
    return _configuration(out)


def _configuration(out: Path) -> Path:
    path = out / "asv.conf.json"
    conf = {
        "version": 1,
        "project": "year",
        "repo": str(out / "repository"),
        "branches": ["main"],
        "environment_type": "virtualenv",
        "env_dir": str(out / "env"),
        "results_dir": str(out / "results"),
        "html_dir": str(out / "html"),
    }
    _dump(path, conf)
    return path


def _dump(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")


def _repository(folder: Path, nights: Sequence[str]) -> list[str]:
    """A commit for each night; returns their hashes."""
    folder.mkdir()
    stream = "".join(
        f"commit refs/heads/main\nmark :{mark}\n"
        f"committer year <year@invalid> {_epoch(night)} +0000\n"
        f"data {len(night)}\n{night}\nM 644 inline night\ndata {len(night)}\n{night}\n"
        for mark, night in enumerate(nights, 1)
    )
    for words, text in (
        (["init", "-q", "-b", "main"], ""),
        (["fast-import", "--quiet"], stream),
    ):
        subprocess.run(["git", *words], cwd=folder, input=text, text=True, check=True)
    listed = subprocess.run(
        ["git", "rev-list", "--reverse", "main"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return listed.stdout.split()


def _epoch(night: str) -> int:
    return int(np.datetime64(night, "s").astype(np.int64))


def _nights(table: Table, planted: Planted) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Seconds of each cell that passed: of its execution, or to its code where nothing runs."""
    lowering, execute = table.numbers["lowering"], table.numbers["execute"]
    seconds = np.where(np.isfinite(execute), execute, lowering)
    status = table.texts["status"]
    good = (status.codes == status.code("pass")) & np.isfinite(seconds)
    by_run = {record.run: number for number, record in enumerate(table.runs)}
    cells = table.texts["cell"]
    for night in planted.nights:
        if night.run:
            rows = np.flatnonzero(good & (table.run == by_run[night.run]))
            yield night.night, {cells.at(row): float(seconds[row]) for row in rows.tolist()}


def _results(
    commit: str, night: str, values: Mapping[str, float], noise: Mapping[str, float]
) -> dict[str, Any]:
    """The file of one commit; the confidence interval is as wide as the cell scatters."""
    date = _epoch(night) * 1000
    rows = {}
    for cell, value in values.items():
        off = value * noise.get(cell, 0.01)
        spread = [[round(value + k * off, 6)] for k in (-1.0, 1.0, -0.3, 0.3)]
        rows[cell] = [[value], [], _VERSION, date, round(value * 5, 4), *spread, [1], [5]]
    return {
        "version": 2,
        "commit_hash": commit,
        "env_name": _ENVIRONMENT,
        "date": date,
        "params": {**_MACHINE, "python": "3.11"},
        "python": "3.11",
        "requirements": {},
        "env_vars": {},
        "result_columns": _COLUMNS,
        "results": rows,
        "durations": {},
    }


def _benchmarks(cells: Sequence[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"version": 2}
    for cell in cells:
        made[cell] = {
            "name": cell,
            "code": f'def time_it():\n    run("{cell}")\n',
            "params": [],
            "param_names": [],
            "type": "time",
            "unit": "seconds",
            "version": _VERSION,
        }
    return made
