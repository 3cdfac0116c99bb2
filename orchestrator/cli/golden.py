"""`lh-ci golden`: outputs recorded from the framework, listed and recorded again."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from orchestrator import goldens
from orchestrator.cli import recording
from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import engine_option, examples
from orchestrator.cli.report import STYLES, console
from orchestrator.config.cells import cell_keys
from orchestrator.config.goldens import read_goldens
from orchestrator.config.suggest import unknown
from orchestrator.errors import ExitCode, Problem, UsageError
from orchestrator.plan import PlannedCell, plan_cells
from orchestrator.results.verdict import exit_code
from orchestrator.text import indented, plain, plural, size, table

_KINDS = {
    "new": "new",
    "changed": "changed",
    "provenance": "same numbers, new record",
    "unchanged": "unchanged",
}


@click.group(
    "golden", epilog=examples("lh-ci golden list", "lh-ci golden update mlp", "lh-ci golden update")
)
def command() -> None:
    """List and record goldens: the known-good outputs of workloads."""


@command.command("list", epilog=examples("lh-ci golden list"))
@pass_app
def list_(app: App, /) -> int:
    """List the goldens that the matrix needs, and those that are missing."""
    config = app.services.load(app.root, goldens=False)
    problems: list[Problem] = []
    found = read_goldens(app.root, config.workloads, tuple(config.workloads), problems)
    keys = {(key.workload, key.variant) for key in cell_keys(config.matrix, config.workloads)}
    rows = [("golden", "source", "recorded", "size")]
    for workload, variant in sorted(keys | set(found)):
        name, golden = f"{workload}/{variant}", found.get((workload, variant))
        if golden is None:
            there = (app.root / "golden" / f"{name}.npz").exists()
            rows.append((name, "broken" if there else "missing", "", ""))
        else:
            record = golden.record
            rows.append((name, record.source, str(record.recorded), size(record.size)))
    for line in table(rows):
        click.echo(plain(line))
    for problem in problems:
        click.echo(plain(str(problem)))
    click.echo(plural(len(found), "golden"))
    return ExitCode.OK


@command.command(
    "update",
    epilog=examples(
        "lh-ci golden update mlp",
        "lh-ci golden update mlp softmax --variant f32 --yes",
        "lh-ci golden update",
    ),
)
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD...]")
@click.option("--variant", "variants", multiple=True, metavar="NAME", help="f32, f64, …")
@click.option("--yes", is_flag=True, help="Write without asking.")
@engine_option
@pass_app
def update(
    app: App, /, workloads: tuple[str, ...], variants: tuple[str, ...], yes: bool, engine: str
) -> int:
    """Record goldens from the framework, in float64 where it can.

    What moves is shown before anything is written. Without WORKLOAD, all that the matrix needs.
    """
    cells = _cells(app, workloads, variants)
    recorded = recording.record(app, cells, engine)
    words = ["lh-ci", "golden", "update", *workloads]
    words += [word for variant in variants for word in ("--variant", variant)]
    changes = [
        goldens.change(app.root / "golden", r, command=shlex.join(words), today=app.today())
        for r in recorded.recordings
    ]
    _show(app.root, changes)
    _show_troubles(recorded)
    moving = [c for c in changes if c.kind != "unchanged"]
    if moving:
        _confirm(len(moving), yes=yes)
        for changed in moving:
            goldens.write(changed)
        click.echo(f"written: {plural(len(moving), 'golden')}")
    else:
        click.echo("nothing to write")
    return exit_code(recorded.troubles)


def _cells(app: App, workloads: Sequence[str], variants: Sequence[str]) -> tuple[PlannedCell, ...]:
    """For each workload and variant the first cell that can run here: the framework is the same.

    Raises:
        UsageError: a name that no cell has, or nothing that can run here.
    """
    # goldens stay unread: a broken one is why people record
    config = app.services.load(app.root, goldens=False)
    cells = plan_cells(config, app.host)
    names = {planned.cell.workload.name for planned in cells}
    for name in workloads:
        if name not in names:
            raise UsageError(unknown("workload", name, names))
    known = {planned.cell.variant for planned in cells}
    for variant in variants:
        if variant not in known:
            raise UsageError(unknown("variant", variant, known))
    wanted = [
        planned
        for planned in cells
        if (not workloads or planned.cell.workload.name in workloads)
        and (not variants or planned.cell.variant in variants)
    ]
    first: dict[tuple[str, str], PlannedCell] = {}
    for planned in wanted:
        if planned.runnable:
            first.setdefault((planned.cell.workload.name, planned.cell.variant), planned)
    if not first:
        reason = next((p.reason for p in wanted), "no cell has both this workload and this variant")
        raise UsageError(f"nothing to record on this machine: {reason}")
    return tuple(first.values())


def _show(root: Path, changes: Sequence[goldens.Change]) -> None:
    for changed in changes:
        if changed.kind != "unchanged":
            name = changed.path.relative_to(root).as_posix()
            click.echo(f"{name}   {_KINDS[changed.kind]}")
            for moved in changed.moved:
                click.echo(f"  output_{moved.index}   {moved.text}")
    kinds = Counter(changed.kind for changed in changes)
    click.echo(", ".join(f"{n} {_KINDS[kind]}" for kind, n in kinds.items()) or "no goldens")


def _show_troubles(recorded: recording.Recorded) -> None:
    out = console()
    for trouble in recorded.troubles:
        out.print(
            plain(f"  {trouble.status:<6}{trouble.cell}   {trouble.phase}"),
            style=STYLES[trouble.status],
        )
        for line in indented(trouble.message, " " * 8, 12):
            out.print(line)


def _can_ask() -> bool:
    return sys.stdin.isatty()


def _confirm(count: int, *, yes: bool) -> None:
    """Raises UsageError when nobody can be asked."""
    if yes:
        return
    if not _can_ask():
        raise UsageError(
            "nothing was written: there is nobody to ask. Pass --yes to write what is shown above"
        )
    click.confirm(f"Write {plural(count, 'golden')}?", abort=True)
