"""Depthwise separable convolution of MobileNet: per-channel 3x3 at stride 2, ReLU6, 1x1."""

import torch
from torch import nn

BATCH = 2
CHANNELS = 19
FILTERS = 24
SIZE = 17


class Model(nn.Module):
    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(
            channels, channels, kernel_size=3, stride=2, padding=1, groups=channels, bias=False
        )
        self.pointwise = nn.Conv2d(channels, filters, kernel_size=1)
        self.act = nn.ReLU6()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pointwise(self.act(self.depthwise(x)))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs() -> list[int]:
    return [CHANNELS, FILTERS]
