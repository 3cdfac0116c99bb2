"""Configuration to plan: a pure function. No engine, no network, no clock."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from pathlib import Path
from typing import Literal, Protocol

from orchestrator.config.cells import CellKey, cell_keys, variants_of
from orchestrator.config.load import Config
from orchestrator.config.models import GpuPool, Pool, WorkloadOptions
from orchestrator.config.recipes import expand_target
from orchestrator.config.suggest import listing, nearest, unknown
from orchestrator.errors import UsageError
from orchestrator.host import Host
from orchestrator.job import (
    SPIRV,
    Cell,
    Constant,
    Device,
    Golden,
    Job,
    Keep,
    Target,
    Tolerance,
    Workload,
)

_NO_OPTIONS = WorkloadOptions()


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """A cell of the matrix, with why it is or is not runnable on this machine."""

    cell: Cell
    stack: str
    tier: str
    runnable: bool
    reason: str
    """Why not; empty when runnable."""
    device: Device = ""
    """Whose GPU it executes on; empty for CPUs, software and code that is only assembled."""


class Serving(Protocol):
    """Machines that cells are planned for, where that is not this one."""

    def refusal(self, name: str, pool: Pool) -> str:
        """Why no cell of a pool can be run; empty when it can."""

    def chips(self, name: str, gpu: GpuPool) -> tuple[str, ...]:
        """What to make code for on a pool of GPUs."""


Where = Host | Serving
"""This machine, or others."""


@dataclass(frozen=True, kw_only=True)
class AdhocWorkload:
    """A workload given by its path, from anywhere."""

    name: str
    """Its file's stem."""
    path: Path
    """Absolute."""
    sha256: str
    entry: str = "Model"
    """What it defines: `Model` or `model`."""


@dataclass(frozen=True, kw_only=True)
class Selector:
    """Which cells: every field that is not empty must agree, with any of its entries."""

    patterns: tuple[str, ...] = ()
    """Pipeline names, or globs over cell ids; `pytorch_cpu.mlp` takes all that begin so."""
    pipelines: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()


def plan_cells(config: Config, host: Where) -> tuple[PlannedCell, ...]:
    """Every cell of the matrix in a stable order, runnable on `host` or with a reason."""
    planner = _Planner(config, host)
    return tuple(
        planner.planned(key, planner.registered(key.workload))
        for key in cell_keys(config.matrix, config.workloads)
    )


def adhoc_cells(
    config: Config,
    host: Where,
    pipelines: Sequence[str],
    file: AdhocWorkload,
    constants: Mapping[str, Constant],
    variant: str | None = None,
    *,
    pools: Literal["here", "all"] = "here",
) -> tuple[PlannedCell, ...]:
    """The cells of one workload given by its path, on the pools that this machine serves.

    A file of `recipes/workloads/` is the workload of that name, with its golden unless
    `constants` change it. Any other file makes its own inputs and has no golden. Where this
    machine serves no pool of a pipeline, that pipeline's cells are there with the reason.

    Args:
        config: definitions.
        host: this machine, or the others that are to run them.
        pipelines: names; each must exist.
        file: the workload.
        constants: module constants to override.
        variant: None: those in which the pipeline runs a registered workload, else `native`.
        pools: `all`: those that this machine does not serve too, with the reason.

    Raises:
        UsageError: no such pipeline, or one whose frontend takes another kind of workload.
    """
    planner = _Planner(config, host)
    known = config.workloads.get(file.name)
    ours = known is not None and known.path.resolve() == file.path.resolve()
    workload = planner.registered(file.name) if ours else _foreign(file)
    workload = dataclasses.replace(workload, constants=dict(constants))
    cells: list[PlannedCell] = []
    for name in dict.fromkeys(pipelines):
        if name not in config.matrix.pipelines:
            raise UsageError(unknown("pipeline", name, config.matrix.pipelines))
        pipeline = config.matrix.pipelines[name]
        _require_entry(config, name, file)
        usual = variants_of(pipeline, file.name) if ours else ()
        variants = (variant,) if variant else usual or ("native",)
        served = [pool for pool in dict.fromkeys(pipeline.pools) if not planner.reason(pool)]
        here = served if pools == "here" else []
        cells.extend(
            planner.planned(
                CellKey(pipeline=name, workload=file.name, variant=each, pool=pool),
                workload,
                golden=ours and not constants,
            )
            for each in variants
            for pool in here or dict.fromkeys(pipeline.pools)
        )
    return tuple(cells)


