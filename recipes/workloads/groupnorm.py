"""Group norm of a diffusion U-Net: statistics over groups of channels and pixels, then SiLU."""

import torch
from torch import nn

BATCH = 2
GROUPS = 3
CHANNELS_PER_GROUP = 5
SIZE = 9


class Model(nn.Module):
    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(self.norm(x))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, GROUPS * CHANNELS_PER_GROUP, SIZE, SIZE)]


def get_init_inputs() -> list[int]:
    return [GROUPS, GROUPS * CHANNELS_PER_GROUP]
