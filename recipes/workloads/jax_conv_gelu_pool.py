"""Convolution, GELU by tanh and max pooling in JAX's channels-last layout, on an odd image."""

import math

import jax
import jax.numpy as jnp
import numpy as np

BATCH = 2
SIZE = 13
CHANNELS = 3
FILTERS = 7
KERNEL = 3


def model(image: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    fan_in = math.prod(kernel.shape[:3])
    y = jax.lax.conv_general_dilated(
        image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    y = jax.nn.gelu(y / math.sqrt(fan_in) + bias, approximate=True)
    return jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")


def get_inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = (
        (BATCH, SIZE, SIZE, CHANNELS),
        (KERNEL, KERNEL, CHANNELS, FILTERS),
        (FILTERS,),
    )
    return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