def select(cells: Sequence[PlannedCell], selector: Selector) -> tuple[PlannedCell, ...]:
    """The cells that a selector takes, in their order.

    Raises:
        UsageError: an entry matches no cell at all, or no cell agrees with all fields.
    """
    chosen: Sequence[PlannedCell] = cells
    for kind, entries, match, names in _filters(cells, selector):
        for entry in entries:
            if not any(match(planned, entry) for planned in cells):
                raise UsageError(_nothing(kind, entry, names))
        if entries:
            chosen = [c for c in chosen if any(match(c, entry) for entry in entries)]
    if not chosen:
        asked = dataclasses.asdict(selector)
        parts = [f"{kind} {' '.join(entries)}" for kind, entries in asked.items() if entries]
        if not parts:
            raise UsageError("the matrix has no cells")
        raise UsageError(f"no cell agrees with all of: {'; '.join(parts)}")
    return tuple(chosen)


def make_jobs(
    cells: Iterable[PlannedCell],
    *,
    workers: int,
    toolchain: Literal["auto", "release", "bindings"],
    keep: Keep,
    mode: Literal["run", "record"],
    run: str,
) -> tuple[Job, ...]:
    """One job per stack and pool, of the runnable cells, in the order of their first cells.

    A job's id is `<run>.<stack>.<pool>`: unique among runs, fit for file and container names.
    """
    groups: dict[tuple[str, str], list[Cell]] = {}
    devices: dict[str, Device] = {}
    for planned in cells:
        if planned.runnable:
            cell = dataclasses.replace(planned.cell, keep=keep)
            groups.setdefault((planned.stack, cell.pool), []).append(cell)
            devices[cell.pool] = planned.device
    return tuple(
        Job(
            id=f"{run}.{stack}.{pool}",
            stack=stack,
            pool=pool,
            # a device is not shared: what one cell does to it must not be another's fault
            device=devices[pool],
            cells=tuple(group),
            workers=1 if devices[pool] else max(1, min(workers, len(group))),
            toolchain=toolchain,
            mode=mode,
        )
        for (stack, pool), group in groups.items()
    )


def split_job(job: Job, count: int) -> tuple[Job, ...]:
    """At most `count` jobs of about equal size, numbered from 1 when there are several."""
    size = math.ceil(len(job.cells) / count)
    if size >= len(job.cells):
        return (job,)
    return tuple(
        dataclasses.replace(job, id=f"{job.id}.{number}", cells=job.cells[start : start + size])
        for number, start in enumerate(range(0, len(job.cells), size), 1)
    )


def fixed_chips(gpu: GpuPool) -> tuple[str, ...]:
    """What code is made for whatever device is there; empty: that depends on the device."""
    if gpu.chips is not None:
        return gpu.chips
    return (SPIRV,) if gpu.driver in ("opencl", "vulkan") else ()


# --- how ---------------------------------------------------------------------------------------

_Match = Callable[[PlannedCell, str], bool]


def _entry(config: Config, pipeline: str) -> str:
    """What workloads of a pipeline define; empty when its frontend does not say."""
    recipe = config.pipelines[config.matrix.pipelines[pipeline].recipe]
    return config.frontends.get(recipe.ingress.frontend, "")


