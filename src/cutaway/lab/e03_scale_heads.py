"""Chapter 3: the scale in a model's heads. How large is q·k there, fresh and trained, and what happens if 1/√d becomes another power?

The second says how a model was tuned, not why: it was trained with √d, and any other scale is a change to it. Why is asked
by training, in `e03_scale_training`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cutaway.core.config import Config
from cutaway.core.tap import Tap
from cutaway.core.transformer import Transformer
from cutaway.lab.claims import ANY, Claim, Needs
from cutaway.lab.curves import curves
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.lab.statistics import Numbers
from cutaway.lab.texts import Asked, asked_of, drawn
from cutaway.model import Model
from cutaway.trace.edit import editing, scale
from cutaway.train.loop import Learner, initialise
from cutaway.train.objectives import IGNORE
from cutaway.train.score import score
from cutaway.worlds import Twin, twin_set

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

READS, OWN = Needs(heads=("lm", "mlm")), Needs(heads=("lm", "mlm"), own_world=True)
FAR = 2.0  # a head's variance of q·k is far from d when it is more than so many times as large, or as small
AS_TRAINED = 0.5  # the power of d that the core divides by


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    heads = [row | {"head": f"{row['layer']}.{row['head']}"} for record in records for row in record.rows("variance.share")]
    fresh, trained = ([row for row in heads if row["weights"] == which] for which in ("fresh", "trained"))
    entropy = [row for record in records for row in record.rows("entropy")]
    loss = [row for record in records for row in record.rows("loss")]
    spread = "The variance of q·k in each head, as a share of d"
    sharp, tuned = (f"{what} under another scale: how it was tuned, not why" for what in ("Entropy of attention", "Loss"))
    return {
        spread: scatter(fresh + trained, spread),
        sharp: curves(entropy, sharp, x="power", y="nats", colour="model", log=()),
        **({tuned: curves(loss, tuned, x="power", y="nats a token", colour="model", log=())} if loss else {}),
    }


def scatter(rows: Sequence[Mapping[str, Any]], title: str) -> dict[str, Any]:
    """A dot a head, a column a model."""
    value = {"field": "value", "type": "quantitative", "scale": {"type": "log"}, "title": "variance / d"}
    return {
        "title": title,
        "data": {"values": [dict(row) for row in rows if row["value"] > 0]},
        "facet": {"column": {"field": "model", "title": None}},
        "spec": {
            "width": 240,
            "height": 260,
            "mark": {"type": "point", "filled": True, "size": 45},
            "encoding": {
                "x": {"field": "layer", "type": "ordinal", "title": "layer", "axis": {"labelAngle": 0, "labelOverlap": True}},
                "y": value,
                "color": {"field": "weights", "type": "nominal", "sort": None},
                "tooltip": [{"field": name} for name in ("layer", "head", "weights", "value", "low", "high")],
            },
        },
    }


@experiment(
    "e03_scale_heads",
    chapter="03",
    version=1,
    question="How large is q·k in a model's heads, before and after training, and what does the model lose under another scale?",
    needs=ANY,
    claims=(
        Claim(
            sentence="In fresh heads q and k point nowhere: q·k is not half as large again as for vectors of their lengths at random",
            measurement="square.share[weights=fresh]",
            compare="<",
            bound=1.5,
            reason="W_q and W_k are drawn independently, so (q·k)² is |q|²|k|²/d on average: the theory's d, but for the lengths",
            fails_if="q and k were drawn alike, or scores were not divided by √d",
        ),
        Claim(
            sentence="Nor half as large",
            measurement="square.share[weights=fresh]",
            compare=">",
            bound=0.5,
            reason="the same",
            fails_if="q and k were kept apart, or scores were divided by more than √d",
        ),
        Claim(
            sentence="Training on the micro-world points q and k at each other",
            measurement="square.rise",
            compare=">",
            bound=0,
            reason="a head that picks out some positions needs keys along its queries; the pilot had more than 1 in the logarithm",
            fails_if="heads grew sharper by length alone, or did not",
            of=Needs(own_world=True),
        ),
        Claim(
            sentence="Without the division attention in the first layer is sharper",
            measurement="entropy.first.change[power=0.0]",
            compare="<",
            bound=0,
            reason="the entropy of a softmax falls as its scores are multiplied, whatever they are, unless they are all the same",
            fails_if="the scores were not what the softmax is made of",
        ),
        Claim(
            sentence="A trained model divided by d predicts worse: how it was tuned, not why",
            measurement="loss.change[power=1.0]",
            compare=">",
            bound=0,
            reason="its weights were fitted to scores √d times as large; the pilot had 0.4 nats and more",
            fails_if="a model did not depend on how sharp its attention is",
            of=READS,
        ),
        Claim(
            sentence="A nano model without the division has fewer twins of its test set right: how it was tuned, not why",
            measurement="twins.change[power=0.0]",
            compare="<",
            bound=0,
            reason="its weights were fitted to scores divided by √d; the pilot had 7 in 100 and more",
            fails_if="a model did not depend on how sharp its attention is",
            of=OWN,
        ),
    ),
    charts=charts,
    not_shown="why the scale is √d: a model is worse under any scale but the one it was trained with",
)
def scale_heads(
    run: Run,
    *,
    texts: int = 24,
    powers: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0),
    twins: int = 552,
    tier: str = "distractors",
) -> Iterator[Measurement]:
    """`texts` passages of the micro-world, as the model reads them. powers: of d, that the scores are divided by; 1/2 is one of them.

    tier: of a nano model's test set; one that it does not get all right, or no loss could be seen.
    """
    model = run.model
    fresh = cache(partial(fresh_of, model, run.seed))

    def measure(text: str) -> dict[str, Any]:
        asked = asked_of(model, text, run)
        ids = asked[0] if asked and model.config.head == "lm" else model.batch([text])[0]
        return {
            "fresh": products(fresh(), ids, model.config),
            "trained": products(model.transformer, ids, model.config),
            "scaled": [scaled(model, power, ids, asked) for power in powers],
        }

    each = run.units("texts", drawn(run, model, texts), measure)
    yield from of_heads(run, each)
    yield from under(run, each, powers)
    if model.origin.card and model.config.head in READS.heads:
        yield from answers(run, powers, twins, tier)


def fresh_of(model: Model, seed: int) -> Transformer:
    """The same configuration with weights as this project's training draws them."""
    made = Transformer(model.config)
    initialise(made, seed)
    return made.to(model.device)


