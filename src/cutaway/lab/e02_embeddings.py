"""Chapter 2: the embedding. A lookup, what stands near what, how length follows frequency, how positions lie, and the tied output."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from cutaway.errors import LabError, TextError
from cutaway.lab import data
from cutaway.lab.claims import ANY, Claim, Needs
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.lab.texts import drawn
from cutaway.lab.vocabulary import Numbers, Vocabulary, unit
from cutaway.model import Model
from cutaway.worlds import passages

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

ORDINARY = Needs(own_world=False)
SEEN = 5  # times, from which on a token's count says something
ENDINGS = ("s", "es", "d", "ed", "ing", "er", "est", "ly", "y", "n", "en")
CARRIED = 0.9  # of the variance


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    title = "Length of a token's row, by how often it is seen"
    rows = [row for record in records for row in record.rows("length")]
    return {
        title: {
            "title": title,
            "data": {"values": rows},
            "width": 460,
            "height": 280,
            "encoding": {
                "x": {
                    "field": "seen",
                    "type": "quantitative",
                    "scale": {"type": "symlog"},
                    "title": "times seen in the corpus, at least",
                    "axis": {"values": [0, 10, 100, 1000, 10000]},
                },
                "color": {"field": "model", "type": "nominal", "sort": None},
                "tooltip": [{"field": name} for name in ("model", "seen", "value", "low", "high", "n")],
            },
            "layer": [
                {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {"y": length("low"), "y2": {"field": "high"}}},
                {"mark": {"type": "line", "point": True}, "encoding": {"y": length("value")}},
            ],
        }
    }


def length(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": "mean length, a share of all rows' mean"}


@experiment(
    "e02_embeddings",
    chapter="02",
    version=1,
    question="What is an embedding: a lookup, a place among others, and what else?",
    needs=ANY,
    data=("wikitext-2",),
    charts=charts,
    not_shown="why a row is long: the corpus is not the text that the model was trained on",
    claims=(
        Claim(
            sentence="To look a row up is to multiply the table by a vector with a single 1, bit for bit",
            measurement="lookup.apart",
            compare="==",
            bound=0,
            reason="all other products are 0, and a sum of zeros and one number is that number",
            fails_if="the embedding did more than look a row up",
        ),
        Claim(
            sentence="A tied output matrix is the embedding, bit for bit",
            measurement="tied.apart",
            compare="==",
            bound=0,
            reason="there is one matrix, and it is used twice",
            fails_if="a loader made two of it, or filled one of them otherwise",
            of=Needs(heads=("lm", "mlm")),
        ),
        Claim(
            sentence="The nearest word is a form of the same word far more often than a word at random",
            measurement="nearest.form_above_chance",
            compare=">",
            bound=0.2,
            reason="forms of a word stand in the same places of text; pilots had 0.4 and more",
            fails_if="nearness in the table said nothing of the words",
            of=ORDINARY,
        ),
        Claim(
            sentence="Neighbouring positions lie nearer to each other than positions at random",
            measurement="positions.near_above_far",
            compare=">",
            bound=0,
            reason="what holds at a place holds at the next one; so in pilots, of nano models too, less surely",
            fails_if="the rows of positions had no order",
            of=Needs(own_world=False, causal=False),
        ),
    ),
)
def embeddings(run: Run, *, words: int = 1000, passages: int = 20_000, draws: int = 1000) -> Iterator[Measurement]:
    """words: so many at random, or all. passages: of the micro-world, the corpus of a nano model. draws: positions, at most."""
    if words < 10 or passages < 100 or draws < 10:
        raise LabError(f"words={words}, passages={passages}, draws={draws}", expected="at least 10, 100 and 10")
    yield from lookup(run)
    yield from tied(run)
    yield from nearest(run, words)
    yield from by_count(run, passages)
    yield from positions(run, draws)


@torch.no_grad()
def lookup(run: Run) -> Iterator[Measurement]:
    """One-hot rows times the table, against what the model's own run has at `tok_embed`, and against the table's row."""
    model = run.model
    (text,) = drawn(run, model, 1)
    trace = model.trace(text)
    ids = torch.tensor([piece.id for piece in trace.pieces[0]])
    table = model.transformer.embed.token.weight.detach().cpu()
    product = torch.nn.functional.one_hot(ids, len(table)).to(table) @ table
    yield run.exact("lookup.apart", float((product - trace["tok_embed"].cpu()).abs().max()), n=product.numel())


def tied(run: Run) -> Iterator[Measurement]:
    model = run.model
    if model.config.head not in ("lm", "mlm") or not model.config.tied:
        yield run.absent("tied.apart", f"{model.name} has no output matrix that is its embedding")
        return
    unembed: Any = model.transformer.head
    yield run.exact("tied.apart", float((unembed.unembed.weight - model.transformer.embed.token.weight).abs().max()))


def nearest(run: Run, count: int) -> Iterator[Measurement]:
    """By cosine among the words that are one token: how often is the nearest a form of the same word?"""
    words = Vocabulary(run.model)
    spelt = sorted(words.words)
    if len(spelt) < 2:
        yield run.absent("nearest.form", f"{run.model.name} has {len(spelt)} words of one token")
        return
    rng = run.rng("words")
    asked = [spelt[n] for n in sorted(rng.permutation(len(spelt))[:count])]
    for kind, rows in (("raw", words.rows), ("centred", words.rows - words.rows.mean(axis=0))):
        among = unit(rows[[words.words[word] for word in spelt]])
        where = [spelt.index(word) for word in asked] if len(spelt) < 5000 else np.searchsorted(spelt, asked)
        near = among[where] @ among.T  # (W, words)
        near[np.arange(len(asked)), where] = -np.inf
        best = [spelt[n] for n in near.argmax(axis=1)]
        forms = [float(form(word, other)) for word, other in zip(asked, best, strict=True)]
        yield run.mean("nearest.form", forms, "share", within=(0, 1), at={"rows": kind})
        if kind == "raw":
            others = [spelt[n] for n in rng.integers(len(spelt), size=len(asked))]
            chance = [float(form(word, other)) for word, other in zip(asked, others, strict=True)]
            yield run.mean("nearest.form_by_chance", chance, "share", within=(0, 1))
            yield run.mean("nearest.form_above_chance", np.subtract(forms, chance), "share", within=(-1, 1))


def form(word: str, other: str) -> bool:
    """One word in another form: other capitals, or one of ENDINGS more.

    >>> form("house", "Houses"), form("run", "running"), form("king", "queen")
    (True, True, False)
    """
    short, long = sorted((word.lower(), other.lower()), key=len)
    stems = {short, short.removesuffix("e"), short + short[-1:]}
    return short == long or any(long == stem + ending for stem in stems for ending in ENDINGS)


def corpus(run: Run, count: int) -> tuple[str, Iterator[str]]:
    """Its name and its texts: a nano model's own kind of text, WikiText-2 for others."""
    if run.model.origin.card:
        texts = (passage.text for passage in islice(passages(int(run.rng("corpus").integers(1 << 31))), count))
        return "the micro-world", texts
    lines = data.find("wikitext-2", run.data)[0].read_text(encoding="utf-8").splitlines()
    return "WikiText-2, test split", (line for line in lines if line.strip())


