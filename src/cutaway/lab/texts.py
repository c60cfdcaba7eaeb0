"""What experiments give a model to read: passages of the micro-world, and which of their tokens it is asked for."""

from itertools import islice

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cutaway.errors import TextError
from cutaway.lab.experiment import Run
from cutaway.model import Model
from cutaway.trace.odds import MASKS
from cutaway.train.objectives import IGNORE
from cutaway.worlds import passages

Asked = tuple[Tensor, Tensor]  # ids (B, T) to read; labels (B, T), IGNORE where nothing is asked

HIDDEN = 0.15  # the share of a text's tokens that a masked-word model is asked for
TRIED = 50  # passages for each that is wanted
ROWS = 4  # times that it is asked, for other tokens each time


def drawn(run: Run, model: Model, count: int) -> list[str]:
    """Passages of the micro-world that fit the model's context. Raises TextError if hardly any does."""
    every = (passage.text for passage in islice(passages(int(run.rng("texts").integers(1 << 31))), TRIED * count))
    fitting = (text for text in every if len(model.tokenizer.pieces(text, wrap=True)) <= model.config.context)
    found = list(islice(fitting, count))
    if len(found) < count:
        given = f"{len(found)} of {TRIED * count} passages fit the context of {model.name}"
        raise TextError(given, expected=f"{count} that are no longer than {model.config.context} tokens")
    return found


def following(ids: Tensor) -> Tensor:
    return torch.cat([ids[:, 1:], torch.full_like(ids[:, :1], IGNORE)], dim=1)


def asked_of(model: Model, text: str, run: Run) -> Asked | None:
    """A language model is asked for each next token, a masked-word model for hidden ones, another for nothing."""
    if model.config.head == "mlm":
        return hidden(model, text, run)
    if model.config.head == "lm":
        ids = torch.tensor([[piece.id for piece in model.pieces(text)]], device=model.device)
        return ids, following(ids)
    return None


def hidden(model: Model, text: str, run: Run) -> Asked:
    """The text several times (R, T), some of its tokens hidden by the mask and asked for: others each time, none that the format added."""
    pieces = model.pieces(text)
    words = [place for place, piece in enumerate(pieces) if piece.span[0] < piece.span[1]]
    dealt = np.array_split(run.rng(f"hidden {text}").permutation(words), round(1 / HIDDEN))[:ROWS]
    ids = torch.tensor([[piece.id for piece in pieces]] * len(dealt), device=model.device)
    labels = torch.full_like(ids, IGNORE)
    for row, chosen in enumerate(dealt):
        labels[row, chosen] = ids[row, chosen]
    mask = next(model.tokenizer.specials[name] for name in MASKS if name in model.tokenizer.specials)
    return torch.where(labels == IGNORE, ids, mask), labels


def loss_of(model: Model, asked: Asked) -> float:
    """Nats a token asked for, of what the model says under the edits in force."""
    ids, labels = asked
    return F.cross_entropy(model.logits(ids).double().flatten(0, 1), labels.flatten(), ignore_index=IGNORE).item()
