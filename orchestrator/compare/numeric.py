"""Element by element: |got - golden| <= atol + rtol * |golden|, the rule of `assert_close`.

NaN equals NaN and an infinity equals the same infinity; everything that is not finite on one
side only is a mismatch. Types that are no floats must be equal.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from orchestrator.compare.pattern import describe
from orchestrator.compare.picture import histogram, picture
from orchestrator.harness.elements import FLOATS, ElementType, to_float64
from orchestrator.job import OutputError, Tolerance

Float64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

EXACT = Tolerance(rtol=0.0, atol=0.0, reason="not a floating-point type: must be equal")


def compare(
    index: int,
    got_bits: npt.NDArray[np.generic],
    element: ElementType,
    golden: npt.NDArray[np.generic],
    tolerances: Mapping[str, Tolerance],
) -> OutputError:
    """How far output `index` is from its golden.

    Args:
        index: position of the output.
        got_bits: what the compiled code wrote, in storage type.
        element: its MLIR element type.
        golden: same shape; float64 for float types, integers otherwise.
        tolerances: by element type.

    Raises:
        KeyError: a float type that `tolerances` says nothing about.
        ValueError: the shapes differ.
    """
    if got_bits.shape != golden.shape:
        raise ValueError(f"output {index} has shape {got_bits.shape}, its golden {golden.shape}")
    if element not in FLOATS:
        return _compare_exactly(index, got_bits, element, golden)
    tolerance = tolerances[element]
    got, want = to_float64(got_bits, element), golden.astype(np.float64)
    error = _absolute_error(got, want)
    allowed = tolerance.atol + tolerance.rtol * np.abs(np.where(np.isfinite(want), want, 0.0))
    return _report(index, element, got, want, error, allowed, tolerance)


def _compare_exactly(
    index: int,
    got: npt.NDArray[np.generic],
    element: ElementType,
    golden: npt.NDArray[np.generic],
) -> OutputError:
    """Integers are compared as integers: float64 would merge neighbours above 2**53."""
    wrong = got.astype(np.int64) != golden.astype(np.int64)
    got64, want64 = got.astype(np.float64), golden.astype(np.float64)
    # neighbours that float64 merges still differ by at least one
    error = np.where(wrong, np.maximum(np.abs(got64 - want64), 1.0), 0.0)
    return _report(index, element, got64, want64, error, np.zeros_like(error), EXACT)


def _absolute_error(got: Float64, want: Float64) -> Float64:
    """|got - want|, 0 where both are the same NaN or infinity, infinite where only one is."""
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got - want)
    same = (np.isnan(got) & np.isnan(want)) | (got == want)
    error = np.where(same, 0.0, error)
    return np.where(np.isnan(error), np.inf, error)


def _report(
    index: int,
    element: ElementType,
    got: Float64,
    want: Float64,
    error: Float64,
    allowed: Float64,
    tolerance: Tolerance,
) -> OutputError:
    wrong = error > allowed
    worst = _worst(error, allowed)
    finite = np.isfinite(error)
    nonzero = finite & (want != 0) & np.isfinite(want)
    with np.errstate(over="ignore"):  # a golden next to zero
        relative = error[nonzero] / np.abs(want[nonzero])
    return OutputError(
        index=index,
        shape=tuple(int(n) for n in got.shape),
        dtype=element,
        elements=int(got.size),
        mismatches=int(wrong.sum()),
        max_abs=float(error[finite].max(initial=0.0)),
        max_rel=float(relative.max(initial=0.0)),
        worst=tuple(int(i) for i in worst),
        worst_got=float(got[worst]) if got.size else 0.0,
        worst_golden=float(want[worst]) if want.size else 0.0,
        rtol=tolerance.rtol,
        atol=tolerance.atol,
        reason=tolerance.reason,
        pattern=describe(wrong),
        histogram=histogram(error, allowed),
        picture=picture(wrong),
    )


def _worst(error: Float64, allowed: Float64) -> tuple[np.intp, ...]:
    """Index of the largest excess over the tolerance."""
    if error.size == 0:
        return ()
    return np.unravel_index(int(np.argmax(error - allowed)), error.shape)


def explain(error: OutputError) -> str:
    """What a colleague would write about an output that is off; empty when it is not."""
    if not error.mismatches:
        return ""
    place = ",".join(str(i) for i in error.worst)
    allowed = (
        f"allowed {error.rtol:g} rel + {error.atol:g} abs"
        if error.rtol or error.atol
        else "must be equal"
    )
    # float64 may have merged two integers; of those the worst is the one furthest off
    exact = error.dtype not in FLOATS
    gap = error.max_abs if exact else abs(error.worst_got - error.worst_golden)
    digits = 17 if exact else 6
    text = (
        f"output {error.index}: {error.mismatches:,} of {error.elements:,} elements off, "
        f"worst {gap:.3g} at [{place}] "
        f"(got {error.worst_got:.{digits}g}, golden {error.worst_golden:.{digits}g}; {allowed})"
    )
    return f"{text}\npattern: {error.pattern}" if error.pattern else text


def details(error: OutputError) -> list[str]:
    """All about an output, off or not, in lines."""
    shape = "x".join(map(str, error.shape)) or "scalar"
    off = f"{error.mismatches:,} of {error.elements:,} elements off"
    allowed = f"{error.rtol:g} rel + {error.atol:g} abs ({error.reason})"
    lines = [
        f"output_{error.index}   {shape} {error.dtype}   {off}",
        f"  max abs {error.max_abs:.3g}, max rel {error.max_rel:.3g}; allowed {allowed}",
    ]
    if error.mismatches:
        worst = ",".join(map(str, error.worst))
        lines.append(
            f"  worst at [{worst}]: got {error.worst_got:.6g}, golden {error.worst_golden:.6g}"
        )
    if error.pattern:
        lines.append(f"  pattern: {error.pattern}")
    return lines
