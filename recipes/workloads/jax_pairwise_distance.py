"""All pairwise distances by nested `vmap` of a function of two vectors, as in k-NN."""

import jax
import jax.numpy as jnp
import numpy as np

LEFT = 19
RIGHT = 23
DIM = 13


def distance(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum((a - b) ** 2))


def model(a: jax.Array, b: jax.Array) -> jax.Array:
    return jax.vmap(lambda row: jax.vmap(lambda other: distance(row, other))(b))(a)


def get_inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((rows, DIM), dtype=np.float32) for rows in (LEFT, RIGHT)]
