"""Rotary position embedding of Llama: pairs of features rotated by angles that grow by token."""

import torch
from torch import nn

BATCH = 2
HEADS = 3
TOKENS = 21
HALF_DIM = 9


class Model(nn.Module):
    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        cos, sin = torch.cos(angles), torch.sin(angles)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [
        torch.randn(BATCH, HEADS, TOKENS, 2 * HALF_DIM),
        torch.randn(TOKENS, HALF_DIM),
    ]


def get_init_inputs() -> list[int]:
    return []
