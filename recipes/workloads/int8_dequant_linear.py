"""Linear layer of an int8-quantized LLM: int32 sums, then scales by row and channel to float."""

import torch
from torch import nn

M = 21
N = 37
K = 83


class Model(nn.Module):
    def __init__(self, k: int, n: int) -> None:
        super().__init__()
        weight = (torch.arange(n * k) * 7919 + 3) % 255 - 127
        self.register_buffer("weight", weight.reshape(n, k).to(torch.int8))
        self.register_buffer("scale", 0.5 + torch.arange(n) / n)
        self.bias = nn.Parameter(torch.zeros(n))

    def forward(self, x: torch.Tensor, x_scale: torch.Tensor) -> torch.Tensor:
        total = torch.matmul(x.int(), self.weight.int().t())
        return total.to(x_scale.dtype) * (x_scale / (127 * 127)) * self.scale + self.bias


def get_inputs() -> list[torch.Tensor]:
    x = (torch.arange(M * K) * 6101 + 5) % 255 - 127
    return [x.reshape(M, K).to(torch.int8), torch.randn(M, 1)]


def get_init_inputs() -> list[int]:
    return [K, N]
