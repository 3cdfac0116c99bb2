"""One step of an LSTM in JAX: one fused product for four gates, split, then two results."""

import math

import jax
import jax.numpy as jnp
import numpy as np

BATCH = 5
IN_FEATURES = 19
HIDDEN = 27


def model(
    x: jax.Array, state: jax.Array, memory: jax.Array, weight: jax.Array, bias: jax.Array
) -> tuple[jax.Array, jax.Array]:
    joined = jnp.concatenate((x, state), axis=1)
    gates = joined @ weight / math.sqrt(weight.shape[0]) + bias
    keep, write, read, value = jnp.split(gates, 4, axis=1)
    memory = jax.nn.sigmoid(keep) * memory + jax.nn.sigmoid(write) * jnp.tanh(value)
    return jax.nn.sigmoid(read) * jnp.tanh(memory), memory


def get_inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = (
        (BATCH, IN_FEATURES),
        (BATCH, HIDDEN),
        (BATCH, HIDDEN),
        (IN_FEATURES + HIDDEN, 4 * HIDDEN),
        (4 * HIDDEN,),
    )
    return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