def readable(config: Config, tokens: int) -> Tensor:
    """(T, T), true where the row's position may read the column's."""
    every = torch.ones(tokens, tokens, dtype=torch.bool)
    return every.tril() if config.causal else every


@torch.no_grad()
def products(transformer: Transformer, ids: Tensor, config: Config) -> dict[str, list[Any]]:
    """Of each layer and head (L, H), over all pairs that may read: q·k's mean in units of √d, its variance as a share of d, and its
    mean square as a share of what it were if q and k pointed nowhere: mean |q|² times mean |k|² over d.
    """
    found: dict[str, list[Any]] = {"mean": [], "variance": [], "square": []}
    pairs, d, held = readable(config, ids.shape[1]).to(ids.device), config.head_width, {}

    def see(name: str, x: Tensor) -> Tensor:
        held[name.rpartition(".")[2]] = x[0].double() if ".attn." in name else x
        if name.endswith("attn.scores"):
            dot = held["scores"][:, pairs] * d**0.5  # (H, pairs)
            of_q, of_k = (held[part].square().sum(-1).mean(-1) for part in "qk")  # mean square lengths (H) and (G)
            lengths = of_q * of_k.repeat_interleave(config.heads // config.key_heads)
            found["mean"].append((dot.mean(dim=1) / d**0.5).tolist())
            found["variance"].append((dot.var(dim=1) / d).tolist())
            found["square"].append((dot.square().mean(dim=1) / (lengths / d)).tolist())
        return x

    transformer(ids, tap=Tap(see))
    return found


@torch.no_grad()
def scaled(model: Model, power: float, ids: Tensor, asked: Asked | None) -> dict[str, Any]:
    """Under q·k / d^power: attention's entropy in each layer (nats, the mean over heads and rows), and the loss in nats a token."""
    entropies: list[float] = []

    def see(name: str, x: Tensor) -> Tensor:
        if name.endswith("attn.pattern"):
            entropies.append(torch.special.entr(x.double()).sum(dim=-1).mean().item())
        return x

    with model.edit({"blocks.*.attn.q": scale(model.config.head_width ** (AS_TRAINED - power))}):
        out = model.transformer(ids, tap=Tap(editing(model.edits, see)))
        if asked is None:
            return {"entropy": entropies, "loss": None}
        logits = out if asked[0] is ids else model.logits(asked[0])
    loss = F.cross_entropy(logits.double().flatten(0, 1), asked[1].flatten(), ignore_index=IGNORE)
    return {"entropy": entropies, "loss": loss.item()}


def of_heads(run: Run, each: Sequence[Mapping[str, Any]]) -> Iterator[Measurement]:
    """Each head's mean and variance over texts, then what they have in common."""
    whole = {w: {part: np.array([one[w][part] for one in each]) for part in ("mean", "variance", "square")} for w in ("fresh", "trained")}
    for weights, found in whole.items():
        for layer, head in np.ndindex(found["mean"].shape[1:]):
            at = {"weights": weights, "layer": layer, "head": head}
            yield run.mean("variance.share", found["variance"][:, layer, head], "of d", at=at)
            yield run.mean("mean.share", found["mean"][:, layer, head], "of √d", at=at)
        of_head = found["variance"].mean(axis=0)
        far = int(((of_head > FAR) | (of_head < 1 / FAR)).sum())
        yield run.exact("heads.far", far, "heads", at={"weights": weights}, n=of_head.size)
        yield run.mean("square.share", geometric(found["square"]), "of |q|²|k|²/d", at={"weights": weights})
    rise = np.log(whole["trained"]["square"]) - np.log(whole["fresh"]["square"])
    yield run.mean("square.rise", rise.mean(axis=(1, 2)), "log")


def geometric(values: Numbers) -> Numbers:
    """The geometric mean over layers and heads, of each text."""
    return np.asarray(np.exp(np.log(values).mean(axis=(1, 2))))


def under(run: Run, each: Sequence[Mapping[str, Any]], powers: Sequence[float]) -> Iterator[Measurement]:
    """Entropy and loss for each power, and how far they are from the plain model's, in pairs of one text."""
    entropy = {power: np.array([one["scaled"][n]["entropy"] for one in each]) for n, power in enumerate(powers)}  # (texts, L) each
    loss = {power: [one["scaled"][n]["loss"] for one in each] for n, power in enumerate(powers)}
    for power in powers:
        at = {"power": power}
        yield run.mean("entropy", entropy[power].mean(axis=1), "nats", at=at)
        if power != AS_TRAINED:
            yield run.mean("entropy.first.change", entropy[power][:, 0] - entropy[AS_TRAINED][:, 0], "nats", at=at)
        if None in loss[power]:
            yield run.absent("loss", "this model has no head that predicts words", at=at)
            continue
        yield run.mean("loss", loss[power], "nats a token", at=at)
        if power != AS_TRAINED:
            yield run.mean("loss.change", np.subtract(loss[power], loss[AS_TRAINED]), "nats a token", at=at)


@dataclass(frozen=True)
class Edited:
    """A model under the edits in force, as `score` asks it."""

    model: Model

    @property
    def config(self) -> Config:
        return self.model.config

    def __call__(self, ids: Tensor, *, lengths: Tensor) -> Tensor:
        return self.model.logits(ids.to(self.model.device), lengths.to(self.model.device)).cpu()


def answers(run: Run, powers: Sequence[float], count: int, tier: str) -> Iterator[Measurement]:
    """The model's own test set: the share of twins with both sentences right."""
    model, every = run.model, twin_set(tier)
    picked: list[Twin] = [every[n] for n in sorted(run.rng("twins").permutation(len(every))[:count])]

    def both_right(power: float) -> list[float]:
        with model.edit({"blocks.*.attn.q": scale(model.config.head_width ** (AS_TRAINED - power))}):
            margins = score(cast(Learner, Edited(model)), model.tokenizer, picked).margins
        return (margins > 0).all(dim=1).double().tolist()

    right = dict(zip(powers, run.units("twins", list(powers), both_right), strict=True))
    nouns = [tuple(sorted(twin.nouns)) for twin in picked]
    for power in powers:
        yield run.mean("twins", right[power], "share", groups=nouns, within=(0, 1), at={"power": power})
        if power != AS_TRAINED:
            change = np.subtract(right[power], right[AS_TRAINED])
            yield run.mean("twins.change", change, "share", groups=nouns, within=(-1, 1), at={"power": power})
