"""What a head looks at: the weight it puts on named places, beside the weight on places drawn at random.

Not here: what the model loses without it (`e04_heads_ablation`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.core.tap import Tap
from cutaway.core.transformer import Transformer
from cutaway.errors import TextError
from cutaway.model import Model

ALIKE = 1e-9  # weights that differ by less are the same
STARTS = ("<|endoftext|>", "<s>", "<|begin_of_text|>")  # what a text may begin with, of which a tokenizer has one at most in use
Ints = NDArray[np.int64]
Place = tuple[Ints, Ints]  # queries (Q) and for each of them a key (Q)


@dataclass(frozen=True)
class Reading:
    """Texts of one length, ids (N, T), and what is looked at in them: by type, for some queries the key that the type means."""

    ids: Tensor
    places: Mapping[str, Place]


@dataclass(frozen=True)
class Scores:
    """By type: the mean weight (L, H) on its places, and on places drawn at random (L, H, R)."""

    mean: Mapping[str, NDArray[np.float64]]
    drawn: Mapping[str, NDArray[np.float64]]

    def typed(self, kind: str, percentile: float) -> NDArray[np.bool_]:
        """(L, H): is the weight above this percentile of those at random?"""
        return np.asarray(self.mean[kind] > np.percentile(self.drawn[kind], percentile, axis=-1))

    def certain(self, kind: str, level: float) -> NDArray[np.bool_]:
        """(L, H): is it, corrected over heads? With all of them at random none is, at this level.

        Each head counts in its own standard deviations, and has to pass what the highest of all heads comes to at random
        (Westfall & Young 1993, the largest statistic). One draw has the same places for all heads, so their likeness is in it.
        """
        middle, spread = self.drawn[kind].mean(axis=-1), self.drawn[kind].std(axis=-1).clip(ALIKE)
        highest = ((self.drawn[kind] - middle[..., None]) / spread[..., None]).max(axis=(0, 1))
        return np.asarray((self.mean[kind] - middle) / spread > np.quantile(highest, level))


def ordinary(model: Model) -> list[int]:
    """The ids of tokens that are words or parts of words, as they stand within a text."""
    specials = set(model.tokenizer.specials.values())
    spelt = ((n, model.tokenizer.decode([n])) for n in range(model.tokenizer.vocab_size) if n not in specials)
    return [n for n, text in spelt if text.strip().isalpha() and text.isascii()]


def start_of(model: Model) -> int | None:
    """The id that a causal model's text may begin with, if its tokenizer has one."""
    return next((model.tokenizer.specials[name] for name in STARTS if name in model.tokenizer.specials), None)


def repeated(model: Model, rng: np.random.Generator, count: int, length: int, *, start: int | None = None) -> Reading:
    """`count` random sequences of `length` different tokens, each twice in a row, wrapped as the model's format wants it.

    The places are those of the second copy, but for its first token. Raises TextError if the vocabulary or context is too small.
    """
    words, wrap = ordinary(model), model.tokenizer.encode("", wrap=True)
    front = [start] if start is not None else wrap[: len(wrap) // 2]
    back = wrap[len(wrap) // 2 :]
    whole = len(front) + 2 * length + len(back)
    if len(words) < length or whole > model.config.context:
        given = f"{model.name} has {len(words)} words of one token and a context of {model.config.context}"
        raise TextError(f"{given}, too few for sequences of {length} tokens twice", expected="shorter sequences: --set length=N")
    once = np.stack([rng.permutation(words)[:length] for _ in range(count)])
    ids = [[*front, *row, *row, *back] for row in once.tolist()]
    queries = np.arange(len(front) + length + 1, len(front) + 2 * length)
    found = neighbours(model, queries, whole) | {"duplicate": (queries, queries - length)}
    if model.config.causal:
        found["induction"] = (queries, queries - length + 1)
    return Reading(torch.tensor(ids, device=model.device), found)


def written(model: Model, text: str) -> Reading:
    """An ordinary text. `duplicate` is the nearest other place of the same token, earlier of two; `induction` the one after it."""
    pieces = model.pieces(text)
    ids = [piece.id for piece in pieces]
    words = np.array([n for n, piece in enumerate(pieces) if n and piece.span[0] < piece.span[1]])
    others = [(n, [m for m in range(len(ids)) if ids[m] == ids[n] and (m < n if model.config.causal else m != n)]) for n in words.tolist()]
    pairs = [(n, min(places, key=lambda m: (abs(m - n), m))) for n, places in others if places]
    found = neighbours(model, words, len(ids)) | {"duplicate": both(pairs)}
    if model.config.causal:
        found["induction"] = both([(n, m + 1) for n, m in pairs if m + 1 < n])
    return Reading(torch.tensor([ids], device=model.device), found)


def both(pairs: Sequence[tuple[int, int]]) -> Place:
    return np.array([n for n, _ in pairs], dtype=np.int64), np.array([m for _, m in pairs], dtype=np.int64)


def neighbours(model: Model, queries: Ints, tokens: int) -> dict[str, Place]:
    """The token before, and the first of all; of a bidirectional model also the one behind, and the last of all."""
    found = {"previous": (queries, queries - 1), "first": (queries, np.zeros_like(queries))}
    if not model.config.causal:
        inner = queries[queries < tokens - 1]
        found |= {"next": (inner, inner + 1), "last": (inner, np.full_like(inner, tokens - 1))}
    return found


def scores(transformer: Transformer, readings: Sequence[Reading], draws: int, rng: np.random.Generator) -> Scores:
    """Look at every head. A drawn place is any that the query may read; one draw has a place for each query, the same for all heads."""
    kinds = list(dict.fromkeys(kind for reading in readings for kind in reading.places))
    sums: dict[str, Any] = dict.fromkeys(kinds, 0.0)
    chance: dict[str, Any] = dict.fromkeys(kinds, 0.0)
    counts = dict.fromkeys(kinds, 0)
    for reading in readings:
        layers = list(patterns(transformer, reading.ids))
        for kind, (queries, keys) in reading.places.items():
            counts[kind] += len(queries)
            readable = queries + 1 if transformer.config.causal else np.full_like(queries, reading.ids.shape[1])
            drawn = rng.integers(0, readable, size=(draws, len(queries)))
            sums[kind] = sums[kind] + np.stack([layer[:, queries, keys].sum(-1) for layer in layers])
            chance[kind] = chance[kind] + np.stack([layer[:, queries, drawn].sum(-1) for layer in layers])
    return Scores({k: sums[k] / max(1, counts[k]) for k in kinds}, {k: chance[k] / max(1, counts[k]) for k in kinds})


@torch.no_grad()
def patterns(transformer: Transformer, ids: Tensor) -> Iterator[NDArray[np.float64]]:
    """Of each layer the attention pattern (H, T, T), the mean over the texts."""
    found: list[NDArray[np.float64]] = []

    def see(name: str, x: Tensor) -> Tensor:
        if name.endswith("attn.pattern"):
            found.append(x.double().mean(dim=0).numpy(force=True))
        return x

    transformer(ids, tap=Tap(see))
    yield from found
