"""`lh-ci execute`: programs that were lowered elsewhere, on the GPU of this machine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import click

from orchestrator import records
from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import duration, examples, json_option
from orchestrator.cli.report import STYLES, console
from orchestrator.errors import UsageError
from orchestrator.job import Status
from orchestrator.plan import Selector, select
from orchestrator.results.files import write_atomically
from orchestrator.results.store import RUN_NAME, Run
from orchestrator.results.verdict import exit_code
from orchestrator.text import counts, plain, table

if TYPE_CHECKING:
    from orchestrator.harness.gpu.runner import Report

_DEFAULT_TIMEOUT_S = 120.0


class _Judged(NamedTuple):
    """What an exit code is made from; every bundle that is named counts."""

    status: Status
    tier: str = "core"


@click.command(
    "execute",
    epilog=examples(
        "lh-ci execute matmul.bundle.zip                      an archive, or its folder",
        "lh-ci execute artifacts/*.bundle.zip --json          all that a nightly left",
        "lh-ci execute last 'pytorch_gpu.*@cross-nvidia'      what a run's cells left",
        "lh-ci execute matmul.bundle.zip --chip sm_80 --repeat 20",
    ),
)
@click.argument("bundles", nargs=-1, required=True, metavar="BUNDLE...|RUN CELL")
@click.option("--chip", default="", metavar="NAME", help="The code of this chip, not what fits.")
@click.option(
    "--repeat",
    type=click.IntRange(1, 1_000_000),
    default=1,
    show_default=True,
    metavar="N",
    help="Call each program N times; the least and the median time are told.",
)
@click.option(
    "--timeout",
    "timeout_s",
    callback=duration,
    metavar="DURATION",
    help="How long one bundle may take, such as 90s.  [default: 2min]",
)
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the JSON document to this file as well. Nothing else is recorded.",
)
@json_option
@pass_app
def command(
    app: App,
    /,
    bundles: tuple[str, ...],
    chip: str,
    repeat: int,
    timeout_s: float | None,
    save: Path | None,
    as_json: bool,
) -> int:
    """Execute bundles on this machine's GPU and compare what they compute with their goldens.

    A BUNDLE is what a GPU cell leaves: its program for each chip, inputs, golden and tolerance. It
    needs a driver here, and neither LLVM nor a container. Each one runs in a process of its own: a
    crash is that program's, a hang is the device's, and the next one runs all the same.
    """
    from orchestrator.engines.bundles import execute

    reports = []
    out = console(stderr=as_json)
    paths, timeout_s = _resolve(app, bundles), timeout_s or _DEFAULT_TIMEOUT_S
    with _gpus(app, timeout_s * len(paths)):
        for path in paths:
            report = execute(
                path,
                environ=app.services.environ,
                timeout_s=timeout_s,
                chip=chip,
                repeat=repeat,
            )
            reports.append(report)
            for line, style in _told(report, first=len(reports) == 1):
                out.print(line, style=style)
    statuses = [report.outcome.status for report in reports]
    out.print(counts(statuses))
    document = {"schema": 1, "bundles": [records.encode(report) for report in reports]}
    text = json.dumps(document, indent=2, allow_nan=False)
    if save is not None:
        write_atomically(save, text.encode() + b"\n")
    if as_json:
        click.echo(text)
    return exit_code(_Judged(status) for status in statuses)


@contextlib.contextmanager
def _gpus(app: App, limit_s: float) -> Iterator[None]:
    """Holds this machine's GPUs: which one a driver takes is not known before.

    Raises:
        InfrastructureError: whoever has one hangs, or it cannot be locked.
    """
    from orchestrator.backends.gpu_lock import turn

    with contextlib.ExitStack() as held:
        for vendor in sorted({gpu.vendor for gpu in app.host.gpus if not gpu.problem}):
            held.enter_context(
                turn(
                    app.locks,
                    "lh-ci execute",
                    vendor,
                    limit_s=limit_s,
                    clock=app.services.clock,
                    note=lambda line: click.echo(f"note  {plain(line)}", err=True),
                    enough=lambda: False,
                )
            )
        yield


def _told(report: Report, *, first: bool) -> Iterator[tuple[str, str]]:
    """A bundle's lines: one when all is well, everything when it is not."""
    from orchestrator.harness.gpu import summary

    outcome = report.outcome
    if first and outcome.device:
        rows = [row for row in summary.device_rows(outcome.device) if row[0] != "code"]
        yield from ((line, "") for line in map(plain, table([r for r in rows if r[1]])))
    name = report.cell or report.bundle
    if outcome.status != "pass":
        yield from ((line, STYLES[outcome.status]) for line in summary.of_outcome(name, outcome))
        yield f"  bundle    {plain(report.bundle)}", ""
        return
    worst = max((error.max_abs for error in outcome.errors), default=0.0)
    code = outcome.device.get("code", "")
    time = summary.kernel_time(outcome.kernel_ns)
    yield plain(f"pass  {name}   {code}   max abs {worst:.3g}   {time}"), STYLES["pass"]


def _resolve(app: App, words: Sequence[str]) -> list[Path]:
    """The bundles that the command line names.

    Raises:
        UsageError: there is no such path, run or cell, or no bundle in it.
    """
    found: list[Path] = []
    left = list(words)
    while left:
        word = left.pop(0)
        path = Path(word)
        if word == "last" or RUN_NAME.fullmatch(word):
            if not left:
                raise UsageError(f"of which cell of run `{word}`? Name it, or a glob: '*'")
            found += _of_run(app.runs.find(word), left.pop(0))
        elif path.exists():
            found += _below(path) or _nothing(f"no bundle in {path}")
        else:
            raise UsageError(
                f"`{word}` is neither a path nor a run. A run is followed by a cell: "
                "lh-ci execute last CELL"
            )
    return list(dict.fromkeys(found))


def _of_run(run: Run, pattern: str) -> list[Path]:
    cells = select(run.plan().cells, Selector(patterns=(pattern,)))
    found = [path for planned in cells for path in _below(run.artifacts(planned.cell.id))]
    return found or _nothing(
        f"run {run.name} has no bundle of `{pattern}`: only cells of GPU pipelines leave one, and "
        "only when artifacts are kept: lh-ci run … --keep always"
    )


def _below(path: Path) -> list[Path]:
    """The bundle that a path is, or all bundles below a folder."""
    from orchestrator.harness.gpu.bundle import DOCUMENT, SUFFIX

    if not path.is_dir():
        return [path] if path.exists() else []
    if (path / DOCUMENT).exists():
        return [path]
    folders = {document.parent for document in path.rglob(DOCUMENT)}
    return sorted(folders | set(path.rglob(f"*{SUFFIX}")))


def _nothing(why: str) -> NoReturn:
    raise UsageError(why)
