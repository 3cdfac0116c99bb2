"""Per-token loss of a language model: cross entropy of the logits against integer targets."""

import torch
from torch import nn

TOKENS = 53
VOCABULARY = 97


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(logits, targets, reduction="none")


def get_inputs() -> list[torch.Tensor]:
    targets = (torch.arange(TOKENS) * 7919 + 3) % VOCABULARY
    return [torch.randn(TOKENS, VOCABULARY), targets]


def get_init_inputs() -> list[int]:
    return []
