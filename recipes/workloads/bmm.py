"""Batched matrix product, as between attention heads; an odd batch and odd sizes."""

import torch
from torch import nn

BATCH = 5
M = 31
N = 23
K = 47


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, M, K), torch.randn(BATCH, K, N)]


def get_init_inputs() -> list[int]:
    return []
