"""Columns that archives have besides those of a row, because they are asked for of every row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from orchestrator.results.history.rows import STAGE_SEPARATOR

if TYPE_CHECKING:
    import pyarrow as pa

DERIVED = ("lowering", "execute")
_EXECUTE = "execute"


def with_derived(table: pa.Table) -> pa.Table:
    """Rows with two more columns, in seconds; NaN where there is none.

    `lowering`: all stages before `execute`; all stages, where there is no such stage.
    `execute`: what kernels took where a GPU says so, else the stage.
    """
    stages = table.column("stages").combine_chunks().dictionary_encode()
    lists = table.column("stage_seconds").combine_chunks()
    codes = stages.indices.to_numpy()
    counts = lists.value_lengths().to_numpy(zero_copy_only=False)
    offsets = np.cumsum(counts) - counts
    seconds = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
    lowering, execute = np.full(len(table), np.nan), np.full(len(table), np.nan)
    for code, text in enumerate(stages.dictionary.to_pylist()):
        names = text.split(STAGE_SEPARATOR) if text else []
        rows = np.flatnonzero((codes == code) & (counts == len(names)))
        if len(rows) and names:
            block = seconds[offsets[rows][:, None] + np.arange(len(names))]
            at = names.index(_EXECUTE) if _EXECUTE in names else len(names)
            # what other machines send may be infinite, both ways
            with np.errstate(invalid="ignore", over="ignore"):
                lowering[rows] = block[:, :at].sum(axis=1)
            if at < len(names):
                execute[rows] = block[:, at]
    kernels: NDArray[np.float64] = table.column("kernel_seconds").to_numpy()
    execute = np.where(np.isfinite(kernels), kernels, execute)
    for name, column in zip(DERIVED, (lowering, execute), strict=True):
        table = table.append_column(name, [column])
    return table
