"""Feed-forward block of Llama: a SiLU gate times a linear up-projection, then down."""

import torch
from torch import nn

BATCH = 2
TOKENS = 11
DIM = 32
HIDDEN = 85


class Model(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, TOKENS, DIM)]


def get_init_inputs() -> list[int]:
    return [DIM, HIDDEN]
