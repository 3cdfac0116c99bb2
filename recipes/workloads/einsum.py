"""Multi-head projection as an einsum (T5, Flax): a contraction that also moves dimensions."""

import torch
from torch import nn

BATCH = 2
TOKENS = 13
DIM = 27
HEADS = 3
HEAD_DIM = 10


class Model(nn.Module):
    def __init__(self, dim: int, heads: int, head_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, heads, head_dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("btd,dhk->bhtk", x, self.weight)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, TOKENS, DIM)]


def get_init_inputs() -> list[int]:
    return [DIM, HEADS, HEAD_DIM]
