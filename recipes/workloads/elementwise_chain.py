"""A chain of elementwise operations with mathematical functions, which fuse into one kernel."""

import torch
from torch import nn

ROWS = 37
COLUMNS = 113


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = torch.tanh(x) * torch.exp(-y.abs()) + torch.sigmoid(x * y)
        return torch.sqrt(z * z + 1.0) - torch.cos(x) * torch.log(y * y + 1.5)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs() -> list[int]:
    return []
