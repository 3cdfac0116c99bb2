"""RMSNorm of Llama: root mean square over the last dimension, no mean subtracted, no shift."""

import torch
from torch import nn

BATCH = 3
TOKENS = 17
DIM = 83
EPSILON = 1e-5


class Model(nn.Module):
    def __init__(self, dim: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.epsilon) * self.weight


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, TOKENS, DIM)]


def get_init_inputs() -> list[int | float]:
    return [DIM, EPSILON]
