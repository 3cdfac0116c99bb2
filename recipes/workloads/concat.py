"""Three feature maps of odd widths joined along the channels, as in DenseNet and U-Net."""

import torch
from torch import nn

BATCH = 2
SIZE = 11
CHANNELS_A = 5
CHANNELS_B = 8
CHANNELS_C = 3


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return torch.cat((a, torch.relu(b), c), dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [
        torch.randn(BATCH, channels, SIZE, SIZE)
        for channels in (CHANNELS_A, CHANNELS_B, CHANNELS_C)
    ]


def get_init_inputs() -> list[int]:
    return []
