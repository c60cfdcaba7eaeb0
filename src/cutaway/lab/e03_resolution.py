"""Chapter 3: which referent does a model prefer, where a pronoun could mean either of two nouns?

Each candidate is put into the pronoun's place, and the likeliest sentence is the answer (`e03_resolution_scores` says how).
The nano models are also asked as they were scored when they were trained: which noun goes on to be named.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from cutaway.errors import TextError
from cutaway.lab import winograd
from cutaway.lab.claims import Claim, Needs
from cutaway.lab.e03_resolution_charts import charts
from cutaway.lab.e03_resolution_scores import credit, scores
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.lab.winograd import Item
from cutaway.model import Model
from cutaway.train.score import score
from cutaway.worlds import Twin, twin_set

OUTSIDE = "outside this model's world: a nano model knows small English passages only"
REVEALED = 46  # twins scored at once
NANO = Needs(own_world=True)
NANO_CAUSAL, NANO_MASKED = Needs(own_world=True, heads=("lm",)), Needs(own_world=True, heads=("mlm",))

Right = Mapping[Item, float]  # 1 if answered right, 0 if not, a share where candidates tie
Pairs = Sequence[tuple[Item, Item]]


@dataclass(frozen=True)
class Questions:
    """A set's items as supplied and with their candidates shuffled; its twins: the same candidates and opposite answers, no item twice."""

    supplied: Sequence[Item]
    items: Sequence[Item]
    twins: Pairs


def of_world(run: Run, twins: Sequence[Twin]) -> Questions:
    """The micro-world's twins. The noun gets its article: "because the trophy was too big"."""
    supplied = [of_sentence(t, sentence, which) for t in twins for which, sentence in enumerate((t.a, t.b))]
    rng = run.rng("shuffle twins")
    items = [item.shuffled(rng) for item in supplied]
    return Questions(supplied, items, list(zip(items[::2], items[1::2], strict=True)))


def of_sentence(twin: Twin, sentence: str, which: int) -> Item:
    start = sentence.index(f" {twin.pronoun} was") + 1
    after = sentence[start + len(twin.pronoun) :]
    first, second = twin.nouns
    nouns = "|".join(sorted(twin.nouns))
    return Item(sentence[:start], twin.pronoun, after, (f"the {first}", f"the {second}"), twin.means[which], schema=nouns)


def of_set(run: Run, name: str) -> Questions:
    """A data set. Raises TextError if it is not here."""
    supplied = winograd.READERS[name](run.data)
    rng = run.rng(f"shuffle {name}")
    items = [item.shuffled(rng) for item in supplied]
    return Questions(supplied, items, winograd.opposites(items))


def asked(model: Model, item: Item) -> dict[str, Any]:
    """Every score of every candidate, in the whole sentence and without what stands behind it; empty if that does not fit the context."""
    try:
        return {"whole": scores(model, item), "without": scores(model, item, whole=False)}
    except TextError:
        return {}


def answers_of(items: Sequence[Item], found: Sequence[Mapping[str, Any]], text: str) -> Iterator[tuple[dict[str, str], Right]]:
    """By method, as the sum over the text and as the mean a token: how right each item was answered."""
    methods = next((list(one[text]) for one in found if one), [])
    for method, per in product(methods, ("text", "token")):
        right = {}
        for item, one in zip(items, found, strict=True):
            if one:
                values = [nats / tokens if per == "token" and tokens else nats for nats, tokens in one[text][method]]
                right[item] = credit(values, item.answer)
        yield {"method": method, "per": per}, right


def both(right: Right, twins: Pairs) -> list[float]:
    return [right[a] * right[b] for a, b in twins]


def preferred(run: Run, right: Right, twins: Pairs, at: Mapping[str, Any]) -> Iterator[Measurement]:
    """Items right, and twins with both right; what belongs to one schema is resampled together."""
    share = partial(run.mean, unit="share", within=(0, 1), at=at)
    yield share("accuracy", list(right.values()), groups=[item.schema for item in right])
    if twins := [(a, b) for a, b in twins if a in right and b in right]:
        yield share("both", both(right, twins), groups=[a.schema for a, _ in twins])


def answered(run: Run, name: str, questions: Questions, halves: list[float]) -> Iterator[Measurement]:
    """What the model prefers in one set; and without the deciding clause, where it cannot know. Those answers go into `halves` too."""
    items = questions.items
    found = run.units(name, items, partial(asked, run.model))
    yield run.exact("left_out", sum(not one for one in found), "items", n=len(items), at={"set": name, "why": "longer than the context"})
    for at, right in answers_of(items, found, "whole"):
        yield from preferred(run, right, questions.twins, {"set": name, **at})
    for at, right in answers_of(items, found, "without"):
        twins = [(a, b) for a, b in questions.twins if a.before == b.before and a in right and b in right]
        if twins:
            each = [right[item] for pair in twins for item in pair]
            halves += each
            shares = {"": sum(each) / len(each), "_both": sum(both(right, twins)) / len(twins)}
            for suffix, share in shares.items():
                yield run.exact(f"control.without_clause{suffix}", share, "share", at={"set": name, **at}, n=len(twins))


