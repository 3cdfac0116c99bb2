"""Matrix times vector: one decoding step of a language model, bound by memory."""

import torch
from torch import nn

M = 157
K = 131


class Model(nn.Module):
    def forward(self, a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.mv(a, x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(M, K), torch.randn(K)]


def get_init_inputs() -> list[int]:
    return []
