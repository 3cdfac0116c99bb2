"""One step of a GRU, as in a speech decoder: reset and update gates mix old and new state."""

import torch
from torch import nn

BATCH = 7
IN_FEATURES = 26
HIDDEN = 41


class Model(nn.Module):
    def __init__(self, in_features: int, hidden: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(in_features, hidden)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return self.cell(x, state)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, IN_FEATURES), torch.randn(BATCH, HIDDEN)]


def get_init_inputs() -> list[int]:
    return [IN_FEATURES, HIDDEN]