def baselines(run: Run, name: str, questions: Questions, halves: list[float]) -> Iterator[Measurement]:
    """What is right without reading: by chance, and always the first candidate, as shuffled and as supplied; and a tie of all."""
    items, n = questions.items, len(questions.items)
    halves += [credit([0.0, 0.0], item.answer) for item in items if len(item.candidates) == 2]
    yield run.exact("chance", sum(1 / len(item.candidates) for item in items) / n, "share", at={"set": name}, n=n)
    yield run.share("control.first", sum(item.answer == 0 for item in items), n, at={"set": name})
    yield run.exact("control.first_supplied", sum(item.answer == 0 for item in questions.supplied) / n, "share", at={"set": name}, n=n)
    yield run.exact("twins", len(questions.twins), at={"set": name})


def revealed(run: Run, twins: Sequence[Twin]) -> Iterator[Measurement]:
    """The nano models' own question: after " The", or at a mask there, which noun is named?"""
    chunks = [twins[start : start + REVEALED] for start in range(0, len(twins), REVEALED)]
    found = run.units("reveal", chunks, lambda some: score(run.model.transformer, run.model.tokenizer, some).margins.tolist())
    right = [[credit([margin, 0.0], 0) for margin in pair] for chunk in found for pair in chunk]  # (N, 2)
    nouns, at = ["|".join(sorted(twin.nouns)) for twin in twins], {"set": "twins", "method": "reveal"}
    share = partial(run.mean, unit="share", within=(0, 1), at=at)
    yield share("accuracy", [one for pair in right for one in pair], groups=[n for n in nouns for _ in range(2)])
    yield share("both", [a * b for a, b in right], groups=nouns)


@experiment(
    "e03_resolution",
    chapter="03",
    version=2,
    question="Which of two nouns does a model take a pronoun for, and is it the right one?",
    needs=Needs(heads=("lm", "mlm")),
    data=("wsc273", "pdp60", "wsc"),
    charts=charts,
    not_shown="that a model reasons as we do: to prefer one sentence to another is one way to answer",
    claims=(
        Claim(
            sentence="A nano model names the right noun after both sentences of most twins, with nouns that it never saw together",
            measurement="both[set=twins,method=reveal]",
            compare=">",
            bound=0.9,
            reason="it was trained until it did, on other pairs of nouns; all right in pilots",
            fails_if="it read off the deciding word or the order alone, which of a twin gets one sentence right",
            of=NANO,
        ),
        Claim(
            sentence="A bidirectional one also fills the right noun into the pronoun's place",
            measurement="both[set=twins,method=fill,per=text]",
            compare=">",
            bound=0.9,
            reason="it reads the deciding word from there, and was trained on such gaps; all right in pilots",
            fails_if="it were shown nothing that comes after the gap, as a causal mask does",
            of=NANO_MASKED,
        ),
        Claim(
            sentence="A causal one does not prefer the sentence that names the right noun, though it does name it when asked later",
            measurement="both[set=twins,method=partial,per=text]",
            compare="<",
            bound=0.5,
            reason="after either noun it expected either deciding word alike in pilots: its text seldom names the noun there",
            fails_if="it used what the noun does in the event to expect the deciding word",
            of=NANO_CAUSAL,
        ),
        Claim(
            sentence="Without the deciding clause the two items of a twin are one, and any scorer is right on half of them",
            measurement="control.without_clause",
            compare="==",
            bound=0.5,
            reason="one preference for two opposite answers is right about one of them; a tie counts one half",
            fails_if="the answer could be had from anything but the text, the order of the candidates for one",
        ),
        Claim(
            sentence="Who sees no difference between two candidates is right half of the time",
            measurement="control.constant",
            compare="==",
            bound=0.5,
            reason="ties count one half, wherever the right candidate is listed",
            fails_if="a tie went to the first or to the last",
        ),
    ),
)
def resolution(run: Run, *, twins: int = 184, sets: tuple[str, ...] = ("twins", "wsc273", "pdp60")) -> Iterator[Measurement]:
    """Ask up to `twins` twins of the test set, and the items of the other sets; a nano model only what is of its world."""
    without: list[float] = []
    constant: list[float] = []
    nano = bool(run.model.origin.card)
    for name in sets:
        if nano and name != "twins":
            yield run.absent("accuracy", OUTSIDE, at={"set": name})
            continue
        every = twin_set("pairs")
        drawn = [every[n] for n in sorted(run.rng("twins").permutation(len(every))[:twins])]
        try:
            questions = of_world(run, drawn) if name == "twins" else of_set(run, name)
        except TextError as missing:
            yield run.absent("accuracy", str(missing), at={"set": name})
            continue
        yield from baselines(run, name, questions, constant)
        yield from answered(run, name, questions, without)
        if nano:
            yield from revealed(run, drawn)
    for control, halves in (("control.constant", constant), ("control.without_clause", without)):
        if halves:
            yield run.exact(control, sum(halves) / len(halves), "share", n=len(halves))
