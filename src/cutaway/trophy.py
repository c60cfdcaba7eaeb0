"""Chapter 3: is the attention of "it" the same in both sentences, when only a later word decides what "it" means?

In a causal model it must be, bit for bit; in a bidirectional one it is not. "Differs" is not "knows": where the causal
model finds out is measured apart (`finding_out`). This is one pair of sentences; the lab's `e03_trophy` measures sets of them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

import torch
from torch import Tensor

from cutaway.errors import ModelError, TextError
from cutaway.finding_out import finding_out
from cutaway.invariance import invariance, parting, taps_of
from cutaway.model import Model
from cutaway.text.spans import find_word, pieces_of
from cutaway.worlds.twins import REVEAL

A = "The trophy didn't fit in the suitcase because it was too big."
B = "The trophy didn't fit in the suitcase because it was too small."
NEUTRAL = "The trophy didn't fit in the suitcase because it was too large."
WATCH = ("trophy", "suitcase")


@dataclass(frozen=True)
class Head:
    """One head's attention from the query word: to each watched word in both sentences, and in the neutral twin."""

    layer: int
    head: int
    max_abs_diff: float
    to: dict[str, tuple[float, float]]
    neutral: dict[str, float] | None


@dataclass(frozen=True)
class Reading:
    """One model's reading of both sentences. Attention weights are shares of 1; differences are between those.

    max_abs_diff: over all heads, of the attention pattern at the query. identical: every tap at every position before the
    first difference is bit-equal. controls: the same largest difference for the first sentence against itself, against
    its neutral twin, and against a twin that differs before the query (the watched words exchanged).
    """

    model: str
    weights_sha256: str | None
    tokens: tuple[tuple[str, ...], tuple[str, ...]]
    first_difference: int
    query_position: int
    equal_length: bool
    max_abs_diff: float
    identical: bool
    kernel_noise: float | None
    controls: dict[str, float | None]
    heads: tuple[Head, ...]
    odds: tuple[float, float] | None
    neutral_swaps: int
    later: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    causal_mask: bool
    dtype: str
    device: str
    threads: int
    kernel: str
    pattern: tuple[Tensor, Tensor] = field(repr=False, compare=False)  # (L, H, T, S) of either sentence; too big for to_dict


@dataclass(frozen=True)
class Trophy:
    """Both readings, and what they say in words."""

    sentences: tuple[str, str]
    neutral: str | None
    query: str
    watch: tuple[str, str]
    causal: Reading
    bidirectional: Reading
    verdict: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        whole = asdict(self)
        for reading in (whole["causal"], whole["bidirectional"]):
            del reading["pattern"]
        return whole

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.trophy(self)


def trophy(
    causal: Model,
    bidirectional: Model,
    a: str = A,
    b: str = B,
    neutral: str | None = NEUTRAL,
    *,
    query: str = "it",
    occurrence: int | None = None,
    watch: tuple[str, str] = WATCH,
) -> Trophy:
    """Read both sentences with both models. `a` is taken to mean the first watched word, `b` the second.

    Raises TextError for a word that is absent or ambiguous, sentences that are the same, or a query behind the difference.
    """
    if edited := [line for model in (causal, bidirectional) for edits in model.edits for line in edits.listed()]:
        raise ModelError(f"Edits are in force: {'; '.join(edited)}", expected="the models as they are", then="leave the `with` block first")
    if causal.config.causal == bidirectional.config.causal:
        kind = "causal" if causal.config.causal else "bidirectional"
        raise ModelError(f"{causal.name} and {bidirectional.name} are both {kind}", expected="a causal and a bidirectional model")
    if not causal.config.causal:
        raise ModelError(f"{causal.name} is bidirectional and {bidirectional.name} causal", then="exchange the two")
    one, other = (read(model, a, b, neutral, query, occurrence, watch) for model in (causal, bidirectional))
    said = tuple(line for reading in (one, other) for line in verdict(reading, query, watch))
    return Trophy((a, b), neutral, query, watch, one, other, said)


