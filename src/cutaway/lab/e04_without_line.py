"""Chapter 4: a small language model trained without the line. It learns to copy what it is asked for, and nothing else.

Two models of one configuration but for the mask read the same text with the same seeds. Each is then judged twice: with the whole
passage in view, as in training, and with nothing but what stands before, as when it writes.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cutaway.core.transformer import Transformer
from cutaway.errors import LabError
from cutaway.lab.claims import Claim
from cutaway.lab.curves import dots
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.lab.training import apart, config_of, held_out, losses, trained

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

LINES = {"with": True, "without": False}


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    title = "Loss of models trained with the line and without it"
    rows = [row | {"reads": reads} for record in records for name, reads in READS.items() for row in record.rows(name)]
    return {title: dots(rows, title, x="reads", y="nats a token", colour="line")}


READS = {"loss.whole": "the whole passage", "loss.before": "what stands before"}


@experiment(
    "e04_without_line",
    chapter="04",
    version=1,
    question="What does a language model learn if the line that hides the next token from it is left out of its training?",
    needs=None,
    trains=True,
    charts=charts,
    not_shown="that a bidirectional model cannot be trained to predict: masked-word models are, by hiding what is asked for",
    claims=(
        Claim(
            sentence="Trained without the line a model is hardly ever wrong about the next token, as long as it sees it",
            measurement="loss.whole[line=without]",
            compare="<",
            bound=0.2,
            reason="to look one place ahead and copy is within one head's reach; the pilot had less than 0.01 nats",
            fails_if="the next token were hidden in some other way, or copying could not be learned",
        ),
        Claim(
            sentence="Of what stands before it has learned less than a model trained with the line",
            measurement="loss.before.above",
            compare=">",
            bound=1,
            reason="nothing in its training asked for more than a copy; the pilot had 4 nats",
            fails_if="it had learned the language beside copying",
        ),
        Claim(
            sentence="What it writes agrees less with the passages than what the other writes",
            measurement="written.below",
            compare=">",
            bound=0,
            reason="at each step it has to predict what it cannot see; the pilot had 12 % against 60 %",
            fails_if="it could write without seeing what comes next",
        ),
    ),
)
def without_line(
    run: Run, *, width: int = 128, heads: int = 4, layers: int = 2, steps: int = 400, rate: float = 2e-3, seeds: int = 5, rows: int = 100
) -> Iterator[Measurement]:
    """Train with the line and without it for each seed; `rows` held-out passages are read from before and continued."""
    if seeds < 2 or rows < 2:
        raise LabError(f"seeds={seeds}, rows={rows}", expected="2 or more of each, since an interval is reported")
    jobs = [(line, run.seed * 100 + seed) for line in LINES for seed in range(1, seeds + 1)]
    results = run.units("models", jobs, partial(train_one, run, (width, heads, layers, steps), rate, rows))
    of = {line: [result for result in results if result["line"] == line] for line in LINES}
    for line, found in of.items():
        at = {"line": line}
        yield run.mean("loss.whole", [one["loss"] for one in found], "nats a token", at=at)
        yield run.mean("loss.before", [one["before"] for one in found], "nats a token", at=at)
        yield run.mean("written.right", [one["right"] for one in found], "share", within=(0, 1), at=at)
        yield run.mean("written.repeats", [one["repeats"] for one in found], "share", within=(0, 1), at=at)
    yield run.mean("loss.before.above", apart(*([one["before"] for one in of[line]] for line in ("without", "with"))), "nats a token")
    yield run.mean("written.below", apart(*([one["right"] for one in of[line]] for line in ("with", "without"))), "share", within=(-1, 1))


def train_one(run: Run, sizes: tuple[int, int, int, int], rate: float, rows: int, job: tuple[str, int]) -> dict[str, Any]:
    (width, heads, layers, steps), (line, seed) = sizes, job
    model = Transformer(config_of(width, heads, layers, causal=LINES[line]))
    trained(run, model, rate=rate, steps=steps, seed=seed)
    return {"line": line, "seed": seed, **losses(model), **from_before(model, some(rows))}


def some(count: int) -> list[Tensor]:
    """Held-out passages' ids, of all lengths."""
    every = [row[:length] for batch in held_out() for row, length in zip(batch.ids, batch.lengths.tolist(), strict=True)]
    return every[:: max(1, len(every) // count)][:count]


@torch.no_grad()
def from_before(model: Transformer, passages: Sequence[Tensor]) -> dict[str, float]:
    """At half of each passage: the loss of the next token with nothing behind it in view; and of what the model goes on to
    write, as many tokens as the passage has left, each time the likeliest: the share that the passage has there too, and the
    share that repeats the token before.
    """
    nats, right, repeats = [], [], []
    for ids in passages:
        half = len(ids) // 2
        text = ids[None, :half]
        for place in range(half, len(ids)):
            logits = model(text)[:, -1]
            if place == half:
                nats.append(F.cross_entropy(logits, ids[None, half]).item())
            text = torch.cat([text, logits.argmax(dim=-1)[:, None]], dim=1)
        written = text[0, half:]
        right.append((written == ids[half:]).float().mean().item())
        repeats.append((written == text[0, half - 1 : -1]).float().mean().item())
    return {name: sum(each) / len(each) for name, each in (("before", nats), ("right", right), ("repeats", repeats))}
