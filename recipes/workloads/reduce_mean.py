"""Global average pooling of an image classifier: the mean over both image dimensions, kept."""

import torch
from torch import nn

BATCH = 3
CHANNELS = 31
HEIGHT = 11
WIDTH = 13


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(dim=(2, 3), keepdim=True)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs() -> list[int]:
    return []