def read(model: Model, a: str, b: str, neutral: str | None, query: str, occurrence: int | None, watch: tuple[str, str]) -> Reading:
    """One model's reading."""
    compared = invariance(model, a, b)
    asked = place(model, a, query, occurrence)
    if asked >= compared.first_difference:
        raise TextError(
            f"The query {query!r} stands at token {asked}, and the sentences part at token {compared.first_difference} already",
            expected="a query before the first difference: what comes after it may differ in any model",
        )
    texts = [text for text in (a, b, neutral) if text]
    if neutral and parting(model, a, neutral)[2] <= asked:
        raise TextError(f"The neutral twin parts from the first sentence at {query!r} or before it", expected="a twin that parts after it")
    whole = patterns(model, texts)
    at = [pattern[:, :, asked] for pattern in whole]
    words = [{word: find_word(text, model.pieces(text), word) for word in watch} for text in texts]
    can_find_out = model.config.causal and model.config.head == "lm"
    found = finding_out(model, a, b, neutral, watch, asked) if can_find_out else None
    return Reading(
        **{name: compared.facts[name] for name in ("model", "weights_sha256", "dtype", "device", "threads", "kernel")},
        tokens=compared.tokens,
        first_difference=compared.first_difference,
        query_position=asked,
        equal_length=compared.equal_length,
        max_abs_diff=apart(at[0], at[1]).max().item(),
        identical=compared.identical,
        kernel_noise=compared.kernel_noise,
        controls={
            "a_a": compared.a_a,
            "neutral": apart(at[0], at[2]).max().item() if neutral else None,
            "before": before(model, a, query, occurrence, watch, asked),
        },
        heads=tuple(heads_of(at, words)),
        odds=found.odds if found else None,
        neutral_swaps=found.n if found else 0,
        later=tuple(asdict(later) | {"found_out": later.found_out} for later in found.later) if found else (),
        notes=notes_of(model, texts, watch, compared.note, measured=found is not None),
        causal_mask=model.config.causal,
        pattern=(whole[0], whole[1]),
    )


def place(model: Model, text: str, query: str, occurrence: int | None) -> int:
    """The position that asks: of a word of several pieces the last, which has read them all. `12:14` is a span of characters."""
    pieces = model.pieces(text)
    if span := re.fullmatch(r"(\d+):(\d+)", query):
        found = pieces_of(pieces, int(span[1]), int(span[2]))
        if not found:
            raise TextError(f"The span {query} holds no token of {text!r}", expected=f"START:END within 0:{len(text)}, START before END")
        return found[-1]
    return find_word(text, pieces, query, occurrence)[-1]


def notes_of(model: Model, texts: Sequence[str], watch: Sequence[str], shapes: str, measured: bool) -> tuple[str, ...]:
    """What shaped the numbers, in words."""
    said = [shapes, *dict.fromkeys(note for text in texts for note in model.notes_on(text))]
    for word in watch:
        if (pieces := len(find_word(texts[0], model.pieces(texts[0]), word))) > 1:
            said.append(f"{word!r} is {pieces} pieces; attention to it is their sum.")
    if model.config.head != "lm" and model.config.causal:
        said.append("This model has no language-model head, so there are no log-probabilities.")
    elif model.config.causal and not measured:
        said.append("The sentences have unequal lengths, so later positions do not pair up and were not swapped.")
    return tuple(said)


def patterns(model: Model, texts: Sequence[str]) -> list[Tensor]:
    """Each text's attention pattern (L, H, T, S); texts of a causal model are padded to one length."""
    ids = [[piece.id for piece in model.pieces(text)] for text in texts]
    width = max(map(len, ids)) if model.config.causal else 0
    runs = [taps_of(model, row, width) for row in ids]
    return [torch.stack([run[f"blocks.{layer}.attn.pattern"] for layer in range(model.config.layers)]) for run in runs]


def apart(a: Tensor, b: Tensor) -> Tensor:
    """The largest absolute difference of each head (L, H), over the keys that both have."""
    keys = min(a.shape[-1], b.shape[-1])
    return (a[..., :keys] - b[..., :keys]).abs().amax(dim=-1)


