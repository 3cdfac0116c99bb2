"""Slices with offsets and strides, as in subsampled attention: rows and columns skipped."""

import torch
from torch import nn

BATCH = 3
HEIGHT = 27
WIDTH = 35


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, 1:-1:2, 2::3]


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, HEIGHT, WIDTH)]


def get_init_inputs() -> list[int]:
    return []
