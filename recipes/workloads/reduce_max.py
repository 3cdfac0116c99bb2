"""Max over time of a text CNN: the largest activation of every filter, on a middle dimension."""

import torch
from torch import nn

BATCH = 5
TOKENS = 37
FILTERS = 23


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.amax(dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, TOKENS, FILTERS)]


def get_init_inputs() -> list[int]:
    return []
