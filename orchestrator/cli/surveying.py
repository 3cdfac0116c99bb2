"""The machine at hand, as far as a fleet wants to know: what it has, and what it can serve."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import click

from orchestrator import records
from orchestrator.cli.app import App
from orchestrator.config.objects import Config
from orchestrator.engines.choose import OR_WITHOUT
from orchestrator.errors import InfrastructureError
from orchestrator.fleet.register import Served, survey
from orchestrator.host import Gpu, Host
from orchestrator.text import plain, plural, size, table

_FLAGS = (
    *("avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16"),
    *("avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "asimdhp", "bf16", "i8mm", "sve", "sve2", "sme"),
)
"""Of a CPU's many, those that code is made for."""


@dataclass(frozen=True, kw_only=True)
class Here:
    """The machine at hand."""

    config: Config
    host: Host
    engine: str
    """What runs cells; empty when nothing may."""
    engine_problem: str
    contained: bool
    """Cells run in containers."""
    free_bytes: int
    pools: tuple[Served, ...]


def look(app: App, uncontained: bool) -> Here:
    """Looks; starts nothing but the vendors' tools. Raises DefinitionError."""
    config = app.services.load(app.root, goldens=False)
    engine, problem, contained = _engine(app, uncontained)
    return Here(
        config=config,
        host=app.host,
        engine=engine,
        engine_problem=problem,
        contained=contained,
        free_bytes=_free(app.state),
        pools=survey(config, app.host),
    )


def _engine(app: App, uncontained: bool) -> tuple[str, str, bool]:
    """What runs cells here, or why nothing may; and whether it contains them."""
    try:
        engine, note = app.engine("auto")
    except InfrastructureError as error:
        return "", str(error), False
    contained = engine.name != "venv"
    if not contained and not uncontained:
        return "", f"{_no_containers(app, note)} Or give --uncontained to run them as you", False
    return note, "", contained


def _no_containers(app: App, note: str) -> str:
    """What stands in the way, in words of the engine that should be there."""
    try:
        app.engine("docker")
    except InfrastructureError as error:
        note = str(error).removesuffix(OR_WITHOUT).rstrip()
    return f"cells are other people's programs and need a container engine. {note.rstrip('.')}."


def _free(state: Path) -> int:
    """Bytes on the disk that the state folder is, or will be, on."""
    folder = next(each for each in (state, *state.parents) if each.exists())
    return shutil.disk_usage(folder).free


def show(here: Here) -> None:
    """For people."""
    host = here.host
    flags = set(host.cpu_flags.split())
    rows = [
        ("cpu", f"{host.cpu_model}, {host.arch}, {plural(host.cpus, 'core')}"),
        ("flags", " ".join(flag for flag in _FLAGS if flag in flags) or "none that matter"),
        ("memory", size(host.memory_bytes)),
        ("disk", f"{size(here.free_bytes)} free"),
        ("engine", here.engine or here.engine_problem),
        *(("gpu", _gpu(gpu)) for gpu in host.gpus),
    ]
    pools = [
        (each.pool, f"no: {each.reason}" if each.reason else f"yes: {', '.join(each.pipelines)}")
        for each in here.pools
    ]
    for line in [*table(rows), "", *table([("pool", "can serve it"), *pools])]:
        click.echo(plain(line))


def _gpu(gpu: Gpu) -> str:
    """What it is, and whether this user may use it."""
    parts = [
        f"{gpu.name} {gpu.chip}".rstrip(),
        f"driver {gpu.driver_version}" if gpu.driver_version else "",
        size(gpu.memory_bytes) if gpu.memory_bytes else "",
        gpu.problem or " ".join(gpu.nodes),
    ]
    return ", ".join(filter(None, parts))


def describe(here: Here) -> dict[str, object]:
    """For programs."""
    return {
        "host": records.encode(here.host),
        "engine": here.engine,
        "engine_problem": here.engine_problem,
        "contained": here.contained,
        "free_bytes": here.free_bytes,
        "pools": [records.encode(each) for each in here.pools],
    }
