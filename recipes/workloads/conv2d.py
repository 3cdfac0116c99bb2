"""A convolution with bias: odd sizes, stride, padding, dilation."""

import torch
from torch import nn

BATCH = 2
CHANNELS_IN = 5
CHANNELS_OUT = 7
SIZE = 13


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(CHANNELS_IN, CHANNELS_OUT, 3, stride=2, padding=2, dilation=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS_IN, SIZE, SIZE)]


def get_init_inputs() -> list[int]:
    return []
