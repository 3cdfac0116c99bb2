"""Sum of two vectors: a program for each block, the last of which reaches past the end."""

import numpy as np
import torch
import triton
import triton.language as tl

SIZE = 10_007
BLOCK = 1024


@triton.jit
def add(x, y, out, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < size
    total = tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside)
    tl.store(out + offsets, total, mask=inside)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(SIZE), torch.randn(SIZE)]


def launch(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    add[(triton.cdiv(SIZE, BLOCK),)](x, y, out, SIZE, BLOCK=BLOCK)
    return out


def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x + y
