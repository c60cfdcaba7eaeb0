"""Chapter 4: the line that decides who reads whom, deleted and added. The same weights under the other mask.

What it does to training is `e04_without_line`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from cutaway.core.tap import Tap
from cutaway.errors import LabError
from cutaway.lab.claims import ANY, Claim, Needs
from cutaway.lab.curves import dots
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.lab.texts import asked_of, drawn, loss_of
from cutaway.model import Model
from cutaway.trace.edit import editing

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

NANO_LM, MLM = Needs(causal=True, heads=("lm",), own_world=True), Needs(causal=False, heads=("mlm",))


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    loss, reach = "Loss with the line and without it", "Places before a word that change with it: 0 is exactly none"
    losses = [row for record in records for row in record.rows("loss") if row["value"] is not None]
    shares = [row for record in records for row in record.rows("before.share")]
    return {
        reach: dots(shares, reach, x="model", y="share of places", colour="mask"),
        loss: dots(losses, loss, x="model", y="nats a token asked for", colour="mask"),
    }


@experiment(
    "e04_line",
    chapter="04",
    version=1,
    question="What does the one line that masks later positions decide, in a model trained with it and in one trained without?",
    needs=ANY,
    charts=charts,
    not_shown="what a model would have learned under the other mask: these weights were trained under their own",
    claims=(
        Claim(
            sentence="With the line no word changes anything before it, bit for bit, however the model was trained",
            measurement="before.changed[mask=causal]",
            compare="==",
            bound=0,
            reason="a masked weight is exactly 0, so nothing of a later position is added",
            fails_if="anything else than the mask let a position read a later one",
        ),
        Claim(
            sentence="Without it a word changes nearly all that stands before it",
            measurement="before.share[mask=none]",
            compare=">",
            bound=0.9,
            reason="a softmax over all positions gives each of them a weight above 0",
            fails_if="something else kept later positions out",
        ),
        Claim(
            sentence="A nano language model that gets to see what comes next, and never learned to, predicts it worse",
            measurement="loss.change[mask=none]",
            compare=">",
            bound=0,
            reason="its heads were fitted to weights over earlier positions alone; pilots had more than 2 nats",
            fails_if="it copied the word that it now sees, as a larger model of real text did in the pilot, or read no later one",
            of=NANO_LM,
        ),
        Claim(
            sentence="A masked-word model that no longer sees what follows fills in worse",
            measurement="loss.change[mask=causal]",
            compare=">",
            bound=0,
            reason="half of what it reads is gone, and it was fitted to all of it; the pilot had more than 1 nat",
            fails_if="it filled in from what stands before alone",
            of=MLM,
        ),
    ),
)
def line(run: Run, *, texts: int = 24, looked_at: int = 4, words: int = 12) -> Iterator[Measurement]:
    """The loss over `texts` passages of the micro-world; in `looked_at` of them, one after the other, `words` words are replaced."""
    if texts < 2 or looked_at < 1 or words < 1:
        raise LabError(f"texts={texts}, looked_at={looked_at}, words={words}", expected="2 texts or more, one to look at, and a word in it")
    read = drawn(run, run.model, texts)
    masks = {"causal": other(run.model, causal=True), "none": other(run.model, causal=False)}
    own = "causal" if run.model.config.causal else "none"
    for mask, model in masks.items():
        found = run.units(f"influence {mask}", read[:looked_at], partial(influence, run, model, words))
        before, after = (np.concatenate([one[side] for one in found]) for side in ("before", "after"))
        at = {"mask": mask}
        yield run.exact("before.changed", int(np.count_nonzero(before)), "places", at=at, n=len(before))
        yield run.exact("before.share", np.count_nonzero(before) / len(before), "share", at=at, n=len(before))
        yield run.exact("before.largest", float(before.max()), at=at, n=len(before))
        yield run.exact("after.share", np.count_nonzero(after) / len(after), "share", at=at, n=len(after))
    if run.model.config.head not in ("lm", "mlm"):
        yield run.absent("loss", f"{run.model.name} has no head that predicts words")
        return
    losses = {mask: run.units(f"loss {mask}", read, partial(loss, run, model)) for mask, model in masks.items()}
    for mask, values in losses.items():
        yield run.mean("loss", values, "nats a token", at={"mask": mask})
        if mask != own:
            yield run.mean("loss.change", np.subtract(values, losses[own]), "nats a token", at={"mask": mask})


def other(model: Model, *, causal: bool) -> Model:
    return model if model.config.causal == causal else model.with_config(causal=causal)


def loss(run: Run, model: Model, text: str) -> float:
    asked = asked_of(model, text, run)
    assert asked is not None
    return loss_of(model, asked)


def influence(run: Run, model: Model, words: int, text: str) -> dict[str, Any]:
    """The largest change of the last stream, of each place before a replaced word and of each behind it.

    Every run has one shape, the text's alone, so that nothing but the word can make a difference.
    """
    pieces = model.pieces(text)
    ids, rng = torch.tensor([[piece.id for piece in pieces]], device=model.device), run.rng(f"replaced {text}")
    whole = last_stream(model, ids)
    read = [place for place, piece in enumerate(pieces) if piece.span[0] < piece.span[1]]
    before: list[float] = []
    after: list[float] = []
    for place in rng.permutation(read)[:words].tolist():
        changed = ids.clone()
        changed[0, place] = ids[0, rng.choice([n for n in read if ids[0, n] != ids[0, place]])]  # another word of the same text
        apart = (last_stream(model, changed) - whole).abs().amax(dim=-1).tolist()
        before += apart[:place]
        after += apart[place + 1 :]
    return {"before": before, "after": after}


@torch.no_grad()
def last_stream(model: Model, ids: Tensor) -> Tensor:
    """(T, D): what the last block leaves of one text's ids (1, T)."""
    last = f"blocks.{model.config.layers - 1}.resid_post"
    held: list[Tensor] = []

    def see(name: str, x: Tensor) -> Tensor:
        if name == last:
            held.append(x[0])
        return x

    model.transformer(ids, tap=Tap(editing(model.edits, see)))
    return held[0]
