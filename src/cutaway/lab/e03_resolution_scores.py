"""How likely is a sentence with a candidate in its pronoun's place? Four scores, each a sum of log-probabilities in nats.

A language model's (Trinh & Le 2018, "A Simple Method for Commonsense Reasoning", section 3.1):
    full      of every token of the sentence, given those before it; the first is given, not scored, where nothing stands before it
    partial   of the tokens behind the candidate alone
A masked-word model's:
    fill      of the candidate's tokens, all of them masked, one mask each
    pll       of every token, masked alone (Salazar et al. 2020, "Masked Language Model Scoring", equation 1)

Each comes with the number of tokens that it sums, for the mean a token. Not here: which candidate that makes the answer.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from cutaway.lab.winograd import Item
from cutaway.model import Model
from cutaway.text.spans import pieces_of
from cutaway.text.tokenizer import Piece
from cutaway.trace.odds import MASKS

ELEMENTS = 2**26  # logits in one run, so that a large vocabulary fits into memory

Score = tuple[float, int]  # nats, tokens
Scores = dict[str, list[Score]]  # by method, one a candidate


def scores(model: Model, item: Item, *, whole: bool = True) -> Scores:
    """Of each candidate. `whole=False` ends the sentence with the candidate, so that nothing behind it can decide.

    Raises TextError for a sentence that does not fit the model's context.
    """
    words = [item.spelt(candidate) for candidate in item.candidates]
    texts = [item.before + word + item.after * whole for word in words]
    start = len(item.before)
    spans = [(start, start + len(word)) for word in words]
    found = spoken(model, texts, spans) if model.config.head == "lm" else masked(model, texts, spans)
    return found if whole else {method: each for method, each in found.items() if method != "partial"}


def spoken(model: Model, texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> Scores:
    ids, lengths, pieces = model.batch(texts)
    every = model.logits(ids, lengths)[:, :-1].float().log_softmax(dim=-1).gather(2, ids[:, 1:, None])[..., 0]  # (B, T - 1)
    found: Scores = {"full": [], "partial": []}
    for row, piece, (_, end) in zip(every, pieces, spans, strict=True):
        scored = [n for n in real(piece) if n > 0]
        behind = [n for n in scored if piece[n].span[0] >= end]
        for method, places in (("full", scored), ("partial", behind)):
            found[method].append((float(row[[n - 1 for n in places]].sum()), len(places)))
    return found


def masked(model: Model, texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> Scores:
    found: Scores = {"fill": [], "pll": []}
    for text, span in zip(texts, spans, strict=True):
        pieces = model.pieces(text)
        candidate, every = pieces_of(pieces, *span), real(pieces)
        answers = hidden(model, [piece.id for piece in pieces], [candidate, *([n] for n in every)])
        found["fill"].append((float(answers[0].sum()), len(candidate)))
        found["pll"].append((float(torch.cat(answers[1:]).sum()), len(every)))
    return found


def hidden(model: Model, ids: Sequence[int], groups: Sequence[Sequence[int]]) -> list[Tensor]:
    """log p of the tokens of each group of places, where just these are masked."""
    mask = next(model.tokenizer.specials[name] for name in MASKS if name in model.tokenizer.specials)
    rows = torch.tensor([ids]).repeat(len(groups), 1)
    for row, places in zip(rows, groups, strict=True):
        row[list(places)] = mask
    at_once = max(1, ELEMENTS // (len(ids) * model.config.vocab_size))
    found: list[Tensor] = []
    for start in range(0, len(groups), at_once):
        logits = model.logits(rows[start : start + at_once].to(model.device))  # (B, T, V)
        for row, places in zip(logits, groups[start : start + at_once], strict=True):
            at = row[list(places)].float().log_softmax(dim=-1)
            found.append(at.gather(1, torch.tensor([[ids[n]] for n in places], device=at.device))[:, 0])
    return found


def real(pieces: Sequence[Piece]) -> list[int]:
    """The places of the text's own tokens: not of those that the format puts around it."""
    return [n for n, piece in enumerate(pieces) if piece.span[0] < piece.span[1]]


def credit(values: Sequence[float], answer: int) -> float:
    """1 if the right candidate has the highest value, 0 if another has; of those that tie for it, each is credited its share.

    >>> credit([0.5, 0.5], answer=1), credit([0.2, 0.5], answer=1), credit([0.5, 0.2, 0.1], answer=1)
    (0.5, 1.0, 0.0)
    """
    highest = max(values)
    return (values[answer] == highest) / list(values).count(highest)
