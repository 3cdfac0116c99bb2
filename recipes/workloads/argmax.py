"""Greedy decoding: the index of the largest logit of every token, an integer result."""

import torch
from torch import nn

BATCH = 3
TOKENS = 17
VOCABULARY = 257


class Model(nn.Module):
    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return torch.argmax(logits, dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, TOKENS, VOCABULARY)]


def get_init_inputs() -> list[int]:
    return []
