"""Unbiased variance over two dimensions: the statistic that normalization layers are made of."""

import torch
from torch import nn

BATCH = 7
CHANNELS = 19
SIZE = 29


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.var(x, dim=(0, 2), correction=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, SIZE)]


def get_init_inputs() -> list[int]:
    return []
