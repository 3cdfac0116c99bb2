"""`lh-ci clean`: what dead runs left, and what is asked for."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from orchestrator.backends.local_places import DOCUMENT, FOLDER, Place
from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import examples
from orchestrator.engines.locks import if_free
from orchestrator.errors import InfrastructureError
from orchestrator.results.files import tree_bytes
from orchestrator.text import plain, size

_ENGINES = ("docker", "venv")
_VENVS = ("venvs", "llvm", "sysroots")
"""In the state folder: environments, and the LLVM release fetched for them."""
_LITTLE = ("record", "crashes", "scratch", "history")
"""In the state folder, with `--all`: what no other option names."""


@dataclass(frozen=True, kw_only=True)
class _Item:
    """Something that can go."""

    name: str
    bytes: int
    remove: Callable[[], None]


@click.command(
    "clean",
    epilog=examples(
        "lh-ci clean",
        "lh-ci clean --runs --dry-run",
        "lh-ci clean --all",
    ),
)
@click.option("--runs", is_flag=True, help="All runs with their results, but those that run now.")
@click.option("--images", is_flag=True, help="All images that lh-ci built.")
@click.option(
    "--venvs",
    is_flag=True,
    help="All virtual environments, and the LLVM and system packages that they use.",
)
@click.option("--all", "everything", is_flag=True, help="All of it.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@pass_app
def command(
    app: App, /, runs: bool, images: bool, venvs: bool, everything: bool, dry_run: bool
) -> int:
    """Remove containers and processes that dead runs left behind, and what is asked for."""
    if not dry_run:
        _sweep(app)
    freed = 0
    items: list[_Item] = []
    if runs or everything:
        items += [*_runs(app), *_submissions(app)]
    if venvs or everything:
        items += _folders(app, _VENVS)
    if everything:
        items += _folders(app, _LITTLE)
    freed += _remove(items, dry_run=dry_run)
    if images or everything:
        freed += _clean_images(app, dry_run=dry_run)
    verb = "would free" if dry_run else "freed"
    click.echo(f"{verb} {size(freed)}")
    if not (runs or images or venvs or everything):
        _say_what_can_go(app)
    return 0


def _sweep(app: App) -> None:
    for name in _ENGINES:
        try:
            engine, _ = app.engine(name)
            removed = engine.sweep()
        except InfrastructureError as error:
            click.echo(plain(f"{name}: nothing swept: {error}"))
            continue
        for what in removed:
            click.echo(plain(f"{name}: removed {what}"))
        if not removed:
            click.echo(f"{name}: nothing was left behind")


def _runs(app: App) -> list[_Item]:
    items = []
    for run in app.runs.all():
        with if_free(run.folder / "lock") as free:
            if not free:
                click.echo(f"{app.shown(run.folder)}   stays: it is running")
                continue
        items.append(_tree(app, run.folder))
    return items


def _submissions(app: App) -> list[_Item]:
    """Of `run --as-agent`: what a dispatcher that never came back left."""
    items = []
    for path in sorted((app.state / FOLDER).glob(f"*/{DOCUMENT}")):
        if Place(folder=path.parent).alive():
            click.echo(f"{app.shown(path.parent)}   stays: it is running")
        else:
            items.append(_tree(app, path.parent))
    return items


def _folders(app: App, names: Iterable[str]) -> list[_Item]:
    return [_tree(app, app.state / name) for name in names if (app.state / name).is_dir()]


def _tree(app: App, path: Path) -> _Item:
    return _Item(name=app.shown(path), bytes=tree_bytes(path), remove=partial(_remove_tree, path))


def _remove_tree(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise InfrastructureError(f"cannot remove {path}: {error.strerror or error}") from error


def _remove(items: Iterable[_Item], *, dry_run: bool) -> int:
    """Removes, unless it is only to be said; gives bytes."""
    freed = 0
    for item in items:
        if not dry_run:
            item.remove()
        click.echo(
            plain(f"{'would remove' if dry_run else 'removed'} {item.name}   {size(item.bytes)}")
        )
        freed += item.bytes
    return freed


def _clean_images(app: App, *, dry_run: bool) -> int:
    try:
        with app.services.open_images(app.services.environ) as images:
            items = [
                _Item(name=i.tag, bytes=i.size, remove=partial(images.remove, i.tag))
                for i in images.all()
            ]
            return _remove(items, dry_run=dry_run)
    except InfrastructureError as error:
        click.echo(plain(f"images: {error}"))
        return 0


def _say_what_can_go(app: App) -> None:
    folders = {"--runs": ("runs", FOLDER), "--venvs": _VENVS}
    for option, names in folders.items():
        held = sum(tree_bytes(app.state / name) for name in names)
        if held:
            click.echo(f"lh-ci clean {option:<8} would free {size(held)}")
    click.echo("lh-ci clean --images removes the images that lh-ci built")
