"""Matrix product, the inner loop of every network; odd sizes so that every tile has a tail."""

import torch
from torch import nn

M = 67
N = 43
K = 129


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs() -> list[int]:
    return []
