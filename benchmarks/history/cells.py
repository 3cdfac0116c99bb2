"""The cells of a made-up matrix: the repository's own, thinned out or enlarged."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.history import draws, hostile
from benchmarks.history.events import Parameters
from orchestrator.config.cells import CellKey, cell_keys
from orchestrator.config.declare import declare
from orchestrator.config.load import load
from orchestrator.config.models import GpuPool
from orchestrator.results.declared import Declared, DeclaredPipeline

ROOT = Path(__file__).resolve().parents[2]

_MORE_PIPELINES = {
    "onnx_cpu": ("pytorch_cpu", "pytorch", "peripheral", "ONNX models through linalg to CPU code"),
    "jax_gpu": ("pytorch_gpu", "jax", "peripheral", "JAX functions to kernels of all vendors"),
    "pytorch_tosa_cpu": ("pytorch_stablehlo_cpu", "pytorch", "core", "PyTorch through TOSA"),
    "pytorch_vector_cpu": ("pytorch_cpu", "pytorch", "core", "PyTorch to explicit vectors"),
}
"""Name to the pipeline that it is like, its stack, tier and description."""
_FAMILIES = (
    *("decoder_block", "encoder_block", "resnet_stage", "unet_level", "mamba_scan", "moe_router"),
    *("vit_patch", "conv_tower", "graph_step", "lstm_stack", "rope_cache", "kv_update"),
)
_VARIANTS = ("f32", "bf16")
_LATE_SHARE = 0.02
"""Of the workloads: come during the year; as many go."""


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Which cells there are."""

    keys: tuple[CellKey, ...]
    """Sorted by id."""
    declared: Declared
    """With all of them, before anything changed."""
    gpus: Mapping[str, GpuPool | None]
    """Of each pool."""
    late: tuple[str, ...]
    """Workloads that come during the year, in order."""
    leaving: tuple[str, ...]
    """Workloads that go during the year, in order."""


def matrix(parameters: Parameters) -> Matrix:
    """A matrix with exactly so many cells."""
    series, seed = parameters.series, parameters.seed
    config = load(ROOT, goldens=False)
    declared = declare(config)
    keys = list(cell_keys(config.matrix, config.workloads))
    if series > len(keys):
        declared = _with_more_pipelines(declared)
        keys += itertools.islice(_more(declared), series - len(keys))
    else:
        keys = _fewer(keys, series)
    if parameters.hostile:
        keys = hostile.named(keys)
    keys.sort(key=lambda key: key.id)
    late, leaving = _passing_through(keys, seed)
    return Matrix(
        keys=tuple(keys),
        declared=_only(declared, keys),
        gpus={name: pool.gpu for name, pool in config.matrix.pools.items()},
        late=late,
        leaving=leaving,
    )


def _fewer(keys: Sequence[CellKey], series: int) -> list[CellKey]:
    """Some of each pipeline on each pool, in turn, so that all are there as long as possible."""
    groups: defaultdict[tuple[str, str], list[CellKey]] = defaultdict(list)
    for key in keys:
        groups[key.pipeline, key.pool].append(key)
    turns = itertools.zip_longest(*groups.values())
    return [key for turn in turns for key in turn if key is not None][:series]


def _with_more_pipelines(declared: Declared) -> Declared:
    more: dict[str, DeclaredPipeline] = {}
    for name, (like, stack, tier, about) in _MORE_PIPELINES.items():
        template = declared.pipelines[like]
        more[name] = dataclasses.replace(template, stack=stack, tier=tier, about=about)
    return dataclasses.replace(declared, pipelines={**declared.pipelines, **more})


def _more(declared: Declared) -> Iterator[CellKey]:
    """Cells without end, workload by workload."""
    pipelines = {
        name: pipeline
        for name, pipeline in declared.pipelines.items()
        if name not in ("jax_cpu", "triton_gpu")
    }
    for number in itertools.count(1):
        for family in _FAMILIES:
            workload = f"{family}_{number:02}"
            for (name, pipeline), variant in itertools.product(pipelines.items(), _VARIANTS):
                for pool in pipeline.pools:
                    yield CellKey(pipeline=name, workload=workload, variant=variant, pool=pool)


def _passing_through(keys: Sequence[CellKey], seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Workloads that come, and others that go: none that a large part of the matrix is about."""
    sizes = Counter(key.workload for key in keys)
    most = max(5, len(keys) // 100)
    names = sorted(
        (name for name, size in sizes.items() if size <= most and not name.startswith("gelu_t")),
        key=lambda name: draws.unit(seed, "passing", name),
    )
    count = max(1, round(len(sizes) * _LATE_SHARE))
    return tuple(names[:count]), tuple(names[count : 2 * count])


def _only(declared: Declared, keys: Sequence[CellKey]) -> Declared:
    """Without the workloads, and pools of pipelines, that no cell has."""
    workloads = {key.workload for key in keys}
    there = {(key.pipeline, key.pool) for key in keys}
    pipelines = {
        name: dataclasses.replace(
            pipeline, pools=tuple(pool for pool in pipeline.pools if (name, pool) in there)
        )
        for name, pipeline in declared.pipelines.items()
        if any(name == each for each, _ in there)
    }
    abouts = {
        name: declared.workloads.get(name, f"One of {name.rpartition('_')[0]}, made up.")
        for name in sorted(workloads)
    }
    return dataclasses.replace(declared, pipelines=pipelines, workloads=abouts)
