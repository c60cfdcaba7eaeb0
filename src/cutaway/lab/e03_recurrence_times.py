"""How long attention and an LSTM of equal parameters take: for a training step, a prompt, and one more token. Ratios inside one run."""

import time
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn import functional as F

from cutaway.core.cache import Cache
from cutaway.core.transformer import Transformer
from cutaway.lab.e03_recurrence_models import VOCABULARY, Recurrent

Work = Callable[[], object]


def training_step(model: nn.Module, tokens: int) -> Work:
    ids = torch.arange(tokens)[None] % VOCABULARY

    def work() -> None:
        model.zero_grad(set_to_none=True)
        F.cross_entropy(model(ids)[0, :-1], ids[0, 1:]).backward()

    return work


def prompt(model: nn.Module, tokens: int) -> Work:
    ids = torch.arange(tokens)[None] % VOCABULARY

    def work() -> object:
        with torch.no_grad():
            return model(ids)

    return work


def decode(model: nn.Module, tokens: int) -> Work:
    """One token more, after so many: from the cache of what was read, or from h and c."""
    ids, one = torch.arange(tokens)[None] % VOCABULARY, torch.tensor([[1]])
    with torch.no_grad():
        if isinstance(model, Transformer):
            read = Cache(model.config, 1, tokens + 1, dtype=torch.float32, device=torch.device("cpu"))
            model(ids, cache=read)
            return no_grad(lambda: model(one, cache=read.fork(tokens + 1)))
        assert isinstance(model, Recurrent)
        _, state = model.lstm(model.embed(ids))
        return no_grad(lambda: model.out(model.lstm(model.embed(one), state)[0]))


def no_grad(work: Work) -> Work:
    def quietly() -> object:
        with torch.no_grad():
            return work()

    return quietly


WORKS: dict[str, Callable[[nn.Module, int], Work]] = {"training step": training_step, "prompt": prompt, "decode": decode}


def ratios(one: Work, other: Work, repeats: int) -> Iterator[float]:
    """Seconds of the first by seconds of the second, in pairs; which goes first alternates. Both are warm."""
    for work in (one, other):
        work()
    for n in range(repeats):
        spent = {}
        for work in (one, other) if n % 2 else (other, one):
            begun = time.perf_counter()
            work()
            spent[work] = time.perf_counter() - begun
        yield spent[one] / spent[other]
