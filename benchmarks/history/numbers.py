"""What cells compute, and what an assembler says of their kernels.

The same every night until the compiler changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from benchmarks.history import draws
from benchmarks.history.world import World
from orchestrator.job import KernelFacts, OutputError

_TOLERANCES = {
    "f32": ("f32", 1.3e-6, 1e-5),
    "bf16": ("bf16", 1.6e-2, 1e-5),
    "f16": ("f16", 1e-3, 1e-5),
}
"""By variant: element type, relative and absolute tolerance."""
_EXACT = ("i32", 0.0, 0.0)
_REASON = "torch.testing.assert_close's table"
_FORMS = {"cuda": "cubin", "hip": "hsaco"}


def outputs(world: World, cell: int, versions: Mapping[str, str]) -> tuple[OutputError, ...]:
    """The errors of a cell that passes, with some versions of its stack; none if nothing runs."""
    if not world.of_cell(cell).executes:
        return ()
    count = 2 if draws.unit("outputs", world.ids[cell]) < 0.1 else 1
    return tuple(_output(world, cell, index, versions) for index in range(count))


def depends_on(cell: str) -> str:
    """The package by whose version a cell's numbers change; empty: none."""
    drawn = draws.unit("moves", cell)
    return "LLVM" if drawn < 0.3 else "torch-mlir" if drawn < 0.45 else ""


def _output(world: World, cell: int, index: int, versions: Mapping[str, str]) -> OutputError:
    name = world.ids[cell]
    epoch = versions.get(depends_on(name), "")
    dtype, rtol, atol = _TOLERANCES.get(world.keys[cell].variant, _EXACT)
    shape = tuple(7 + int(draws.unit("shape", name, index, d) * 120) for d in range(2))
    golden = round(draws.unit("golden", name, index) * 2 - 1, 9)
    gap = (atol + rtol * abs(golden)) * 0.6 * draws.unit("error", name, index, epoch) ** 2
    return OutputError(
        index=index,
        shape=shape,
        dtype=dtype,
        elements=math.prod(shape),
        mismatches=0,
        max_abs=gap,
        max_rel=gap * 3,
        worst=tuple(int(draws.unit("worst", name, index, n) * n) for n in shape),
        worst_got=golden + gap,
        worst_golden=golden,
        rtol=rtol,
        atol=atol,
        reason=_REASON,
    )


def kernels(world: World, cell: int) -> tuple[KernelFacts, ...]:
    """What is known of a cell's kernels; none on CPUs."""
    route, key = world.of_cell(cell), world.keys[cell]
    if not route.driver or key.pool.startswith("software"):
        return ()
    form = _FORMS.get(route.driver, "spirv")
    told = form != "spirv"
    return tuple(
        KernelFacts(
            chip=chip,
            kernel=f"{key.workload}_kernel::{key.workload}_kernel",
            form=form,
            code_bytes=1024 + int(draws.unit("code", key.id, chip) * 30000),
            registers=16 + int(draws.unit("registers", key.id, chip) * 100) if told else None,
            spilled_bytes=0 if told else None,
            shared_bytes=int(draws.unit("shared", key.id) * 32) * 1024 if told else None,
        )
        for chip in route.chips
    )
