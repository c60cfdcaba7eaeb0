"""A model's card: what it is, how it was made, what it can do and cannot. Every number in it comes from the run it describes."""

import itertools
import json
import os
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cutaway.text.tokenizer import Tokenizer
from cutaway.train.baselines import score_baselines
from cutaway.train.loop import Learner, Step
from cutaway.train.score import score
from cutaway.worlds import TIERS, passages, twin_set
from cutaway.writing import write_text

if TYPE_CHECKING:
    from cutaway.train.nano import Recipe

LIMITS = (
    "knows the micro-world of `cutaway.worlds` and nothing else: a few hundred English words",
    "any thing may hold, carry or hide any other there, whatever its size in ours",
    "positions beyond the longest passage trained on were never trained",
    "a model of this size says nothing about the published models; it shows how such an architecture can work",
)

SALIENCE = {
    "lm": "the noun that gives the answer weighs {} times as much in the loss as any other token",
    "mlm": "the noun that gives the answer is hidden with probability {}, any other token with 0.15",
}


@dataclass
class Log:
    """The loss curve, each point a mean over `every` steps, and the longest passage seen."""

    every: int = 100
    tokens: int = 0
    first: int = 0  # the step that this process began with
    curve: list[tuple[int, float]] = field(default_factory=list)  # tokens read; nats a token asked for
    recent: list[float] = field(default_factory=list)

    def seeing(self, on_step: Callable[[Step], None]) -> Callable[[Step], None]:
        def see(step: Step) -> None:
            self.first = self.first or step.number
            self.tokens = step.tokens
            self.recent.append(step.loss)
            if step.number % self.every == 0:
                self.curve.append((step.tokens, round(sum(self.recent) / len(self.recent), 4)))
                self.recent.clear()
            on_step(step)

        return see


def write(folder: Path, name: str, recipe: "Recipe", model: Learner, tokenizer: Tokenizer, log: Log, minutes: float) -> None:
    """Score the model and write `card.json`, and `README.md` from it."""
    card = {
        "name": name,
        "nano": True,
        "command": f"cutaway train {name}",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "config": model.config.to_dict(),
        "schedule": asdict(recipe.schedule),
        "batch_tokens": recipe.batch_tokens,
        "salient": recipe.salient,
        "salience": SALIENCE[model.config.head].format(recipe.salient),
        "tokens": log.tokens,
        "minutes": round(minutes, 1),
        "resumed_at": log.first if log.first > 1 else None,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "loss": log.curve,
        "longest": longest(tokenizer),
        "scores": {tier: score(model, tokenizer, twin_set(tier)).to_dict() for tier in TIERS},
        "baselines": score_baselines(twin_set("pairs")),
        "limits": LIMITS,
        "words": words(),
    }
    write_text(folder / "card.json", json.dumps(card, indent=1, ensure_ascii=False) + "\n")
    write_text(folder / "README.md", page(card))


def longest(tokenizer: Tokenizer) -> int:
    """Tokens in the longest of the first passages: no position beyond it was trained."""
    return max(len(tokenizer.encode(passage.text, wrap=True)) for passage in itertools.islice(passages(0), 5_000))


def words() -> list[str]:
    """Every word of the micro-world, in lower case."""
    said = " ".join(passage.text for passage in itertools.islice(passages(0), 20_000)).lower()
    return sorted(set(re.findall(r"[^\W\d_]+", said)))


def page(card: Mapping[str, Any]) -> str:
    """The card for people to read."""
    lines = [
        f"# {card['name']}",
        "",
        f"A nano model: {card['parameters']:,} parameters, trained by this project on the micro-world of `cutaway.worlds`.",
        f"Made by `{card['command']}` from seed {card['schedule']['seed']}: {card['tokens']:,} tokens in {card['schedule']['steps']:,} "
        f"steps, {card['minutes']} minutes on {card['machine']}, torch {card['torch']}, threads: {card['threads']}.",
        *([f"It was resumed at step {card['resumed_at']}: minutes and losses are from there on."] if card["resumed_at"] else []),
        f"In training {card['salience']}.",
        f"The longest passage it was trained on has {card['longest']} tokens; the context is {card['config']['context']}.",
        "",
        "| twins | n | sentences right | both of a twin right |",
        "|---|---|---|---|",
        *(f"| {tier}: {TIERS[tier]} | {s['n']} | {s['sentences']:.1%} | {s['twins']:.1%} |" for tier, s in card["scores"].items()),
        *(f"| baseline on pairs: {name} | | {s['sentences']:.1%} | {s['twins']:.1%} |" for name, s in card["baselines"].items()),
        "",
        "Limits:",
        "",
        *(f"- {limit}" for limit in card["limits"]),
        "",
        "| tokens read | loss, nats a token asked for |",
        "|---|---|",
        *(f"| {tokens:,} | {loss:.4f} |" for tokens, loss in card["loss"][:: max(1, len(card["loss"]) // 20)]),
    ]
    return "\n".join(lines) + "\n"
