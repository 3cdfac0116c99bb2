"""Noise as nightly timings have it, made by formula: what `dashboards.stats` is tested on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Shape: TypeAlias = tuple[int, int]
Noise: TypeAlias = Callable[[np.random.Generator, Shape], Floats]


def normal(sigma: float) -> Noise:
    """Each night by itself."""
    return lambda random, shape: np.exp(random.normal(0, sigma, shape))


def delays(typical: float) -> Noise:
    """A time that is never undercut, and log-normal delays."""
    return lambda random, shape: 1 + typical * np.exp(random.normal(0, 1, shape))


def student(scale: float) -> Noise:
    """Student's t with 3 degrees of freedom: heavy tails."""
    return lambda random, shape: np.exp(scale * random.standard_t(3, shape))


def two_modes(share: float, apart: float = 0.1, sigma: float = 0.01) -> Noise:
    """On that share of nights slower by a fixed ratio: a page cache, a turbo clock."""

    def noise(random: np.random.Generator, shape: Shape) -> Floats:
        slow = random.random(shape) < share
        return np.exp(random.normal(0, sigma, shape) + apart * slow)

    return noise


def autoregressive(phi: float, sigma: float = 0.02) -> Noise:
    """What was slow last night is likely to be slow tonight: AR(1)."""

    def noise(random: np.random.Generator, shape: Shape) -> Floats:
        state = random.normal(0, 1, shape)
        for night in range(1, shape[1]):
            state[:, night] *= np.sqrt(1 - phi**2)
            state[:, night] += phi * state[:, night - 1]
        return np.exp(sigma * state)

    return noise


def coarse(sigma: float = 0.02, tick: float = 0.03) -> Noise:
    """A clock that counts in steps larger than the noise."""
    return lambda random, shape: np.round(np.exp(random.normal(0, sigma, shape)) / tick) * tick


def spikes(share: float = 0.05, sigma: float = 0.02) -> Noise:
    """Single nights that take twice as long, or more."""

    def noise(random: np.random.Generator, shape: Shape) -> Floats:
        hit = random.random(shape) < share
        return np.exp(random.normal(0, sigma, shape)) * (1 + hit * random.exponential(1, shape))

    return noise


KINDS: dict[str, Noise] = {
    "normal, 1 %": normal(0.01),
    "normal, 2 %": normal(0.02),
    "normal, 5 %": normal(0.05),
    "log-normal delays": delays(0.02),
    "Student t, 3 degrees, 2 %": student(0.02),
    "bimodal, 10 % of nights": two_modes(0.1),
    "bimodal, 20 % of nights": two_modes(0.2),
    "bimodal, 50 % of nights": two_modes(0.5),
    "AR(1), φ = 0.3": autoregressive(0.3),
    "AR(1), φ = 0.5": autoregressive(0.5),
    "coarse clock": coarse(),
    "5 % spikes": spikes(),
}
"""False alarms on these are bounded, and the bound is tested."""

BEYOND: dict[str, Noise] = {
    "AR(1), φ = 0.7": autoregressive(0.7),
    "AR(1), φ = 0.8": autoregressive(0.8),
}
"""Beyond what the bound is meant for: measured to know how it fails."""
