"""Rows of a table looked up by integer index: a gather with JAX's out-of-range checks."""

import jax
import jax.numpy as jnp
import numpy as np

BATCH = 3
TOKENS = 11
VOCABULARY = 211
DIM = 16


def model(table: jax.Array, indices: jax.Array) -> jax.Array:
    return jnp.take(table, indices, axis=0)


def get_inputs() -> list[np.ndarray]:
    table = np.random.default_rng(0).standard_normal((VOCABULARY, DIM), dtype=np.float32)
    # 7919 is prime: the indices jump about the whole table
    indices = (np.arange(BATCH * TOKENS, dtype=np.int32) * 7919 + 3) % VOCABULARY
    return [table, indices.reshape(BATCH, TOKENS)]
