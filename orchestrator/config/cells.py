"""Which cells a matrix has: names alone, in a stable order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from orchestrator.config.models import Matrix, Pipeline, Selection


@dataclass(frozen=True, kw_only=True)
class CellKey:
    """The coordinates of a cell."""

    pipeline: str
    workload: str
    variant: str
    pool: str

    @property
    def id(self) -> str:
        """Needs no shell quoting: `pytorch_cpu.mlp.f32@intel-cpu`."""
        return f"{self.pipeline}.{self.workload}.{self.variant}@{self.pool}"


def selected(selection: Selection, workloads: Iterable[str]) -> Iterator[str]:
    """The names among `workloads` that a selection takes, in their order."""
    for name in workloads:
        if any(fnmatchcase(name, glob) for glob in selection.workloads) and not any(
            fnmatchcase(name, glob) for glob in selection.without
        ):
            yield name


def variants_of(pipeline: Pipeline, workload: str) -> tuple[str, ...]:
    """The variants in which a pipeline runs a workload, each once, in the matrix's order."""
    return tuple(
        dict.fromkeys(
            variant
            for run in pipeline.runs
            if any(selected(run, [workload]))
            for variant in run.variants
        )
    )


def pools_of(pipeline: Pipeline, workload: str, variant: str) -> tuple[str, ...]:
    """The pools on which a pipeline runs a workload in a variant, in the pipeline's order."""
    runs = [
        run for run in pipeline.runs if variant in run.variants and any(selected(run, [workload]))
    ]
    return tuple(
        pool
        for pool in dict.fromkeys(pipeline.pools)
        if any(not run.pools or pool in run.pools for run in runs)
    )


def cell_keys(matrix: Matrix, workloads: Iterable[str]) -> Iterator[CellKey]:
    """Every cell once: pipelines as in the matrix, workloads by name, variants, pools.

    Several selections that take the same workload and variant make one cell.
    """
    names = sorted(workloads)
    for pipeline_name, pipeline in matrix.pipelines.items():
        for workload in names:
            for variant in variants_of(pipeline, workload):
                for pool in pools_of(pipeline, workload, variant):
                    yield CellKey(
                        pipeline=pipeline_name, workload=workload, variant=variant, pool=pool
                    )
