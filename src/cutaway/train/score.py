"""How well a model knows the micro-world: of each twin's two sentences, does it prefer the right noun in what reveals it?"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cutaway.text.tokenizer import Tokenizer
from cutaway.train.loop import Learner
from cutaway.worlds import Twin
from cutaway.worlds.twins import REVEAL


@dataclass(frozen=True)
class Score:
    """Shares of n twins: `sentences` right out of 2n, and `twins` with both right; `margins` (n, 2) are log odds of the right noun."""

    n: int
    sentences: float
    twins: float
    margins: Tensor

    def to_dict(self) -> dict[str, float]:
        return {"n": self.n, "sentences": self.sentences, "twins": self.twins}


def score(model: Learner, tokenizer: Tokenizer, twins: Sequence[Twin]) -> Score:
    """Ask each sentence's revealing continuation: next token of a causal model, the masked word of a bidirectional one."""
    asked = [(text, rest, means) for t in twins for text, rest, means in zip((t.a, t.b), t.rest, t.means, strict=True)]
    rows = [question(tokenizer, text, rest, model.config.head) for text, rest, _ in asked]
    nouns = torch.tensor([[tokenizer.pieces(f"The {noun}")[1].id for noun in twin.nouns] for twin in doubled(twins)])  # (2n, 2)
    logits = logits_at(model, rows)  # (2n, V)
    both = logits.gather(1, nouns)  # (2n, 2)
    means = torch.tensor([means for _, _, means in asked])[:, None]
    margins = (both.gather(1, means) - both.gather(1, 1 - means)).view(-1, 2)
    right = margins > 0
    return Score(len(twins), right.float().mean().item(), right.all(dim=1).float().mean().item(), margins)


def doubled(twins: Sequence[Twin]) -> list[Twin]:
    return [twin for twin in twins for _ in range(2)]


def question(tokenizer: Tokenizer, text: str, rest: str, head: str) -> tuple[list[int], int]:
    """The ids to read, and the place among them whose logits answer."""
    if head == "mlm":
        ids = tokenizer.encode(f"{text}{REVEAL}<mask>{rest}", wrap=True, allow_special=True)
        return ids, ids.index(tokenizer.specials["<mask>"])
    ids = tokenizer.encode(text + REVEAL)
    return ids, len(ids) - 1


@torch.no_grad()
def logits_at(model: Learner, rows: Sequence[tuple[list[int], int]], batch: int = 128) -> Tensor:
    """Logits (n, V) of each row at its place; rows of like length run together."""
    order = sorted(range(len(rows)), key=lambda n: len(rows[n][0]))
    answers: dict[int, Tensor] = {}
    for start in range(0, len(order), batch):
        part = order[start : start + batch]
        lengths = torch.tensor([len(rows[n][0]) for n in part])
        ids = torch.zeros(len(part), int(lengths.max()), dtype=torch.long)
        for row, n in enumerate(part):
            ids[row, : lengths[row]] = torch.tensor(rows[n][0])
        logits = model(ids, lengths=lengths)
        answers.update((n, logits[row, rows[n][1]]) for row, n in enumerate(part))
    return torch.stack([answers[n] for n in range(len(rows))])