def by_count(run: Run, count: int) -> Iterator[Measurement]:
    """Spearman's correlation of a row's length with the token's count, over tokens seen SEEN times; and mean lengths by count."""
    try:
        name, texts = corpus(run, count)
    except TextError as missing:
        yield run.absent("length.spearman", str(missing))
        return
    counts = Counter(n for text in texts for n in run.model.tokenizer.encode(text))
    lengths = np.linalg.norm(Vocabulary(run.model).rows, axis=1)
    lengths /= lengths.mean()
    seen = np.array([counts[n] for n in range(len(lengths))])
    often = seen >= SEEN
    at = {"corpus": name}
    yield run.exact("corpus.tokens", int(seen.sum()), "tokens", at=at)
    if often.sum() < 10:
        yield run.absent("length.spearman", f"{int(often.sum())} tokens are seen {SEEN} times in the corpus, too few", at=at)
        return
    yield spearman(run, lengths[often], seen[often], at)
    edges = [0, 1, SEEN, 50, 500, 5000, 50_000]
    for low, high in zip(edges, [*edges[1:], np.inf], strict=True):
        within = lengths[(seen >= low) & (seen < high)]
        if len(within) >= 5:
            yield run.mean("length", within, "of the mean of all rows", at={"seen": low} | at)


def spearman(run: Run, x: Numbers, y: NDArray[Any], at: Mapping[str, Any]) -> Measurement:
    """With Fieller's interval (Fieller, Hartley and Pearson 1957: a standard error of 1.03/√(n − 3) in Fisher's z)."""
    from scipy.stats import spearmanr

    value, n = float(spearmanr(x, y).statistic), len(x)
    reach = NormalDist().inv_cdf(0.5 + run.level / 2) * 1.03 / sqrt(n - 3)
    low, high = np.tanh([np.arctanh(value) - reach, np.arctanh(value) + reach]).tolist()
    return Measurement("length.spearman", value, "", "statistic", (low, high), run.level, n, at)


def positions(run: Run, draws: int) -> Iterator[Measurement]:
    """Cosines of learned rows of positions, as far as training went; and how few directions carry most of what varies."""
    rows = learned(run.model)
    if rows is None or len(rows) < 4:
        yield run.absent("positions.near_above_far", f"{run.model.name} has no table of learned positions")
        return
    rng, at = run.rng("positions"), {"positions": len(rows)}
    among = unit(rows - rows.mean(axis=0))
    one = rng.permutation(len(rows) - 1)[:draws]  # each once, so that n counts what is independent at most
    other = rng.integers(len(rows) - 1, size=len(one))
    other += other >= one  # any position but its own
    near, far = ((among[one] * among[which]).sum(axis=1) for which in (one + 1, other))
    yield run.mean("positions.near", near, "cosine", at=at)
    yield run.mean("positions.far", far, "cosine", at=at)
    yield run.mean("positions.near_above_far", near - far, "cosine", within=(-2, 2))
    spread = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    needed = int((spread.cumsum() < CARRIED * spread.sum()).sum()) + 1
    yield run.exact("positions.directions", needed, f"directions that carry {CARRIED:.0%} of the variance", at=at, n=rows.shape[1])


def learned(model: Model) -> Numbers | None:
    """The rows that a text can reach; of a nano model those that its training reached."""
    table = model.transformer.embed.position
    if table is None:
        return None
    rows: Numbers = table.weight.detach().double().numpy(force=True)[model.config.position_offset :]
    return rows[: model.origin.card["longest"]] if model.origin.card else rows
