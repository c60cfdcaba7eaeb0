"""What stands on top of the last block: next-token logits, masked-word logits, classes, or one vector for the whole text."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cutaway.core.config import Config
from cutaway.core.linear import Linear, Table, unset
from cutaway.core.norm import make_norm
from cutaway.core.tap import Tap


class LanguageHead(nn.Module):
    """Logits of the next token: the residual stream against every row of the output matrix."""

    def __init__(self, config: Config, embedding: Table) -> None:
        super().__init__()
        self.unembed = Linear(config.width, config.vocab_size, bias=False)
        if config.tied:
            self.unembed.weight = embedding.weight

    def forward(self, x: Tensor, tap: Tap) -> Tensor:
        return tap("logits", self.unembed(x))  # (B, T, V)


class MaskedHead(nn.Module):
    """Logits of the word at each position: one more layer and norm, then the output matrix and a bias a token."""

    def __init__(self, config: Config, embedding: Table) -> None:
        super().__init__()
        self.dense = Linear(config.width, config.width)
        self.norm = make_norm(config)
        self.unembed = Linear(config.width, config.vocab_size, bias=False)
        self.bias = unset(config.vocab_size)
        if config.tied:
            self.unembed.weight = embedding.weight

    def forward(self, x: Tensor, tap: Tap) -> Tensor:
        x = tap.at("head")("transform", self.norm(F.gelu(self.dense(x))))  # (B, T, D); GELU in its exact form
        return tap("logits", self.unembed(x) + self.bias)  # (B, T, V)


class ClassifierHead(nn.Module):
    """Logits of the classes, read at the first position alone."""

    def __init__(self, config: Config, embedding: Table) -> None:
        super().__init__()
        self.dense = Linear(config.width, config.width)
        self.out = Linear(config.width, config.classes)

    def forward(self, x: Tensor, tap: Tap) -> Tensor:
        x = tap.at("head")("transform", torch.tanh(self.dense(x[:, 0])))  # (B, D)
        return tap("logits", self.out(x))  # (B, C)


class PoolerHead(nn.Module):
    """One vector for the whole text, made from the first position, for who looks: the body's own output is passed on."""

    def __init__(self, config: Config, embedding: Table) -> None:
        super().__init__()
        self.dense = Linear(config.width, config.width)

    def forward(self, x: Tensor, tap: Tap) -> Tensor:
        tap("pooled", self.pooled(x))
        return x

    def pooled(self, x: Tensor) -> Tensor:
        return torch.tanh(self.dense(x[:, 0]))  # (B, D)


HEADS = {"lm": LanguageHead, "mlm": MaskedHead, "classify": ClassifierHead, "pooler": PoolerHead}
