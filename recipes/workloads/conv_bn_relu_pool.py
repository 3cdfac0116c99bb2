"""ResNet stem in small: convolution, batch norm, ReLU, overlapping max pool, classifier."""

import torch
from torch import nn

BATCH = 2
CHANNELS = 3
FILTERS = 12
SIZE = 23
CLASSES = 10


class Model(nn.Module):
    def __init__(self, channels: int, filters: int, classes: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, kernel_size=5, stride=2, padding=2, bias=False)
        self.norm = nn.BatchNorm2d(filters)
        self.pool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.head = nn.Linear(filters, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.norm(self.conv(x))))
        return self.head(x.mean(dim=(2, 3)))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs() -> list[int]:
    return [CHANNELS, FILTERS, CLASSES]
