"""Chapter 3: what is read of each twin, the places that all twins have, and what the residual stream holds there.

A language model reads the sentence and " The", which the meant noun has to follow. A masked-word model reads the sentence
for the probes; for patching it is asked with a mask in the pronoun's place: "because the<mask> was too big."
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cutaway.core.tap import Tap
from cutaway.lab.experiment import Run
from cutaway.lab.probe import Numbers
from cutaway.model import Model, pad
from cutaway.text.spans import find_word, pieces_of
from cutaway.trace.odds import LogOdds
from cutaway.trace.patch import patch_sweep
from cutaway.worlds import Twin, twin_set
from cutaway.worlds.twins import REVEAL

PLACES = ("first noun", "second noun", "because", "pronoun", "deciding word", "stop", "answer")  # the last of a language model alone
MASK = "<mask>"
LEAST = 1.0  # nats between the answers to the two sentences, below which a pair is left out


def drawn(run: Run, tier: str, count: int) -> list[Twin]:
    """Some twins of a test set, in its order."""
    twins = twin_set(tier)
    return [twins[n] for n in sorted(run.rng(f"twins {tier}").permutation(len(twins))[:count])]


def read(model: Model, twin: Twin, sentence: str, *, masked: bool = False) -> str:
    if model.config.head == "lm":
        return sentence + REVEAL
    return sentence.replace(f" {twin.pronoun} was", f" the{MASK} was", 1) if masked else sentence


def places(model: Model, twin: Twin, *, masked: bool = False) -> dict[str, int]:
    """Where each place is among the tokens; of a word of several pieces the last, which has read them all."""
    a, b = (read(model, twin, sentence, masked=masked) for sentence in (twin.a, twin.b))
    pieces, other = model.pieces(a), model.pieces(b)
    stop = a.rindex(".")
    asked = a.index(MASK) if MASK in a else None
    found = {
        "first noun": find_word(a, pieces, twin.nouns[0])[-1],
        "second noun": find_word(a, pieces, twin.nouns[1])[-1],
        **({"because": find_word(a, pieces, "because")[-1]} if " because " in a else {}),  # not in the early twins
        "pronoun": find_word(a, pieces, twin.pronoun)[-1] if asked is None else pieces_of(pieces, asked, asked + 1)[-1],
        "deciding word": next(n for n, (x, y) in enumerate(zip(pieces, other, strict=False)) if x.id != y.id),
        "stop": pieces_of(pieces, stop, stop + 1)[-1],
    }
    return found | ({"answer": len(pieces) - 1} if a.endswith(REVEAL) else {})


def stream(model: Model) -> list[str]:
    """The taps of the residual stream, from the embedding (depth 0) to what the last block leaves: one more than blocks."""
    last = model.config.layers - 1
    left = f"blocks.{last}.{'resid_post' if model.config.norm_first else 'ln2'}"
    return [f"blocks.{layer}.resid_pre" for layer in range(last + 1)] + [left]


@torch.no_grad()
def held(model: Model, twins: Sequence[Twin]) -> dict[str, Numbers]:
    """What the stream holds at each place (depths, N, 2, D), for both sentences of each twin.

    All first sentences run in one batch and all second ones in another of the same shape, so that what cannot differ is
    bit-equal.
    """
    texts = [read(model, twin, twin.a) for twin in twins] + [read(model, twin, twin.b) for twin in twins]
    ids, lengths = pad([[piece.id for piece in model.pieces(text)] for text in texts])
    count = len(twins)
    sides = [stream_of(model, ids[part], lengths[part]) for part in (slice(count), slice(count, None))]  # (depths, N, T, D) each
    where = [places(model, twin) for twin in twins]
    found = {}
    for place in where[0]:
        at = torch.tensor([one[place] for one in where])
        found[place] = torch.stack([side[:, torch.arange(count), at] for side in sides], dim=2).double().numpy()
    return found


def stream_of(model: Model, ids: Tensor, lengths: Tensor) -> Tensor:
    taps: dict[str, Tensor] = dict.fromkeys(stream(model), torch.empty(0))

    def keep(name: str, x: Tensor) -> Tensor:
        if name in taps:
            taps[name] = x
        return x

    model.transformer(ids.to(model.device), lengths=lengths.to(model.device), tap=Tap(keep))
    return torch.stack(list(taps.values())).cpu()


def patched(model: Model, twin: Twin) -> dict[str, Any]:
    """Patch each depth at each place from the twin, both ways, and from the neutral twin; empty if the two answers are too close."""
    where = places(model, twin, masked=True)
    a, b, neutral = (read(model, twin, text, masked=True) for text in (twin.a, twin.b, twin.neutral))
    found = patch_sweep(model, a, b, stream(model), LogOdds(*twin.nouns), positions=list(where.values()), neutral=neutral, least=LEAST)
    return {"places": list(where), **found.pairs[0].to_dict()} if found.pairs else {}
