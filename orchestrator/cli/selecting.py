"""From the words of a command line to cells, and to the files that they need."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.config.objects import Config
from orchestrator.config.suggest import nearest
from orchestrator.config.workloads import read_workload
from orchestrator.errors import DefinitionError, Problem, UsageError
from orchestrator.job import Constant
from orchestrator.plan import (
    AdhocWorkload,
    PlannedCell,
    Selector,
    Where,
    adhoc_cells,
    plan_cells,
    select,
)
from orchestrator.results.schema import AdhocSource
from orchestrator.text import plural

_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a command line asks for; every field that is not empty must agree."""

    selection: tuple[str, ...] = ()
    """Pipelines, or globs over cell ids."""
    pipelines: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    """Names, or paths of Python files."""
    constants: Mapping[str, Constant] = field(default_factory=dict)
    variants: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()

    def words(self) -> tuple[str, ...]:
        """As one would type it."""
        options = (
            ("--pipeline", self.pipelines),
            ("--cell", self.cells),
            ("--workload", self.workloads),
            ("--set", tuple(f"{k}={v}" for k, v in self.constants.items())),
            ("--variant", self.variants),
            ("--pool", self.pools),
            ("--tier", self.tiers),
        )
        return (
            *self.selection,
            *(word for option, values in options for value in values for word in (option, value)),
        )


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Cells, and what is needed to run them."""

    cells: tuple[PlannedCell, ...]
    files: Mapping[str, str]
    """File in a job's folder to the absolute path it is copied from."""
    adhoc: tuple[AdhocSource, ...] = ()

    @property
    def runnable(self) -> tuple[PlannedCell, ...]:
        """Those that this machine can run."""
        return tuple(planned for planned in self.cells if planned.runnable)


def skips(cells: Iterable[PlannedCell]) -> dict[str, int]:
    """Why cells cannot run here, and how many for each reason."""
    reasons: dict[str, int] = {}
    for planned in cells:
        if not planned.runnable:
            reasons[planned.reason] = reasons.get(planned.reason, 0) + 1
    return reasons


def choose(config: Config, host: Where, asked: Asked, cwd: Path) -> Chosen:
    """The cells that `asked` takes.

    Raises:
        UsageError: a name that does not exist, with a suggestion; a file that is not there.
        DefinitionError: a file that is no workload.
    """
    if asked.constants and not asked.workloads:
        raise UsageError("--set needs a workload to set it in: --workload NAME or PATH.py")
    files = {
        word: _adhoc(config, word, cwd)
        for word in asked.workloads
        if _is_path(word) or asked.constants
    }
    cells: list[PlannedCell] = []
    if len(files) < len(asked.workloads) or not files:
        cells += _registered_cells(
            config, host, asked, [w for w in asked.workloads if w not in files]
        )
    for word, file in files.items():
        cells += _adhoc_cells(config, host, asked, _pipelines(config, asked, word), file)
    if asked.cells:
        cells = list(select(cells, Selector(patterns=asked.cells)))
    return Chosen(
        cells=tuple(cells),
        files=_files(config, cells, {file.name: file.path for file in files.values()}),
        adhoc=tuple(
            AdhocSource(
                workload=file.name,
                argument=_portable(word, config.root, cwd),
                constants=asked.constants,
            )
            for word, file in files.items()
        ),
    )


def require_runnable(config: Config, asked: Asked, chosen: Chosen) -> None:
    """Refuses what cannot be run here.

    Raises:
        UsageError: a pool was asked for by name and this machine is not part of it; or nothing
            that was chosen can run here, with every reason.
    """
    _check_pools(config, asked, chosen)
    if not chosen.runnable:
        reasons = "; ".join(f"{plural(n, 'cell')}: {why}" for why, n in skips(chosen.cells).items())
        raise UsageError(f"nothing to run on this machine. {reasons}")


def _is_path(workload: str) -> bool:
    return "/" in workload or workload.endswith(".py")


def _pipelines(config: Config, asked: Asked, workload: str) -> tuple[str, ...]:
    """The pipelines that should run a workload which no line of the matrix names."""
    known = config.matrix.pipelines
    heads = [cell.partition(".")[0] for cell in asked.cells]
    named = (*asked.selection, *asked.pipelines) or tuple(h for h in heads if h in known)
    if named:
        return named
    example = shlex.join(["lh-ci", "run", next(iter(known)), "--workload", workload])
    raise UsageError(
        f"which pipeline should run {workload}? Name it, such as: {example}. "
        f"Pipelines: {', '.join(known)}"
    )


