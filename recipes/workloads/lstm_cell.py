"""One step of an LSTM language model: four gates from two matrix products, two results."""

import torch
from torch import nn

BATCH = 5
IN_FEATURES = 37
HIDDEN = 43


class Model(nn.Module):
    def __init__(self, in_features: int, hidden: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(in_features, hidden)

    def forward(
        self, x: torch.Tensor, state: torch.Tensor, memory: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.cell(x, (state, memory))


def get_inputs() -> list[torch.Tensor]:
    return [
        torch.randn(BATCH, IN_FEATURES),
        torch.randn(BATCH, HIDDEN),
        torch.randn(BATCH, HIDDEN),
    ]


def get_init_inputs() -> list[int]:
    return [IN_FEATURES, HIDDEN]
