"""What is asked of a model's answer: which of two words does it prefer, and by how much?

The measure is log p(first) − log p(second) at one place, in nats: 0 is no preference, and one unit is the same everywhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cutaway.errors import TextError
from cutaway.text.tokenizer import named

if TYPE_CHECKING:
    from cutaway.model import Model

Word = str | int | Sequence[int]
MASKS = ("<mask>", "[MASK]")


@dataclass(frozen=True)
class LogOdds:
    """log p(first) − log p(second) at position `at`.

    A word is text, as it stands within a sentence, or its ids. Without `at` it is read at the text's only mask, or else
    at its last position, which predicts what comes next.
    """

    first: Word
    second: Word
    at: int | None = None

    def ids(self, model: "Model") -> tuple[Tensor, Tensor]:
        """Both words as ids (1, N). Raises TextError for no word, the same word twice, or several pieces where one is masked."""
        first, second = (spelling(model, word) for word in (self.first, self.second))
        if not model.config.causal and max(first.shape[1], second.shape[1]) > 1:
            given = f"{self.first!r} and {self.second!r} are {first.shape[1]} and {second.shape[1]} pieces to {model.name}"
            raise TextError(given, expected="words of one piece each, since one mask stands for one piece")
        if torch.equal(first, second):
            raise TextError(f"{self.first!r} and {self.second!r} are the same to {model.name}", expected="two words")
        return first, second

    def place(self, model: "Model", ids: Sequence[int]) -> int:
        """Where in these ids the answer is read. Raises TextError for a place that is not there, or several masks."""
        if self.at is not None:
            if not -len(ids) <= self.at < len(ids):
                raise TextError(f"The answer is to be read at position {self.at}", expected=f"0 to {len(ids) - 1}")
            return self.at % len(ids)
        if model.config.head != "mlm":
            return len(ids) - 1
        masks = {number for name, number in model.tokenizer.specials.items() if name in MASKS}
        places = [place for place, one in enumerate(ids) if one in masks]
        if len(places) != 1:
            raise TextError(f"The text has {len(places)} masks", expected="one", then="or say where to read: LogOdds(…, at=POSITION)")
        return places[0]


def spelling(model: "Model", word: Word) -> Tensor:
    """ids (1, N) of a word within a text, or the ids given."""
    if isinstance(word, str):
        ids = model.tokenizer.encode(f" {word.strip()}") if word.strip() else []
    else:
        ids = [word] if isinstance(word, int) else list(word)
    if not ids or not all(0 <= one < model.config.vocab_size for one in ids):
        raise TextError(f"{word!r} is no word to {model.name}", expected=f"a word, or ids from 0 to {model.config.vocab_size - 1}")
    return torch.tensor([ids], device=model.device)


def single(model: "Model", word: Word) -> int:
    """The id of a word that is one piece. Raises TextError for several."""
    ids = spelling(model, word)[0].tolist()
    if len(ids) > 1:
        shown = ", ".join(repr(named(model.tokenizer, n)[1]) for n in ids)
        raise TextError(f"{word!r} is {len(ids)} pieces to {model.name}: {shown}", expected="a word of one piece, or one piece's id")
    return int(ids[0])


def log_odds(run: Callable[[Tensor], Tensor], ids: Tensor, first: Tensor, second: Tensor, at: int | None = None) -> Tensor:
    """log p(first) − log p(second) (B) in ids (B, T), for words of one or several pieces (B or 1, N).

    `run` makes logits of ids. They are read at position `at`, without which the words are what comes next. A word's later
    pieces are read behind its earlier ones, so such a word has to come next: raises TextError elsewhere.
    """
    last = ids.shape[1] - 1
    at = last if at is None else at
    if at != last and max(first.shape[1], second.shape[1]) > 1:
        raise TextError(f"A word of several pieces cannot be read at position {at} of {last + 1}", expected="words of one piece there")

    def logits(word: Tensor) -> Tensor:
        return run(torch.cat([ids, word[:, :-1].expand(len(ids), -1)], dim=1))

    def spoken(logits: Tensor, word: Tensor) -> Tensor:
        at_word = logits[:, at : at + word.shape[1]].float().log_softmax(dim=-1)  # (B, N, V)
        return at_word.gather(2, word.expand(len(ids), -1)[..., None]).sum(dim=(1, 2))

    one = logits(first)
    two = one if first.shape[1] == second.shape[1] == 1 else logits(second)  # a single piece is predicted at the same place
    return spoken(one, first) - spoken(two, second)