def _registered_cells(
    config: Config, host: Where, asked: Asked, workloads: Sequence[str]
) -> tuple[PlannedCell, ...]:
    return select(
        plan_cells(config, host),
        Selector(
            patterns=asked.selection,
            pipelines=asked.pipelines,
            workloads=tuple(workloads),
            pools=asked.pools,
            tiers=asked.tiers,
            variants=asked.variants,
        ),
    )


def _adhoc(config: Config, argument: str, cwd: Path) -> AdhocWorkload:
    if not _is_path(argument):
        if argument not in config.workloads:
            meant = nearest(argument, config.workloads)
            hint = f" Did you mean `{meant}`?" if meant else ""
            raise UsageError(f"no workload `{argument}`.{hint} A file needs its path: PATH.py")
        known = config.workloads[argument]
        return AdhocWorkload(
            name=known.name, path=known.path, sha256=known.sha256, entry=known.entry
        )
    path = (cwd / Path(argument).expanduser()).resolve()
    problems: list[Problem] = []
    file = read_workload(path, argument, problems)
    if not path.is_file():
        raise UsageError(f"--workload {argument}: there is no file {path}")
    if file is None:
        raise DefinitionError(problems)
    name = re.sub(r"[^a-z0-9_]", "_", path.stem.lower())
    if not name[0].isalpha():
        name = f"w{name}"
    same = name in config.workloads and config.workloads[name].path.resolve() == path
    if name in config.workloads and not same:
        # two programs under one cell id would be taken for one another in results
        name = f"{name}_file"
    return AdhocWorkload(name=name, path=path, sha256=file.sha256, entry=file.entry)


def _adhoc_cells(
    config: Config, host: Where, asked: Asked, pipelines: Sequence[str], file: AdhocWorkload
) -> tuple[PlannedCell, ...]:
    cells = [
        cell
        for variant in asked.variants or (None,)
        for cell in adhoc_cells(
            config,
            host,
            pipelines,
            file,
            asked.constants,
            variant,
            # a pool that is named gets an answer, if only why not
            pools="all" if asked.pools else "here",
        )
    ]
    if asked.pools or asked.tiers:
        return select(cells, Selector(pools=asked.pools, tiers=asked.tiers))
    return tuple(cells)


def _check_pools(config: Config, asked: Asked, chosen: Chosen) -> None:
    for pool in asked.pools:
        there = [planned for planned in chosen.cells if planned.cell.pool == pool]
        if _GLOB.search(pool) or not there or any(planned.runnable for planned in there):
            continue
        served = sorted({planned.cell.pool for planned in chosen.runnable})
        known = f" It serves: {', '.join(served)}." if served else ""
        raise UsageError(
            f"this machine is not part of pool {pool}: {there[0].reason}.{known} "
            f"Pools: {', '.join(config.matrix.pools)}"
        )


def workload_files(config: Config, cells: Iterable[PlannedCell]) -> dict[str, str]:
    """The workload files of registered cells: name in a job's folder to absolute path."""
    return {
        planned.cell.workload.file: str(config.workloads[planned.cell.workload.name].path)
        for planned in cells
    }


def _files(
    config: Config, cells: Sequence[PlannedCell], paths: Mapping[str, Path]
) -> dict[str, str]:
    files = {
        p.cell.workload.file: str(paths[p.cell.workload.name])
        for p in cells
        if p.cell.workload.name in paths
    }
    files |= workload_files(config, (p for p in cells if p.cell.workload.name not in paths))
    for planned in cells:
        if (golden := planned.cell.golden) is not None:
            found = config.goldens[planned.cell.workload.name, planned.cell.variant]
            files[golden.file] = str(found.path)
    return files


def _portable(argument: str, root: Path, cwd: Path) -> str:
    """The argument as it must be typed in the root folder, where nox sessions run."""
    if not _is_path(argument):
        return argument
    path = (cwd / Path(argument).expanduser()).resolve()
    try:
        return str(path.relative_to(root.resolve()))
    except ValueError:
        return str(path)
