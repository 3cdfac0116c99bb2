"""Bilinear score of pairs, an einsum of three operands: contractions in the order JAX picks."""

import jax
import jax.numpy as jnp
import numpy as np

BATCH = 3
LEFT = 13
RIGHT = 11
DIM_A = 17
DIM_B = 9


def model(a: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.einsum("bid,de,bje->bij", a, w, b)


def get_inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = ((BATCH, LEFT, DIM_A), (DIM_A, DIM_B), (BATCH, RIGHT, DIM_B))
    return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
