"""Types of command-line values, and options that several commands have."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from orchestrator.cli.selecting import Asked
from orchestrator.job import Constant

F = TypeVar("F", bound=Callable[..., object])

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_TIERS = ("core", "peripheral")
_INT = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?")


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:  # noqa: ARG001
    """Callback of an option: `90s`, `5min`, `1h`, or a number of seconds; gives seconds."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?", value)
    if match is None or not (seconds := float(match[1]) * _UNITS[match[2] or ""]):
        raise click.BadParameter(f"`{value}` is no duration. Write it as `90s`, `5min` or `1h`.")
    return seconds


def assignments(
    ctx: click.Context,  # noqa: ARG001  a callback's signature is click's
    param: click.Parameter,  # noqa: ARG001
    values: tuple[str, ...],
) -> dict[str, Constant]:
    """Callback of an option: `NAME=VALUE`, any number of times."""
    found: dict[str, Constant] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.isidentifier():
            raise click.BadParameter(f"`{value}` is not of the form NAME=VALUE, such as `BATCH=8`.")
        found[name] = constant(text)
    return found


def constant(text: str) -> Constant:
    """`8` is an int, `0.5` and `1e-3` are floats, `true` and `False` bools, the rest text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def section(title: str, *lines: str) -> str:
    """A part of a command's help that click must not reflow."""
    return "\b\n" + "\n".join([f"{title}:", *(f"  {line}" for line in lines)])


def examples(*lines: str) -> str:
    """The examples at the end of a command's help."""
    return section("Examples", *lines)


def filter_options(function: F) -> F:
    """What selects cells beside patterns: pipelines, workloads, variants, pools, tiers."""
    options = (
        _many("--pipeline", "pipelines", "NAME", "Only this pipeline."),
        _many(
            "--workload",
            "workloads",
            "NAME|PATH.py",
            "Only this workload; or any file with `Model` and `get_inputs`, by its path.",
        ),
        _many(
            "--set",
            "constants",
            "NAME=VALUE",
            "Overrides a constant of the workload's module, such as BATCH=8.",
            callback=assignments,
        ),
        _many("--variant", "variants", "NAME", "Only this variant: f32, …"),
        _many("--pool", "pools", "NAME", "Only this pool."),
        _many("--tier", "tiers", None, "Only this tier.", type=click.Choice(_TIERS)),
        _many("--cell", "cells", "GLOB", "Only these cells, by id."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _many(option: str, name: str, metavar: str | None, text: str, **more: Any) -> Callable[[F], F]:
    """An option that may be given several times."""
    return click.option(option, name, multiple=True, metavar=metavar, help=text, **more)


def asked(selection: tuple[str, ...], given: Mapping[str, Any]) -> Asked:
    """What `filter_options` and a SELECTION argument ask for."""
    names = ("pipelines", "workloads", "variants", "pools", "tiers", "cells")
    return Asked(
        selection=selection,
        constants=given["constants"],
        **{name: given[name] for name in names},
    )


def engine_option(function: F) -> F:
    """`--engine`."""
    return click.option(
        "--engine",
        type=click.Choice(["auto", "docker", "venv"]),
        default="auto",
        show_default=True,
        help="Where cells run: in containers, or in virtual environments (not isolated). "
        "`auto` takes containers where an engine answers.",
    )(function)


def keep_option(function: F) -> F:
    """`--keep`."""
    return click.option(
        "--keep",
        type=click.Choice(["never", "failed", "always"]),
        default="failed",
        show_default=True,
        help="Whose IR to keep.",
    )(function)


def timeout_option(function: F) -> F:
    """`--timeout`, in seconds."""
    return click.option(
        "--timeout",
        callback=duration,
        metavar="DURATION",
        help="For each cell, instead of the matrix's: 90s.",
    )(function)


def json_option(function: F) -> F:
    """`--json`."""
    return click.option(
        "--json", "as_json", is_flag=True, help="One JSON document on standard output."
    )(function)
