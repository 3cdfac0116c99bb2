"""Broadcasts in every direction between operands of prime sizes, as in position biases."""

import torch
from torch import nn

A = 5
B = 13
C = 17


class Model(nn.Module):
    def forward(
        self, x: torch.Tensor, row: torch.Tensor, column: torch.Tensor, plane: torch.Tensor
    ) -> torch.Tensor:
        return (x + row) * column - plane


def get_inputs() -> list[torch.Tensor]:
    return [
        torch.randn(A, 1, C),
        torch.randn(B, 1),
        torch.randn(C),
        torch.randn(A, B, 1),
    ]


def get_init_inputs() -> list[int]:
    return []
