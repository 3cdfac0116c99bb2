"""Texts and numbers as pages have them."""

from __future__ import annotations

import numpy as np

from orchestrator.results.history.table import Floats

MESSAGE = 200
"""Characters of a message in lists."""
_SEPARATORS = str.maketrans(dict.fromkeys("\n\r\t\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", " "))


def one_line(text: str, limit: int = MESSAGE) -> str:
    """The text on one line, cut."""
    line = " ".join(text.translate(_SEPARATORS).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def finite(value: float) -> float | None:
    """The number, with four significant digits; None for NaN; the largest for infinity."""
    if np.isnan(value):
        return None
    if np.isinf(value):
        return 1e9 if value > 0 else -1e9
    return float(f"{value:.4g}")


def rounded(values: Floats, digits: int = 4) -> Floats:
    """With so many significant digits: files get smaller, charts do not change."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        exponent = np.floor(np.log10(np.abs(values)))
        scale = np.power(10.0, digits - 1 - np.where(np.isfinite(exponent), exponent, 0.0))
        out = np.round(values * scale) / scale
    return np.where(np.isfinite(values), np.where(np.isfinite(out), out, values), values)
