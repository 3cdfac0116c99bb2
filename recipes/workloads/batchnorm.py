"""Batch norm of a convolutional network at inference: recorded statistics, then affine."""

import torch
from torch import nn

BATCH = 3
CHANNELS = 11
HEIGHT = 9
WIDTH = 7


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs() -> list[int]:
    return [CHANNELS]
