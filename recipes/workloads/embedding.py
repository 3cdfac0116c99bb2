"""Input of a BERT or GPT-2: token embeddings looked up by index, plus learned positions."""

import torch
from torch import nn

BATCH = 3
TOKENS = 19
VOCABULARY = 501
DIM = 24


class Model(nn.Module):
    def __init__(self, vocabulary: int, tokens: int, dim: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, dim)
        self.position = nn.Parameter(torch.randn(tokens, dim))

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return self.token(indices) + self.position


def get_inputs() -> list[torch.Tensor]:
    # 7919 is prime: the indices jump about the whole table and repeat late
    indices = (torch.arange(BATCH * TOKENS) * 7919 + 3) % VOCABULARY
    return [indices.reshape(BATCH, TOKENS)]


def get_init_inputs() -> list[int]:
    return [VOCABULARY, TOKENS, DIM]
