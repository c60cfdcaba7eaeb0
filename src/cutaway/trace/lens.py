"""The lens: what the model's own remaining head reads in the residual stream, floor by floor.

The head is what stands behind the last block, unchanged: the final norm where there is one, then the head. So the last floor is the
model's own answer, and what is read higher up is readable by that head; it says nothing of what the model has settled.
nostalgebraist 2020, "interpreting GPT: the logit lens".

Beside each floor stands a control: the same head with its rows shuffled, several times. What it reads of an answer is what any token
would get.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median_low
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cutaway.core.tap import untapped
from cutaway.errors import EditError, ModelError, TextError
from cutaway.text.spans import find_word
from cutaway.text.tokenizer import named
from cutaway.trace.lazy import stage_of
from cutaway.trace.odds import MASKS, single

if TYPE_CHECKING:
    from cutaway.model import Model
    from cutaway.text.tokenizer import Piece

SHUFFLES = 20
HEADS = {"lm": "language-model head", "mlm": "masked-word head"}


@dataclass(frozen=True)
class Readable:
    """A token that the head reads: its id, its text, its probability from 0 to 1."""

    id: int
    text: str
    probability: float


@dataclass(frozen=True)
class Reading:
    """What a head reads of the answer: its rank (1 is the likeliest), its probability, and KL(last floor ‖ this one) in nats."""

    rank: int
    probability: float
    kl: float


@dataclass(frozen=True)
class Floor:
    """One floor: "embed", what enters the first block, or the block whose outcome this is. `top`: the likeliest first.

    shuffled: the control, over SHUFFLES shuffles: the middle rank, the mean probability and the mean KL.
    """

    name: str
    top: tuple[Readable, ...]
    answer: Reading
    shuffled: Reading


@dataclass(frozen=True)
class Column:
    """One position. copying: a masked-word head is read where no mask stands, so it has but to copy what it was shown."""

    position: int
    token: str
    answer: Readable  # as the last floor has it
    copying: bool
    floors: tuple[Floor, ...]


@dataclass(frozen=True)
class Lens:
    """Some positions of a text, read at every floor."""

    text: str
    tokens: tuple[str, ...]
    head: str
    columns: tuple[Column, ...]
    shuffles: int  # of the control
    seed: int  # of them
    edits: tuple[str, ...]
    notes: tuple[str, ...]
    facts: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.lens(self)


@torch.no_grad()
def lens(
    model: "Model",
    text: str,
    *,
    positions: int | str | Sequence[int] | None = None,
    answer: str | int | None = None,
    k: int = 5,
    seed: int = 1,
) -> Lens:
    """Read the stream at `positions`: numbers, or a word's last piece; default: a causal model's last position, else its masks.

    answer: a word of one piece, or an id; default: what the model itself says there. Raises ModelError for a model without a head that
    predicts words, TextError for a place, word or k that is not there, EditError if an edit lies behind the blocks.
    """
    require_readable(model)
    if k < 1:
        raise TextError(f"k is {k}", expected="at least 1")
    trace = model.trace(text)
    pieces = trace.pieces[0]
    streams = [*(trace.whole(f"blocks.{n}.resid_pre")[0] for n in range(model.config.layers)), trace.taps.entering[-1][0]]
    chosen = places(model, text, pieces, positions)
    wanted = None if answer is None else single(model, answer)
    draw = torch.Generator().manual_seed(seed)
    shuffles = [torch.randperm(model.config.vocab_size, generator=draw).to(model.device) for _ in range(SHUFFLES)]
    masks = masked(model, pieces)
    columns = []
    for at in chosen:
        logits = model.transformer.end(torch.stack([x[at] for x in streams])[:, None], untapped)[:, 0]  # (F, V)
        nats = logits.float().log_softmax(dim=-1)
        id_ = int(nats[-1].argmax()) if wanted is None else wanted
        floors = tuple(floor(model, name, nats[n], nats[-1], id_, shuffles, k) for n, name in enumerate(names(model)))
        copying = model.config.head == "mlm" and at not in masks
        columns.append(Column(at, pieces[at].text, readable(model, nats[-1], id_), copying, floors))
    tokens = tuple(piece.text for piece in pieces)
    facts = model.facts() | {"kernel": "eager"}
    return Lens(text, tokens, HEADS[model.config.head], tuple(columns), SHUFFLES, seed, model.listed_edits, model.notes_on(text), facts)


def require_readable(model: "Model") -> None:
    """Raise ModelError without a head that predicts words, EditError under an edit behind the blocks."""
    if model.config.head not in HEADS:
        given = f"{model.name} has no head that predicts words ({model.config.head}), so its stream cannot be read as words"
        raise ModelError(given, expected="a model with a language-model or masked-word head, nano-gpt2 or nano-roberta for instance")
    for name in (tap for group in model.edits for tap in group.changes):
        if stage_of(name) == "end":
            raise EditError(f"An edit of {name} is in force, and the lens reads every floor through it", then="take that edit away")


def names(model: "Model") -> list[str]:
    return ["embed", *(f"block {n}" for n in range(model.config.layers))]


def floor(model: "Model", name: str, nats: Tensor, last: Tensor, answer: int, shuffles: Sequence[Tensor], k: int) -> Floor:
    """nats (V): the floor's log-probabilities; last (V): the last floor's; shuffles, each (V): the control's orders of the head's rows."""
    top = tuple(readable(model, nats, int(n)) for n in nats.topk(min(k, len(nats))).indices)
    drawn = [reading(nats[shuffle], last, answer) for shuffle in shuffles]
    control = Reading(median_low(one.rank for one in drawn), fmean(one.probability for one in drawn), fmean(one.kl for one in drawn))
    return Floor(name, top, reading(nats, last, answer), control)


def reading(nats: Tensor, last: Tensor, answer: int) -> Reading:
    kl = (last.exp() * (last - nats)).sum()
    return Reading(1 + int((nats > nats[answer]).sum()), nats[answer].exp().item(), kl.item())


def readable(model: "Model", nats: Tensor, number: int) -> Readable:
    return Readable(number, named(model.tokenizer, number)[1], nats[number].exp().item())


def masked_id(model: "Model") -> int | None:
    """The id of the mask, if the model has one."""
    return next((model.tokenizer.specials[name] for name in MASKS if name in model.tokenizer.specials), None)


def masked(model: "Model", pieces: Sequence["Piece"]) -> list[int]:
    return [n for n, piece in enumerate(pieces) if piece.id == masked_id(model)]


def places(model: "Model", text: str, pieces: Sequence["Piece"], positions: int | str | Sequence[int] | None) -> list[int]:
    if isinstance(positions, str):
        return [find_word(text, pieces, positions)[-1]]
    if positions is None:
        if model.config.head == "lm":
            return [len(pieces) - 1]
        if not (found := masked(model, pieces)):
            then = "put the mask where a word is sought, or name a position; there the head has but to copy"
            raise TextError(f"The text has no {MASKS[0]} or {MASKS[1]}: {text!r}", then=then)
        return found
    asked = [positions] if isinstance(positions, int) else list(positions)
    for place in asked:
        if not -len(pieces) <= place < len(pieces):
            raise TextError(f"position {place}", expected=f"0 to {len(pieces) - 1}")
    return [place % len(pieces) for place in asked]
