"""BERT encoder layer in small: multi-head self-attention and a GELU MLP, added and normed."""

import math

import torch
from torch import nn

BATCH = 2
TOKENS = 13
HEADS = 4
HEAD_DIM = 8
FEED_FORWARD = 75


class Model(nn.Module):
    def __init__(self, heads: int, head_dim: int, feed_forward: int) -> None:
        super().__init__()
        dim = heads * head_dim
        self.heads = heads
        self.head_dim = head_dim
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.norm1 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, feed_forward)
        self.down = nn.Linear(feed_forward, dim)
        self.norm2 = nn.LayerNorm(dim)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, dim = x.shape
        q, k, v = (
            part.reshape(batch, tokens, self.heads, self.head_dim).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        mixed = torch.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.down(nn.functional.gelu(self.up(x))))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, TOKENS, HEADS * HEAD_DIM)]


def get_init_inputs() -> list[int]:
    return [HEADS, HEAD_DIM, FEED_FORWARD]
