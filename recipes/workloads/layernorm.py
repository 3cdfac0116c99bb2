"""Layer norm of a transformer: mean and variance over the last dimension, scale and shift."""

import torch
from torch import nn

BATCH = 3
TOKENS = 17
DIM = 77


class Model(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, TOKENS, DIM)]


def get_init_inputs() -> list[int]:
    return [DIM]
