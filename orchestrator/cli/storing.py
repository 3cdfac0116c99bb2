"""What commands that work with a store share."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

import click

from orchestrator.cli.app import App
from orchestrator.errors import UsageError
from orchestrator.text import one_line

if TYPE_CHECKING:
    from orchestrator.results.archives.store import Store

F = TypeVar("F", bound=Callable[..., object])
Progress = Callable[[str], None]


def store_option(function: F) -> F:
    """`--store`."""
    return click.option(
        "--store",
        "address",
        metavar="ADDRESS",
        help="A folder, or an address such as s3://bucket/mlir. Default: LH_STORE, else `archive` "
        "in the state folder.",
    )(function)


def open_store(app: App, address: str | None) -> Store:
    """The store of a command line. Raises UsageError."""
    if find_spec("pyarrow") is None:
        raise UsageError(
            "the store's libraries are not installed (pyarrow). "
            "Do: pip install 'lighthouse-ci[store]'"
        )
    from orchestrator.results.archives.objects import open_objects
    from orchestrator.results.archives.store import Store

    where = address or app.settings.store or str(app.state / "archive")
    return Store(open_objects(where), app.state / "history")


def teller(*, quiet: bool) -> Progress:
    """What is going on, on standard error; nothing for programs."""
    return (lambda _: None) if quiet else (lambda line: say(f"      {one_line(line)}"))


def say(text: str) -> None:
    """A line on standard error."""
    click.echo(text, err=True)
