"""Projection head served with a batch known only when it is called: `?` from input to output."""

import torch
from torch import nn

BATCH = 13
IN_FEATURES = 30
HIDDEN = 51
OUT_FEATURES = 11

# (index of the input, its dimension): exported as dynamic
DYNAMIC_DIMS = ((0, 0),)


class Model(nn.Module):
    def __init__(self, in_features: int, hidden: int, out_features: int) -> None:
        super().__init__()
        self.up = nn.Linear(in_features, hidden, bias=False)
        self.down = nn.Linear(hidden, out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.down(torch.tanh(self.up(x))))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, IN_FEATURES)]


def get_init_inputs() -> list[int]:
    return [IN_FEATURES, HIDDEN, OUT_FEATURES]
