"""Squeeze-and-excitation of EfficientNet: channels scaled by a gate made from their means."""

import torch
from torch import nn

BATCH = 2
CHANNELS = 18
SQUEEZED = 5
SIZE = 7


class Model(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.reduce = nn.Conv2d(channels, squeezed, kernel_size=1)
        self.expand = nn.Conv2d(squeezed, channels, kernel_size=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.expand(nn.functional.silu(self.reduce(self.pool(x))))
        return x * torch.sigmoid(gate)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs() -> list[int]:
    return [CHANNELS, SQUEEZED]
