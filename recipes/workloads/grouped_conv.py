"""Grouped convolution of ResNeXt: cardinality 4, odd image, padding and dilation, ReLU."""

import torch
from torch import nn

BATCH = 2
GROUPS = 4
CHANNELS_PER_GROUP = 3
FILTERS_PER_GROUP = 5
HEIGHT = 13
WIDTH = 11


class Model(nn.Module):
    def __init__(self, channels: int, filters: int, groups: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(
            channels, filters, kernel_size=3, padding=2, dilation=2, groups=groups
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, GROUPS * CHANNELS_PER_GROUP, HEIGHT, WIDTH)]


def get_init_inputs() -> list[int]:
    return [GROUPS * CHANNELS_PER_GROUP, GROUPS * FILTERS_PER_GROUP, GROUPS]
