"""Matrix product in tiles, accumulated in f32; odd sizes so that every tile has a tail."""

import numpy as np
import torch
import triton
import triton.language as tl

M = 67
N = 43
K = 129
TILE_M = 64
TILE_N = 64
TILE_K = 32


@triton.jit
def matmul(
    a, b, c, m, n, k, a_row, a_column, b_row, b_column, c_row, c_column,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    columns = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for first in range(0, k, TILE_K):
        inner = first + tl.arange(0, TILE_K)
        left = tl.load(
            a + rows[:, None] * a_row + inner[None, :] * a_column,
            mask=(rows[:, None] < m) & (inner[None, :] < k),
            other=0.0,
        )
        right = tl.load(
            b + inner[:, None] * b_row + columns[None, :] * b_column,
            mask=(inner[:, None] < k) & (columns[None, :] < n),
            other=0.0,
        )
        # "ieee": f32 is not rounded to tf32 on the way into the tensor cores
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(
        c + rows[:, None] * c_row + columns[None, :] * c_column,
        total.to(c.dtype.element_ty),
        mask=(rows[:, None] < m) & (columns[None, :] < n),
    )


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(M, K), torch.randn(K, N)]


def launch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    c = torch.empty((M, N), dtype=a.dtype)
    matmul[(triton.cdiv(M, TILE_M), triton.cdiv(N, TILE_N))](
        a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), TILE_M, TILE_N, TILE_K, num_warps=4
    )
    return c


def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a @ b
