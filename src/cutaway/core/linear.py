"""The weights of a linear layer and of a table, as they come: room is made for them, and nothing is written into it.

Their values come from a file, or from training's `initialise`. So a large model is not filled with random numbers first.
"""

from torch import nn


class Linear(nn.Linear):
    """x @ weight.T + bias, with weight (out, in)."""

    def reset_parameters(self) -> None:
        pass


class Table(nn.Embedding):
    """Row n of weight (rows, width) for each number n."""

    def reset_parameters(self) -> None:
        pass
