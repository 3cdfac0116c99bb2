"""Quantized linear layer in integers alone (TFLite): int8, int32 sums, fixed-point rescaling."""

import torch
from torch import nn

M = 33
N = 29
K = 65


class Model(nn.Module):
    def __init__(self, k: int, n: int) -> None:
        super().__init__()
        channel = torch.arange(n)
        weight = (torch.arange(k * n) * 7919 + 3) % 255 - 127
        self.register_buffer("weight", weight.reshape(k, n).to(torch.int8))
        self.register_buffer("bias", ((channel * 104729 + 11) % 4001 - 2000).int())
        # a scale of its own for every channel: multiplier / 2**shift, about 1/400
        shift = 18 + channel % 3
        self.register_buffer("multiplier", (600 + channel * 7) << (channel % 3))
        self.register_buffer("rounding", 1 << (shift - 1))
        self.register_buffer("shift", shift)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.matmul(x.int(), self.weight.int()) + self.bias
        # products need more than 32 bits; half a step is added so that the shift rounds to nearest
        scaled = torch.bitwise_right_shift(
            total.long() * self.multiplier + self.rounding, self.shift
        )
        return torch.clamp(scaled, -128, 127).to(torch.int8)


def get_inputs() -> list[torch.Tensor]:
    x = (torch.arange(M * K) * 6101 + 5) % 255 - 127
    return [x.reshape(M, K).to(torch.int8)]


def get_init_inputs() -> list[int]:
    return [K, N]
