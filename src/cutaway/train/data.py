"""Passages become batches: each passage a row of its own, rows of like length together, padded on the right.

No row holds two passages, so nothing has to be masked between them, and every position counts from its passage's start.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from cutaway.text.tokenizer import Tokenizer
from cutaway.worlds import Passage

POOL = 4096  # passages that are sorted by length and dealt out together

Encoded = tuple[list[int], list[int]]  # ids; the places among them of the nouns that give the answer


@dataclass(frozen=True)
class Batch:
    """ids (B, T), padded on the right; lengths (B); answers (B, T), true at the nouns that give the answer."""

    ids: Tensor
    lengths: Tensor
    answers: Tensor


def encode(passage: Passage, tokenizer: Tokenizer) -> Encoded:
    """A passage's ids, wrapped as the model's format wants it and closed by its end-of-text token, and the places of its answers.

    The answers are the last mentions of one noun, which is a single piece.
    """
    ids = tokenizer.encode(passage.text, wrap=True)
    start, stop = passage.answers[0]
    (noun,) = tokenizer.encode(passage.text[start - 1 : stop])  # with its leading blank
    places = [place for place, piece in enumerate(ids) if piece == noun]
    end = tokenizer.specials.get("<|endoftext|>")
    return ids + ([end] if end is not None else []), places[-len(passage.answers) :]


def batches(
    pools: Callable[[int], Iterator[Passage]],
    encoder: Callable[[Passage], Encoded],
    *,
    tokens: int,
    pad: int,
    start: int = 0,
) -> Iterator[Batch]:
    """Batches of about `tokens` tokens without end, from number `start` on.

    `pools(n)` gives the passages of pool n, the same each time; a pool is sorted by length and dealt out together.
    """
    for pool in itertools.count():
        drawn = [encoder(passage) for passage in itertools.islice(pools(pool), POOL)]
        dealt = deal(drawn, tokens, random.Random(pool))
        for rows in dealt[start:]:
            yield collate(rows, pad)
        start = max(0, start - len(dealt))


def deal(drawn: list[Encoded], tokens: int, rng: random.Random) -> list[list[Encoded]]:
    """Rows of like length together, each group of about `tokens` tokens; the groups in random order."""
    groups: list[list[Encoded]] = [[]]
    for row in sorted(drawn, key=lambda row: len(row[0])):
        if groups[-1] and (len(groups[-1]) + 1) * len(row[0]) > tokens:
            groups.append([])
        groups[-1].append(row)
    rng.shuffle(groups)
    return groups


def collate(rows: list[Encoded], pad: int) -> Batch:
    width = max(len(ids) for ids, _ in rows)
    ids = torch.full((len(rows), width), pad)
    answers = torch.zeros(len(rows), width, dtype=torch.bool)
    for n, (row, at) in enumerate(rows):
        ids[n, : len(row)] = torch.tensor(row)
        answers[n, at] = True
    return Batch(ids, torch.tensor([len(row) for row, _ in rows]), answers)
