"""Associative recall, and the models that learn it: attention, an LSTM, and an LSTM with attention over its own past.

A text names some keys with their values, goes on with fillers, then asks for each key's value in another order. Either a key and its
value are two tokens, or one token says both. How many fillers stand between is the distance.
"""

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cutaway.core import attention, transformer
from cutaway.core.config import Config
from cutaway.core.transformer import Transformer
from cutaway.lab.experiment import Run
from cutaway.train.loop import initialise
from cutaway.weights.safetensors import save_safetensors
from cutaway.writing import write_text

KEYS, VALUES, FILLERS = 8, 8, 8
VOCABULARY = KEYS + VALUES + FILLERS + KEYS * VALUES  # keys, then values, then fillers, then tokens that say a key and its value
PAIRS = 2
BATCH = 32
CONTEXT, LONGEST = 1100, 128  # rows of the position table: enough for what is timed; and those that a text of training may reach
LOOKS, CURVE = 8, "curve.json"


@dataclass(frozen=True)
class Task:
    """shared: a key and its value are one token. distances: between what is told and what is asked, taken in turn."""

    shared: bool
    distances: tuple[int, ...]

    @property
    def longest(self) -> int:
        """Tokens of the longest text."""
        return (2 if self.shared else 4) * PAIRS + max(self.distances)

    def draw(self, rng: torch.Generator, count: int, distance: int) -> tuple[Tensor, Tensor, Tensor]:
        """ids (B, T); the places (PAIRS) after which a value is asked; the values' ids (B, PAIRS)."""
        keys = torch.stack([torch.randperm(KEYS, generator=rng)[:PAIRS] for _ in range(count)])
        values = torch.randint(VALUES, (count, PAIRS), generator=rng)
        order = torch.stack([torch.randperm(PAIRS, generator=rng) for _ in range(count)])
        fillers = torch.randint(FILLERS, (count, distance), generator=rng) + KEYS + VALUES
        asked, answers = keys.gather(1, order), values.gather(1, order) + KEYS
        if self.shared:
            told = keys * VALUES + values + KEYS + VALUES + FILLERS
            return torch.cat([told, fillers, asked], dim=1), torch.arange(PAIRS) + PAIRS + distance, answers
        told = torch.stack([keys, values + KEYS], dim=2).flatten(1)
        questions = torch.stack([asked, answers], dim=2).flatten(1)
        return torch.cat([told, fillers, questions], dim=1), torch.arange(PAIRS) * 2 + 2 * PAIRS + distance, answers


class Recurrent(nn.Module):
    """An LSTM. attends: each state also reads the states before it, by dot product (Luong et al. 2015, section 3.1)."""

    def __init__(self, hidden: int, layers: int, *, attends: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, hidden)
        self.lstm = nn.LSTM(hidden, hidden, layers, batch_first=True)
        self.attends = attends
        self.out = nn.Linear(2 * hidden if attends else hidden, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (B, T, V) of ids (B, T)."""
        states, _ = self.lstm(self.embed(ids))  # (B, T, H)
        if self.attends:
            scores = states @ states.mT / math.sqrt(states.shape[-1])
            before = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(-1)
            weights = scores.masked_fill(~before, torch.finfo(scores.dtype).min).softmax(dim=-1) * before  # the first has none
            states = torch.cat([states, weights @ states], dim=-1)
        logits: Tensor = self.out(states)
        return logits


def attention_model(width: int, layers: int, heads: int) -> Transformer:
    return Transformer(
        Config(
            vocab_size=VOCABULARY, context=CONTEXT, width=width, layers=layers, heads=heads, mlp_width=4 * width,
            causal=True, norm_first=True, final_norm=True, embed_norm=False, activation="gelu_tanh",
        )
    )  # fmt: skip


def parameters(model: nn.Module) -> int:
    """Position rows that no text reaches are not counted."""
    spare = (CONTEXT - LONGEST) * model.config.width if isinstance(model, Transformer) else 0
    return sum(p.numel() for p in model.parameters()) - spare


def as_large(count: int, layers: int, *, attends: bool = False) -> int:
    """The hidden width at which an LSTM is nearest to so many parameters."""
    return min(range(4, 600), key=lambda hidden: abs(parameters_of(hidden, layers, attends) - count))


def parameters_of(hidden: int, layers: int, attends: bool) -> int:
    """
    >>> parameters_of(12, 2, True) == parameters(Recurrent(12, 2, attends=True))
    True
    """
    cells = layers * (8 * hidden * hidden + 8 * hidden)
    return VOCABULARY * hidden + cells + ((2 if attends else 1) * hidden + 1) * VOCABULARY


def state_bytes(model: nn.Module, tokens: int) -> int:
    """What has to be kept between two tokens, in float32: keys and values of all that was read, or the LSTM's h and c (and past states)."""
    if isinstance(model, Transformer):
        return 4 * 2 * model.config.layers * model.config.width * tokens
    assert isinstance(model, Recurrent)
    past = model.lstm.hidden_size * tokens if model.attends else 0
    return 4 * (2 * model.lstm.num_layers * model.lstm.hidden_size + past)


def start(model: nn.Module, seed: int) -> None:
    """Weights as this project's training draws them; torch's own for the LSTM."""
    if isinstance(model, Transformer):
        initialise(model, seed)
        return
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for part in model.modules():
            if isinstance(part, nn.LSTM | nn.Linear | nn.Embedding):
                part.reset_parameters()


def train(model: nn.Module, task: Task, rate: float, steps: int, seed: int) -> list[list[float]]:
    """AdamW, warm-up and cosine; cross-entropy of the answers alone. The shares recalled by distance, LOOKS times on the way."""
    start(model, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    warm = max(1, steps // 20)
    shape = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: min(1.0, (n + 1) / warm) * (0.55 + 0.45 * math.cos(math.pi * n / steps))
    )
    rng = torch.Generator().manual_seed(seed)
    looks = [steps * (n + 1) // LOOKS for n in range(LOOKS)]
    curve = []
    for step in range(steps):
        ids, places, answers = task.draw(rng, BATCH, task.distances[step % len(task.distances)])
        loss = F.cross_entropy(model(ids)[:, places].flatten(0, 1), answers.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        shape.step()
        if step + 1 in looks:
            curve.append([recalled(model, task, distance) for distance in task.distances])
    return curve


def learned(run: Run, make: Callable[[], nn.Module], said: str, task: Task, rate: float, steps: int, seed: int) -> list[list[float]]:
    """What `train` saw, now or in an earlier run with the same code and settings. The weights are kept beside it."""

    def fill(folder: Path) -> None:
        model = make()
        curve = train(model, task, rate, steps, seed)
        save_safetensors(folder / "model.safetensors", {name: p.detach() for name, p in model.named_parameters()})
        write_text(folder / CURVE, json.dumps(curve))

    parts: Sequence[Any] = (Recurrent, Task, train, start, attention_model, attention, transformer)
    code = "".join(inspect.getsource(part) for part in parts)
    key = hashlib.sha256(f"{said} {task} {rate} {steps} {seed} {code}".encode()).hexdigest()[:24]
    curve: list[list[float]] = json.loads((run.train_once(key, fill) / CURVE).read_text(encoding="utf-8"))
    return curve


@torch.no_grad()
def recalled(model: nn.Module, task: Task, distance: int, count: int = 200) -> float:
    """The share of values recalled, of texts that no training drew."""
    ids, places, answers = task.draw(torch.Generator().manual_seed(10_000_019 + distance), count, distance)
    return float((model(ids)[:, places].argmax(dim=-1) == answers).float().mean())
