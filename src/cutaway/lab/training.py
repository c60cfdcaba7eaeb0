"""Small models that experiments train on the micro-world: their text, their training, kept by what shaped it, and their loss.

Not here: what an experiment changes in them, and the nano models that are shipped (`cutaway.train.nano`).
"""

import hashlib
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cutaway.core import attention, transformer
from cutaway.core.config import Config
from cutaway.core.transformer import Transformer, hold
from cutaway.lab.experiment import Run
from cutaway.shipped import shipped_folder
from cutaway.text.tokenizer import Tokenizer, load_tokenizer
from cutaway.train import checkpoint, data, loop
from cutaway.train.objectives import IGNORE, Causal
from cutaway.worlds import passages

HELD_OUT = 900_000_007  # a seed of passages that no training pool has
TOKENS = 512  # of a batch


@cache
def tokenizer_here() -> Tokenizer:
    return load_tokenizer(shipped_folder("nano-gpt2"))


def config_of(width: int, heads: int, layers: int, *, causal: bool = True) -> Config:
    """GPT-2's kind of block over nano-gpt2's vocabulary."""
    return Config(
        vocab_size=tokenizer_here().vocab_size, context=128, width=width, layers=layers, heads=heads, mlp_width=4 * width,
        causal=causal, norm_first=True, final_norm=True, embed_norm=False, activation="gelu_tanh",
    )  # fmt: skip


def trained(
    run: Run,
    model: Transformer,
    *,
    rate: float,
    steps: int,
    seed: int,
    said: str = "",
    begin: Callable[[], None] = lambda: None,
    parts: Sequence[type | ModuleType] = (),
) -> Transformer:
    """The model, trained now or in an earlier run with the same configuration, rate, steps, seed and code.

    said, parts: what else shaped it, in words and as code. begin: changes the weights before the first step.
    """

    def train(folder: Path) -> None:
        loop.initialise(model, seed)
        begin()
        schedule = loop.Schedule(steps=steps, rate=rate, warmup=steps // 10, save_every=steps, seed=seed)
        loop.train(model, partial(batches, seed), Causal(), schedule, folder, lambda step: None)

    code = "".join(inspect.getsource(part) for part in (*parts, loop, data, transformer, attention))
    key = hashlib.sha256(f"{model.config} {said} {rate} {seed} {steps} {code}".encode()).hexdigest()[:24]
    hold(model, checkpoint.weights(run.train_once(key, train)))
    return model.eval()


def batches(seed: int, start: int) -> Iterator[data.Batch]:
    pools = partial(passages_of, seed)
    return data.batches(pools, partial(data.encode, tokenizer=tokenizer_here()), tokens=TOKENS, pad=0, start=start)


def passages_of(seed: int, pool: int) -> Iterator[Any]:
    return passages(seed * 1_000_003 + pool, ease=1.0 if pool < 1 else 0.5)


@cache
def held_out() -> list[data.Batch]:
    encoded = [data.encode(passage, tokenizer_here()) for passage in itertools.islice(passages(HELD_OUT), 600)]
    rows = sorted(encoded, key=lambda row: len(row[0]))
    return [data.collate(rows[n : n + 50], 0) for n in range(0, len(rows), 50)]


@torch.no_grad()
def losses(model: Transformer) -> dict[str, float]:
    """On held-out passages: nats a token, and nats an answer."""
    every, answers = [], []
    for batch in held_out():
        asked = Causal()(batch, torch.Generator())
        each = cross_entropies(model(asked.inputs, lengths=batch.lengths), asked.labels)
        every.append(each[asked.labels.flatten() != IGNORE])
        answers.append(each[batch.answers[:, 1:].flatten()])
    return {"loss": torch.cat(every).mean().item(), "answers": torch.cat(answers).mean().item()}


def cross_entropies(logits: Tensor, labels: Tensor) -> Tensor:
    """(B · T) in nats of logits (B, T, V) and labels (B, T); 0 where nothing is asked."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="none")


def best_rate(swept: Sequence[dict[str, Any]], **of: Any) -> float:
    """The rate with the least loss among the results that are `of` one kind."""
    alike = [result for result in swept if all(result[name] == value for name, value in of.items())]
    return float(min(alike, key=lambda result: float(result["loss"]))["rate"])


def apart(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Differences in pairs of one seed."""
    return [x - y for x, y in zip(one, other, strict=True)]
