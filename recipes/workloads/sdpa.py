"""Scaled-dot-product attention of PyTorch, causal as in a GPT decoder; odd sequence length."""

import torch
from torch import nn

BATCH = 2
HEADS = 3
TOKENS = 29
HEAD_DIM = 16


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, HEADS, TOKENS, HEAD_DIM) for _ in range(3)]


def get_init_inputs() -> list[int]:
    return []
