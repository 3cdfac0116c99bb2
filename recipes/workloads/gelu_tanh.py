"""GELU of GPT-2: the approximation by tanh and a cubic, as PyTorch's own operator."""

import torch
from torch import nn

ROWS = 29
COLUMNS = 67


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(x, approximate="tanh")


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs() -> list[int]:
    return []
