"""Gradients of one training step in JAX: a squared error by every weight of an MLP."""

import math

import jax
import jax.numpy as jnp
import numpy as np

BATCH = 11
IN_FEATURES = 23
HIDDEN = 31
OUT_FEATURES = 5

Weights = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


def loss(weights: Weights, x: jax.Array, target: jax.Array) -> jax.Array:
    w1, b1, w2, b2 = weights
    hidden = jnp.tanh(x @ w1 / math.sqrt(w1.shape[0]) + b1)
    output = hidden @ w2 / math.sqrt(w2.shape[0]) + b2
    return jnp.sum((output - target) ** 2)


def model(
    x: jax.Array, target: jax.Array, w1: jax.Array, b1: jax.Array, w2: jax.Array, b2: jax.Array
) -> Weights:
    return jax.grad(loss)((w1, b1, w2, b2), x, target)


def get_inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = (
        (BATCH, IN_FEATURES),
        (BATCH, OUT_FEATURES),
        (IN_FEATURES, HIDDEN),
        (HIDDEN,),
        (HIDDEN, OUT_FEATURES),
        (OUT_FEATURES,),
    )
    return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