def _require_entry(config: Config, pipeline: str, file: AdhocWorkload) -> None:
    wanted = _entry(config, pipeline)
    if wanted in {"", file.entry}:
        return
    others = [name for name in config.matrix.pipelines if _entry(config, name) == file.entry]
    hint = f" Pipelines that take it: {', '.join(others)}" if others else ""
    raise UsageError(
        f"{file.path} defines `{file.entry}`, and {pipeline} takes workloads that define "
        f"`{wanted}`.{hint}"
    )


def _foreign(file: AdhocWorkload) -> Workload:
    return Workload(
        name=file.name, file=f"workloads/{file.name}.py", sha256=file.sha256, inputs="module"
    )


class _Planner:
    """What is the same for many cells, made once."""

    def __init__(self, config: Config, host: Where) -> None:
        self._config = config
        self._where = Here(host) if isinstance(host, Host) else host
        self._table: dict[str, Tolerance] = {
            dtype: Tolerance(rtol=entry.rtol, atol=entry.atol, reason=entry.reason)
            for dtype, entry in config.tolerances.dtypes.items()
        }
        self._overrides = [
            (
                re.compile(translate(o.cells)).match,
                o.dtype,
                Tolerance(rtol=o.rtol, atol=o.atol, reason=o.reason),
            )
            for o in config.tolerances.overrides
        ]
        self._reasons = {
            name: self._where.refusal(name, pool) for name, pool in config.matrix.pools.items()
        }
        self._registered: dict[str, Workload] = {}
        self._made: dict[tuple[str, str], tuple[Target, ...]] = {}

    def reason(self, pool: str) -> str:
        """Why the host does not serve a pool; empty when it does."""
        return self._reasons[pool]

    def registered(self, name: str) -> Workload:
        """A workload of the repository, with what the matrix says of it."""
        if name not in self._registered:
            self._registered[name] = Workload(
                name=name,
                file=f"workloads/{name}.py",
                sha256=self._config.workloads[name].sha256,
                inputs=self._options(name).inputs,
            )
        return self._registered[name]

    def planned(self, key: CellKey, workload: Workload, *, golden: bool = True) -> PlannedCell:
        """One cell; `golden` is False where a recorded golden could not apply."""
        matrix = self._config.matrix
        pipeline = matrix.pipelines[key.pipeline]
        recipe = self._config.pipelines[pipeline.recipe]
        options = self._options(key.workload)
        reason = self._reasons[key.pool]
        cell_id = key.id
        return PlannedCell(
            cell=Cell(
                id=cell_id,
                pipeline=key.pipeline,
                workload=workload,
                variant=key.variant,
                pool=key.pool,
                ingress=recipe.ingress.frontend,
                ingress_options=recipe.ingress.options,
                recipes=self._config.runs[pipeline.recipe],
                targets=self._targets(pipeline.recipe, key.pool),
                execute=self._executes(key.pool),
                golden=self._golden(key) if golden else None,
                tolerance=self._tolerance(cell_id),
                timeout_s=options.timeout or pipeline.timeout or matrix.defaults.timeout,
                memory_bytes=options.memory or pipeline.memory or matrix.defaults.memory,
            ),
            stack=pipeline.stack,
            tier=pipeline.tier,
            runnable=not reason,
            reason=reason,
            device=_device(matrix.pools[key.pool]),
        )

    def _executes(self, name: str) -> bool:
        gpu = self._config.matrix.pools[name].gpu
        return gpu is None or gpu.device != "none"

    def _targets(self, recipe: str, name: str) -> tuple[Target, ...]:
        """What kernels are made for on a pool; empty on CPUs."""
        if (recipe, name) not in self._made:
            config, gpu = self._config, self._config.matrix.pools[name].gpu
            self._made[recipe, name] = (
                ()
                if gpu is None
                else tuple(
                    expand_target(
                        config.pipelines[recipe],
                        gpu,
                        chip,
                        config.definitions,
                        config.libraries,
                    )
                    for chip in self._where.chips(name, gpu)
                )
            )
        return self._made[recipe, name]

    def _options(self, workload: str) -> WorkloadOptions:
        return self._config.matrix.workloads.get(workload, _NO_OPTIONS)

    def _golden(self, key: CellKey) -> Golden | None:
        found = self._config.goldens.get((key.workload, key.variant))
        if found is None:
            return None
        return Golden(
            file=f"golden/{key.workload}/{key.variant}.npz",
            sha256=found.record.sha256,
            size=found.record.size,
            inputs_sha256=found.record.inputs_sha256,
        )

    def _tolerance(self, cell_id: str) -> Mapping[str, Tolerance]:
        """The table by dtype, then each override that matches: the last one wins."""
        layers: dict[str, Tolerance] = {
            dtype: tolerance
            for matches, dtype, tolerance in self._overrides
            if matches(cell_id) is not None
        }
        return {**self._table, **layers} if layers else self._table