def heads_of(at: Sequence[Tensor], words: Sequence[Mapping[str, Sequence[int]]]) -> Iterator[Head]:
    """Every head's attention to the watched words; a word of several pieces gets their sum."""
    differ = apart(at[0], at[1])
    for layer, head in product(*map(range, differ.shape)):
        to = [{word: float(row[layer, head, list(n)].sum()) for word, n in found.items()} for row, found in zip(at, words, strict=True)]
        pairs = {word: (to[0][word], to[1][word]) for word in to[0]}
        yield Head(layer, head, differ[layer, head].item(), pairs, to[2] if len(to) == 3 else None)


def before(model: Model, a: str, query: str, occurrence: int | None, watch: tuple[str, str], asked: int) -> float | None:
    """The control that must not be 0: a twin that differs before the query, the watched words exchanged."""
    twin = exchanged(a, watch)
    try:
        if place(model, twin, query, occurrence) != asked:
            return None
    except TextError:
        return None
    one, other = (pattern[:, :, asked] for pattern in patterns(model, (a, twin)))
    return apart(one, other).max().item()


def exchanged(text: str, pair: tuple[str, str]) -> str:
    """The text with two words in each other's places, as whole words.

    >>> exchanged("The tin held a bridge too tiny for the tin.", ("tin", "bridge"))
    'The bridge held a tin too tiny for the bridge.'
    """
    swap = dict(zip(pair, reversed(pair), strict=True))
    return re.sub("|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in pair), lambda found: swap[found[0]], text)


def verdict(reading: Reading, query: str, watch: tuple[str, str]) -> Iterator[str]:
    """What was measured, in words, and no more than that."""
    who, heads, parted = reading.model, len(reading.heads), reading.first_difference
    if reading.max_abs_diff > 0:
        most = f"{reading.max_abs_diff:.3g}"
        yield f"{who}: the attention of {query!r} differs between the sentences, by up to {most} in one of {heads} heads."
    else:
        yield f"{who}: the attention of {query!r} is identical in both sentences, bit for bit, in all {heads} heads."
    if reading.identical:
        yield f"{who}: so is every tap at every position before token {parted}, where the sentences part."
    elif reading.causal_mask:
        yield f"{who}: some tap at a position before token {parted}, where the sentences part, is not bit-equal."
    if not reading.causal_mask and reading.controls["neutral"]:
        moved = reading.controls["neutral"]
        yield f"{who}: the neutral twin moves it too, by up to {moved:.3g}; that it differs does not say that it knows."
    yield from where(reading, query, watch)


def where(reading: Reading, query: str, watch: tuple[str, str]) -> Iterator[str]:
    """Where the causal model finds out, if that was measured; else where it differs."""
    if not reading.later or reading.odds is None:
        return
    who, (first, second), (one, other) = reading.model, watch, reading.odds
    yield (
        f"{who}: after {REVEAL!r}, log p({first}) − log p({second}) is {one:+.2f} nats in the first sentence "
        f"and {other:+.2f} in the second."
    )
    strongest = max(reading.later, key=lambda later: float(later["effect"]))
    found = [later for later in reading.later if later["found_out"]]
    if not one > 0 > other:
        yield f"{who}: it does not mean {first} in the first sentence and {second} in the second, so no position is said to know."
        return
    if strongest["threshold"] is None:
        yield (
            f"{who}: swapping one later position for the twin's moves this most towards {second} at {named(strongest, reading)}; "
            "it differs there, and there is no test set of neutral swaps to hold that against."
        )
        return
    bound = f"{strongest['threshold']:.2f} nats, which 95 % of {reading.neutral_swaps} neutral swaps stay below"
    if found:
        places = ", ".join(named(later, reading) for later in found)
        yield f"{who} finds out after {query!r}: swapping the twin's column moves this towards {second} by more than {bound}, at {places}."
    else:
        yield f"{who}: no swap of one later position moves this towards {second} by more than {bound}; no one position is said to know."


def named(later: Mapping[str, Any], reading: Reading) -> str:
    """A later position; at two of them a large effect is no surprise, and that is said."""
    tokens = " / ".join(repr(token) for token in dict.fromkeys(later["token"]))
    last = reading.later[-1]["position"]
    what = {reading.first_difference: ", the deciding word itself", last: ", where the answer is read"}.get(later["position"], "")
    return f"token {later['position']} ({tokens}{what}: {later['effect']:+.2f})"
