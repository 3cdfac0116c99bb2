"""Multilayer perceptron in JAX, weights as arguments, each product scaled by its fan-in."""

import math

import jax
import jax.numpy as jnp
import numpy as np

BATCH = 13
IN_FEATURES = 65
HIDDEN = 43
OUT_FEATURES = 10


def dense(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    return x @ weight / math.sqrt(weight.shape[0]) + bias


def model(x: jax.Array, w1: jax.Array, b1: jax.Array, w2: jax.Array, b2: jax.Array) -> jax.Array:
    return dense(jnp.maximum(dense(x, w1, b1), 0), w2, b2)


def get_inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = (
        (BATCH, IN_FEATURES),
        (IN_FEATURES, HIDDEN),
        (HIDDEN,),
        (HIDDEN, OUT_FEATURES),
        (OUT_FEATURES,),
    )
    return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