def _device(pool: Pool) -> Device:
    device = pool.gpu.device if pool.gpu else "none"
    match device:
        case "none" | "software":
            return ""
        case _:
            return device


class Here:
    """The machine at hand. See `Serving`."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def refusal(self, name: str, pool: Pool) -> str:
        host = self._host
        if pool.arch in (None, host.arch) and pool.cpu_vendor in (None, host.cpu_vendor):
            return _no_gpu(pool.gpu, host) if pool.gpu else ""
        wanted = " ".join(filter(None, [_vendor(pool.cpu_vendor or ""), pool.arch or ""]))
        here = " ".join(filter(None, [_vendor(host.cpu_vendor), host.arch]))
        return f"pool {name} is {wanted}; this machine is {here} ({host.cpu_model})"

    def chips(self, name: str, gpu: GpuPool) -> tuple[str, ...]:  # noqa: ARG002
        there = tuple(g.chip for g in self._host.gpus if g.vendor == gpu.device)
        return fixed_chips(gpu) or there[:1]


def _no_gpu(gpu: GpuPool, host: Host) -> str:
    """Why the host has no device of a pool; empty when it has."""
    if gpu.device in ("none", "software"):
        return ""
    vendor = _GPU_VENDORS[gpu.device]
    there = [g for g in host.gpus if g.vendor == gpu.device]
    if any(not g.problem for g in there):
        return ""
    return there[0].problem if there else f"no {vendor} GPU here"


_GPU_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


def _vendor(name: str) -> str:
    return {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}.get(name, name)


def _filters(
    cells: Sequence[PlannedCell], selector: Selector
) -> list[tuple[str, tuple[str, ...], _Match, list[str]]]:
    """Kind, what is asked of it, whether a cell answers, and the names that exist."""

    def by(name: Callable[[PlannedCell], str]) -> tuple[_Match, list[str]]:
        return lambda c, entry: fnmatchcase(name(c), entry), sorted({name(c) for c in cells})

    return [
        ("cell", selector.patterns, _matches_id, sorted({c.cell.id for c in cells})),
        ("pipeline", selector.pipelines, *by(lambda c: c.cell.pipeline)),
        ("workload", selector.workloads, *by(lambda c: c.cell.workload.name)),
        ("pool", selector.pools, *by(lambda c: c.cell.pool)),
        ("tier", selector.tiers, *by(lambda c: c.tier)),
        ("variant", selector.variants, *by(lambda c: c.cell.variant)),
    ]


def _matches_id(planned: PlannedCell, pattern: str) -> bool:
    """A glob over the id, or over what stands before one of its `.` and `@`."""
    cell = planned.cell
    without_pool = cell.id.rpartition("@")[0]
    stems = (cell.id, without_pool, without_pool.rpartition(".")[0], cell.pipeline)
    return any(fnmatchcase(stem, pattern) for stem in stems)


def _nothing(kind: str, entry: str, names: Sequence[str]) -> str:
    if kind != "cell":
        return unknown(kind, entry, names)
    heads = {name.partition(".")[0] for name in names}
    meant = nearest(entry, heads if "." not in entry else names)
    question = f" Did you mean `{meant}`?" if meant else ""
    return f"no cell matches `{entry}`.{question} Pipelines: {listing(heads)}"
