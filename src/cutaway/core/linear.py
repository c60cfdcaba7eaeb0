"""Linear layers and tables, and any parameter, made without values or room for them: both come from a file, or from training.

So a large model is neither filled with random numbers first nor held twice. `transformer.hold` gives them their values.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def unset(*shape: int) -> nn.Parameter:
    """A parameter with a shape alone."""
    return nn.Parameter(torch.empty(shape, device="meta"))


class Linear(nn.Module):
    """x @ weight.T + bias, where `bias`: weight is (out, in) and bias (out).
    x @ weight.T, where `not bias`: weight is (out, in).
    """

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = unset(outputs, inputs)
        self.bias = unset(outputs) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class Table(nn.Module):
    """Row n of weight (rows, width) for each number n."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.weight = unset(rows, width)

    def forward(self, numbers: Tensor) -> Tensor:
        return F.embedding(numbers, self.weight)
