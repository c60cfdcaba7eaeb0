"""Attribution: who contributed to an answer? The answer is one number, logit(first) − logit(second) at one place, in nats.

    direct       what each head, MLP, embedding and bias wrote into the stream, as the head reads it; pre-norm models alone (`direct`)
    ablation     what the answer loses when a head or an MLP writes nothing (`perturb`)
    occlusion    what it loses when a token is hidden (`perturb`)
    gradient     gradient × input, of each token's embedding (`gradients`)
    integrated   the gradient along the way from nothing said to what is said (`gradients`)

They answer different questions and need not agree. All run through the eager kernel under the edits in force.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cutaway.core.tap import See, Tap
from cutaway.errors import CutawayError, ModelError
from cutaway.progress import Progress, silent
from cutaway.text.tokenizer import named
from cutaway.trace.edit import editing
from cutaway.trace.odds import LogOdds, Word, single

if TYPE_CHECKING:
    from cutaway.model import Model

TOKENS = 2048  # of one batch of rows


@dataclass(frozen=True)
class Term:
    """One contribution in nats; positive speaks for the first answer. Heads, layers and positions count from 0."""

    name: str
    value: float
    layer: int | None = None
    head: int | None = None
    position: int | None = None


@dataclass(frozen=True)
class Attribution:
    """Who contributed. `whole` is logit(first) − logit(second) at `position`; `left` is what the terms leave of what they should add up to.

    how: what was done, in words.
    """

    method: str
    how: str
    text: str
    tokens: tuple[str, ...]
    position: int
    first: str
    second: str
    whole: float
    left: float | None
    terms: tuple[Term, ...]
    edits: tuple[str, ...]
    notes: tuple[str, ...]
    facts: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.attribution(self)


@dataclass(frozen=True)
class Answer:
    """The number that is attributed: logit `first` − logit `second` at place `at` of ids (1, T)."""

    model: "Model"
    text: str
    ids: Tensor
    at: int
    first: int
    second: int
    progress: Progress = silent

    def of(self, logits: Tensor) -> Tensor:
        """(B) of logits (B, T, V)."""
        return logits[:, self.at, self.first] - logits[:, self.at, self.second]

    def rows(self, count: int, see: Callable[[slice], See]) -> Tensor:
        """The number (count) for as many copies of the text; `see(rows)` looks at those of one batch, beneath the edits in force.

        Without gradients. All batches have one shape, the last filled up with copies, so that no row differs by a kernel's rounding.
        """
        size = max(1, min(count, TOKENS // self.ids.shape[1]))
        found = []
        with torch.no_grad():
            for start in range(0, count, size):
                self.progress("copies of the text", start, count)
                tap = Tap(editing(self.model.edits, see(slice(start, start + size))))
                found.append(self.of(self.model.transformer(self.ids.expand(size, -1), tap=tap)))
        return torch.cat(found)[:count].float()


def attribute(
    model: "Model",
    text: str,
    first: Word,
    second: Word | None = None,
    *,
    method: str = "direct",
    position: int | None = None,
    progress: Progress = silent,
) -> Attribution:
    """Who contributed to logit(first) − logit(second)?

    Words are of one piece; `second` is the likeliest other token if it is not given. position: where the answer is read; default: the
    only mask, else the last position. Raises ModelError for a model that the method does not fit, TextError for words and places.
    """
    from cutaway.trace import direct, gradients, perturb

    methods = {
        "direct": direct.direct,
        "ablation": perturb.ablation,
        "occlusion": perturb.occlusion,
        "gradient": gradients.gradient,
        "integrated": gradients.integrated,
    }
    if method not in methods:
        raise CutawayError(f"There is no method {method!r}", expected=f"one of {', '.join(methods)}")
    if model.config.head not in ("lm", "mlm"):
        given = f"{model.name} has no head that predicts words ({model.config.head}), so there is no answer to attribute"
        raise ModelError(given, expected="a model with a language-model or masked-word head, nano-gpt2 or nano-roberta for instance")
    answer = replace(asked(model, text, first, second, position), progress=progress)
    return methods[method](answer)


def asked(model: "Model", text: str, first: Word, second: Word | None, position: int | None) -> Answer:
    ids, lengths, _ = model.batch([text])
    for group in model.edits:
        group.require_one_length(lengths.tolist())
    if second is None:
        place = LogOdds(first, [0], position).place(model, ids[0].tolist())
        one = single(model, first)
        likely = model.logits(ids)[0, place].topk(2).indices.tolist()
        return Answer(model, text, ids, place, one, next(n for n in likely if n != one))
    odds = LogOdds(first, second, position)
    one, two = single(model, first), single(model, second)
    odds.ids(model)
    return Answer(model, text, ids, odds.place(model, ids[0].tolist()), one, two)


def result(
    answer: Answer, method: str, how: str, whole: float, terms: list[Term], adds_to: float | None = None, notes: Sequence[str] = ()
) -> Attribution:
    """adds_to: what the terms should add up to, if to anything."""
    model = answer.model
    first, second = (named(model.tokenizer, n)[1] for n in (answer.first, answer.second))
    left = None if adds_to is None else adds_to - sum(term.value for term in terms)
    tokens = tuple(piece.text for piece in model.pieces(answer.text))
    facts = model.facts() | {"kernel": "eager"}
    return Attribution(
        method, how, answer.text, tokens, answer.at, first, second, whole, left, tuple(terms), model.listed_edits,
        (*model.notes_on(answer.text), *notes), facts,
    )  # fmt: skip


def token_terms(answer: Answer, values: Tensor) -> list[Term]:
    """A term a token, of values (T)."""
    pieces = answer.model.pieces(answer.text)
    return [Term(piece.text, value, position=n) for n, (piece, value) in enumerate(zip(pieces, values.tolist(), strict=True))]
