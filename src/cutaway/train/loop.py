"""The training loop: AdamW, warm-up and cosine, one loss over tokens; stops and resumes to the bit on the same machine."""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from cutaway.core.transformer import Transformer, hold
from cutaway.train import checkpoint
from cutaway.train.data import Batch
from cutaway.train.objectives import IGNORE, Objective
from cutaway.train.recurrent import Recurrent


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long and how fast: `steps` batches, learning rate up over `warmup` steps and down a cosine to a tenth."""

    steps: int
    rate: float = 1.5e-3
    warmup: int = 200
    decay: float = 0.1  # weight decay of matrices
    clip: float = 1.0  # largest norm of the gradient
    save_every: int = 500
    seed: int = 1

    def rate_at(self, step: int) -> float:
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.rate * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done))))


@dataclass(frozen=True)
class Step:
    """What one step did: its number from 1, its loss in nats a token asked for, and tokens read so far."""

    number: int
    loss: float
    tokens: int


Learner = Transformer | Recurrent


def initialise(model: Learner, seed: int) -> None:
    """Normal weights, those that write to the residual stream smaller by √(2 · layers) (Radford et al. 2019, section 2.3).

    The spread is 0.7/√width rather than GPT-2's 0.02: at width 192 that is 0.05, and a small model leaves chance far sooner.
    """
    if isinstance(model, Transformer):
        hold(model, {name: nn.Parameter(torch.empty(p.shape)) for name, p in model.named_parameters()})
    rng = torch.Generator().manual_seed(seed)
    wide = 0.7 / math.sqrt(model.config.width)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            writes = name.endswith(("attn.out.weight", "mlp.down.weight"))
            spread = wide / math.sqrt(2 * model.config.layers) if writes else wide
            nn.init.normal_(parameter, std=spread, generator=rng)
        elif "bias" in name:
            nn.init.zeros_(parameter)
        else:
            nn.init.ones_(parameter)  # a norm's gain


def optimizer_for(model: Learner, schedule: Schedule) -> torch.optim.AdamW:
    """AdamW; matrices decay, biases and norms do not."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": schedule.decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=schedule.rate, betas=(0.9, 0.95))


def loss_of(model: Learner, batch: Batch, objective: Objective, rng: torch.Generator) -> torch.Tensor:
    """Mean cross-entropy in nats over the tokens that are asked for, by their weights."""
    asked = objective(batch, rng)
    logits = model(asked.inputs, lengths=batch.lengths)  # (B, T, V)
    where = asked.labels != IGNORE
    weights = asked.weights[where]
    losses = F.cross_entropy(logits[where], asked.labels[where], reduction="none")
    return (losses * weights).sum() / weights.sum().clamp(min=1)


def train(
    model: Learner,
    source: Callable[[int], Iterator[Batch]],
    objective: Objective,
    schedule: Schedule,
    folder: Path,
    on_step: Callable[[Step], None],
) -> None:
    """Train `model` in place, from where `folder` left off; `source(n)` gives the batches from number n on.

    The state is saved every `save_every` steps and at the end. Raises TrainError when `folder` holds another run.
    """
    optimizer = optimizer_for(model, schedule)
    run = {"schedule": asdict(schedule), "config": model.config.to_dict()}
    done, tokens = checkpoint.resume(folder, model, optimizer, run)
    model.train()
    for number, batch in zip(range(done + 1, schedule.steps + 1), source(done), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate_at(number - 1)
        # each step has its own seed, so that a resumed run hides the same tokens
        loss = loss_of(model, batch, objective, torch.Generator().manual_seed(schedule.seed * 1_000_003 + number))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), schedule.clip)
        optimizer.step()
        tokens += int(batch.lengths.sum())
        if number % schedule.save_every == 0 or number == schedule.steps:
            checkpoint.save(folder, model, optimizer, run, number, tokens)
        on_step(Step(number, loss.item(), tokens))
    model.eval()
