"""Softmax of JAX along the last, odd dimension: maximum, exponentials, sum, division."""

import jax
import numpy as np

BATCH = 3
ROWS = 13
COLUMNS = 37


def model(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x, axis=-1)


def get_inputs() -> list[np.ndarray]:
    return [np.random.default_rng(0).standard_normal((BATCH, ROWS, COLUMNS), dtype=np.float32)]
