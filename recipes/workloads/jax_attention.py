"""Causal attention as JAX models write it: two einsums around a masked softmax."""

import math

import jax
import jax.numpy as jnp
import numpy as np

BATCH = 2
TOKENS = 17
HEADS = 3
HEAD_DIM = 8


def model(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
    tokens = jnp.arange(q.shape[1])
    scores = jnp.where(tokens[:, None] >= tokens[None, :], scores, -jnp.inf)
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, axis=-1), v)


def get_inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal((BATCH, TOKENS, HEADS, HEAD_DIM), dtype=np.float32) for _ in range(3)
    ]
