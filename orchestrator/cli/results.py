"""`lh-ci results`: the store that keeps results for years."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator import records
from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import examples, json_option
from orchestrator.cli.results_query import query
from orchestrator.cli.storing import open_store, say, store_option, teller
from orchestrator.errors import ExitCode, InfrastructureError, UsageError
from orchestrator.results.store import RUN_NAME, Run
from orchestrator.text import plain, plural, size, table

if TYPE_CHECKING:
    from orchestrator.results.archives.collect import Added


@click.group(
    "results",
    epilog=examples(
        "lh-ci results add                    all finished runs of this workspace, to the store",
        "lh-ci results compact                months that are over become one file each",
        "lh-ci results query 'SELECT status, count(*) FROM cells GROUP BY 1'",
    ),
)
def command() -> None:
    """Keep results for years in one place, and ask it questions in SQL."""


command.add_command(query)


@command.command(
    "add",
    epilog=examples(
        "lh-ci results add",
        "lh-ci results add last --artifacts",
        "lh-ci results add --store s3://bucket/mlir 2026-11-20T21-04-11",
        "lh-ci results add /mnt/old/*.parquet",
    ),
)
@click.argument("what", nargs=-1, metavar="[RUN|last|PATH]...")
@store_option
@click.option("--artifacts", is_flag=True, help="Also what red cells left: IR, inputs, outputs.")
@click.option(
    "--as-is",
    is_flag=True,
    help="Also runs that were stopped, or have documents that cannot be read. They stay so.",
)
@json_option
@pass_app
def add(
    app: App,
    /,
    what: tuple[str, ...],
    address: str | None,
    artifacts: bool,
    as_is: bool,
    as_json: bool,
) -> int:
    """Add runs to the store. Without a name: all of this workspace.

    PATH is a run's folder, an archive of runs (*.parquet), or a folder of these. A run that is
    there already and is the same is passed over; one that differs is refused.
    """
    from orchestrator.results.archives.collect import add_archive, add_run

    store, progress = open_store(app, address), teller(quiet=as_json)
    done: list[Added] = []
    problems: list[str] = []
    for each in _runs(app, what) if what else app.runs.all():
        try:
            if isinstance(each, Run):
                found = add_run(store, each, as_is=as_is, artifacts=artifacts, progress=progress)
                done.append(_told(found, as_json=as_json))
            else:
                done += [_told(a, as_json=as_json) for a in add_archive(store, each)]
        except InfrastructureError as error:
            problems.append(str(error))
    if as_json:
        _print({"store": store.objects.address, "runs": records.encode(done)}, problems)
    else:
        counts = [sum(a.outcome == outcome for a in done) for outcome in ("added", "there")]
        click.echo(
            f"{plural(counts[0], 'run')} added, {counts[1]:,} already in {store.objects.address}"
        )
    _tell(problems, as_json=as_json)
    if problems:
        return ExitCode.INFRASTRUCTURE
    wrong = ("refused", "left") if what else ("refused",)
    return ExitCode.USAGE if any(a.outcome in wrong for a in done) else ExitCode.OK


def _runs(app: App, what: tuple[str, ...]) -> Iterator[Run | Path]:
    """Run folders and archives. Raises UsageError."""
    for word in what:
        path = Path.cwd() / Path(word).expanduser()
        if word == "last" or not path.exists():
            yield app.runs.find(word)
        elif path.is_file():
            yield path
        elif RUN_NAME.fullmatch(path.resolve().name):
            yield Run(path.resolve())
        else:
            found = [
                Run(each) if each.is_dir() else each
                for each in sorted(path.iterdir())
                if (RUN_NAME.fullmatch(each.name) and each.is_dir()) or each.suffix == ".parquet"
            ]
            if not found:
                raise UsageError(f"{word} has no runs: name a run, its folder, or an archive")
            yield from found


def _told(added: Added, *, as_json: bool) -> Added:
    if not as_json and added.outcome != "there":
        more = f"   {plural(added.artifacts, 'cell')} with artifacts" if added.artifacts else ""
        why = f": {added.why}" if added.why else ""
        click.echo(plain(f"{added.outcome:<9}{added.run}{more}{why}"))
    return added


@command.command(
    "compact",
    epilog=examples("lh-ci results compact", "lh-ci results compact --store s3://bucket/mlir"),
)
@store_option
@json_option
@pass_app
def compact(app: App, /, address: str | None, as_json: bool) -> int:
    """Merge the runs of every month that is over into one file.

    Safe at any time, also while others add, compact or read: nothing is removed before what
    replaces it was read back. Stopped in between, it goes on the next time.
    """
    from orchestrator.results.archives.compact import compact as merge

    store = open_store(app, address)
    done = merge(store, app.today().isoformat(), teller(quiet=as_json))
    if as_json:
        document = {"store": store.objects.address, "months": list(done.months)}
        _print({**document, "removed": done.removed}, done.problems)
    else:
        months = f"{plural(len(done.months), 'month')} merged"
        click.echo(f"{months}, {plural(done.removed, 'archive')} removed")
    _tell(done.problems, as_json=as_json)
    return ExitCode.INFRASTRUCTURE if done.problems else ExitCode.OK


@command.command(
    "list",
    epilog=examples("lh-ci results list", "lh-ci results list --store s3://bucket/mlir --json"),
)
@store_option
@json_option
@pass_app
def list_(app: App, /, address: str | None, as_json: bool) -> int:
    """List the runs in the store, and the archive that each is in."""
    store, problems = open_store(app, address), list[str]()
    found = list(store.each(store.archive, problems))
    if as_json:
        archives = [
            {"name": e.stored.name, "bytes": e.stored.size, "runs": records.encode(archive.runs)}
            for e, archive in found
        ]
        _print({"store": store.objects.address, "archives": archives}, problems)
    else:
        runs = {r.run: (r, e.stored.name) for e, archive in reversed(found) for r in archive.runs}
        rows = [("run", "ended", "cells", "engine", "archive")]
        for run, (record, name) in sorted(runs.items()):
            ended = record.ended or "stopped"
            rows.append((run, ended, f"{record.cells:,}", record.engine, name))
        for line in table(rows) if runs else ():
            click.echo(plain(line))
        held = sum(entry.stored.size for entry, _ in found)
        archives_text = f"{plural(len(found), 'archive')}, {size(held)}"
        click.echo(f"{plural(len(runs), 'run')} in {archives_text}   {store.objects.address}")
    _tell(problems, as_json=as_json)
    return ExitCode.INFRASTRUCTURE if problems else ExitCode.OK


@command.command("verify", epilog=examples("lh-ci results verify"))
@store_option
@json_option
@pass_app
def verify(app: App, /, address: str | None, as_json: bool) -> int:
    """Read every row of the store, and say what is damaged or contradicts itself."""
    from orchestrator.results.archives.verify import verify as look

    store = open_store(app, address)
    seen = look(store, teller(quiet=as_json))
    if as_json:
        document = {"archives": seen.archives, "runs": seen.runs, "twice": seen.twice}
        _print({"store": store.objects.address, **document}, seen.problems)
    else:
        twice = f", {seen.twice:,} of them twice: lh-ci results compact" if seen.twice else ""
        archives = plural(seen.archives, "archive")
        click.echo(f"{archives} and {plural(seen.runs, 'run')} can be read{twice}")
    _tell(seen.problems, as_json=as_json)
    return ExitCode.INFRASTRUCTURE if seen.problems else ExitCode.OK


def _print(document: dict[str, Any], problems: list[str] | tuple[str, ...]) -> None:
    click.echo(json.dumps({"schema": 1, **document, "problems": list(problems)}, indent=2))


def _tell(problems: list[str] | tuple[str, ...], *, as_json: bool) -> None:
    for problem in () if as_json else problems:
        say(plain(problem))
