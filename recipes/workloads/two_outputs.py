"""Actor-critic of reinforcement learning: one shared trunk, action probabilities and a value."""

import torch
from torch import nn

BATCH = 9
OBSERVATION = 27
HIDDEN = 45
ACTIONS = 7


class Model(nn.Module):
    def __init__(self, observation: int, hidden: int, actions: int) -> None:
        super().__init__()
        self.trunk = nn.Linear(observation, hidden)
        self.policy = nn.Linear(hidden, actions)
        self.value = nn.Linear(hidden, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.tanh(self.trunk(x))
        return torch.softmax(self.policy(x), dim=-1), self.value(x).squeeze(-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, OBSERVATION)]


def get_init_inputs() -> list[int]:
    return [OBSERVATION, HIDDEN, ACTIONS]
