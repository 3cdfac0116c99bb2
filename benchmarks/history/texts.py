"""What cells and machines say when something is wrong."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.history import draws
from orchestrator.compare.numeric import explain
from orchestrator.health.evidence import Evidence
from orchestrator.job import OutputError

CAUSES = (
    "the job ended under this cell: killed: out of memory (limit 8 GiB)",
    "the harness stopped answering: not a word for 60 s",
    "no space left on the device",
    "never started: the container could not be started: the engine did not answer within 30 s",
)
GPU_CAUSES: Mapping[str, tuple[str, ...]] = {
    "nvidia-gpu": (
        "GPU fault seen from outside: Xid 79: the GPU has fallen off the bus",
        "GPU fault seen from outside: Xid 48: double-bit ECC error",
        "never started: NVML says that driver and library versions do not match",
    ),
    "amd-gpu": (
        "GPU fault seen from outside: amdgpu: ring gfx_0.0.0 timeout",
        "the device did not come back: the AMD GPU was waited for 60 s",
    ),
    "intel-gpu": (
        "GPU fault seen from outside: xe: GT0: engine reset",
        "the device did not come back: the Intel GPU was waited for 60 s",
    ),
}
_DIALECTS = ("tm_tensor", "tensor", "stablehlo", "bufferization", "memref", "scf", "vector")
_OPERATIONS = ("scan", "sort", "pad", "yield", "extract_slice", "reshape", "cast", "transfer_read")
_PATTERNS = (
    "scattered over 63.56% of the elements",
    "every 4th element of the last axis",
    "the last 3 of 67 columns",
    "rows 16 to 28",
)


def phase_of(cause: str) -> str:
    """Where a miss shows."""
    return "build" if cause.startswith("never started") else "execute"


def evidence(cause: str) -> tuple[Evidence, ...]:
    """What was seen of a GPU from outside, where a cause tells of that."""
    head, colon, text = cause.partition("GPU fault seen from outside: ")
    if head or not colon:
        return ()
    kind = "xid" if "Xid" in text else "reset"
    code = text.split()[1].rstrip(":") if kind == "xid" else ""
    return (Evidence(kind=kind, blame="device", text=text, gpu="0000:65:00.0", code=code),)


def message(phase: str, error: OutputError | None, *key: str | int) -> str:
    """Of a failure at a phase; the same key gives the same message."""
    if phase == "compare" and error is not None:
        return explain(error)
    if phase.startswith("lower:"):
        return _refused(phase.removeprefix("lower:"), *key)
    return {
        "ingress": "torch.export: Could not guard on data-dependent expression Eq(u0, 1)",
        "codegen": "clang: error: undefined symbol: __truncdfbf2",
        "execute": "killed by SIGSEGV",
    }.get(phase, f"{phase} failed")


def _refused(recipe: str, *key: str | int) -> str:
    dialect = draws.pick(_DIALECTS, "dialect", *key)
    operation = f"{dialect}.{draws.pick(_OPERATIONS, 'operation', *key)}"
    templates = (
        f"found {operation} (1), {dialect}.yield (1), which this recipe does not take",
        f"{recipe} left {operation} (2) behind (its contract: gone)",
        f"mlir-opt: failed to legalize operation '{operation}' that was explicitly marked illegal",
        f"{recipe} changed nothing (it says it must change the IR)",
    )
    return draws.pick(templates, "template", *key)


def last_words(phase: str, message: str) -> str:
    """The end of what a failing cell printed."""
    match phase.partition(":")[0]:
        case "ingress":
            return (
                'Traceback (most recent call last):\n  File "/job/orchestrator/harness/cell.py", '
                f"line 86, in run\n    return _run(cell, context, stage)\nRuntimeError: {message}\n"
            )
        case "lower":
            note = 'see current operation: %7 = "tm_tensor.scan"(%5, %6) : (tensor<29x67xf32>)'
            return f"<stdin>:14:10: error: {message}\n<stdin>:14:10: note: {note}\n"
        case "codegen":
            return f"{message}\nclang: error: linker command failed with exit code 1\n"
        case "execute":
            return "PLEASE submit a bug report\nStack dump:\n #0 0x00007f3a5c (kernel+0x5c)\n"
        case _:
            return ""


def exit_word(phase: str, status: str) -> str:
    """How the stage ended."""
    return "signal SIGSEGV" if phase == "execute" and status == "fail" else status


def off(good: OutputError, *key: str | int) -> OutputError:
    """An output that is wrong, made of one that is right."""
    allowed = good.atol + good.rtol * abs(good.worst_golden)
    gap = allowed * 10 ** (0.5 + 2.5 * draws.unit("gap", *key))
    share = draws.unit("share", *key)
    return OutputError(
        index=good.index,
        shape=good.shape,
        dtype=good.dtype,
        elements=good.elements,
        mismatches=max(1, int(share * good.elements)),
        max_abs=gap,
        max_rel=gap * 4,
        worst=good.worst,
        worst_got=good.worst_golden + gap,
        worst_golden=good.worst_golden,
        rtol=good.rtol,
        atol=good.atol,
        reason=good.reason,
        pattern=draws.pick(_PATTERNS, "pattern", *key),
    )
