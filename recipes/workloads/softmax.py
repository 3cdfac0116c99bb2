"""Softmax over attention scores: exponentials and their sum along the last, odd dimension."""

import torch
from torch import nn

BATCH = 3
ROWS = 13
COLUMNS = 37


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, ROWS, COLUMNS)]


def get_init_inputs() -> list[int]:
    return []
