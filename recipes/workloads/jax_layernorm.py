"""Layer norm as Flax writes it: variance from the mean of squares, then scale and shift."""

import jax
import jax.numpy as jnp
import numpy as np

BATCH = 2
TOKENS = 13
DIM = 45
EPSILON = 1e-5


def model(x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(x * x, axis=-1, keepdims=True) - mean * mean
    return (x - mean) * jax.lax.rsqrt(variance + EPSILON) * scale + shift


def get_inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = ((BATCH, TOKENS, DIM), (DIM,), (DIM,))
    return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
