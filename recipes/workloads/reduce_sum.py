"""Sum over an outer and an inner dimension at once, as in a bias gradient."""

import torch
from torch import nn

BATCH = 13
CHANNELS = 29
SIZE = 17


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(dim=(0, 2))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, SIZE)]


def get_init_inputs() -> list[int]:
    return []
