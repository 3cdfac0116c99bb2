"""Log-softmax of a dense-prediction head, over the channels: not the last dimension."""

import torch
from torch import nn

BATCH = 2
CLASSES = 23
SIZE = 9


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(x, dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CLASSES, SIZE, SIZE)]


def get_init_inputs() -> list[int]:
    return []
