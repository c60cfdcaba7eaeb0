"""Each tensor of a file is used once, and each parameter of a model is set once; anything else is an error that names both.

Tensors are renamed, transposed and split, and their rows put in another order. They are never folded, centred, added to,
or filled in.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from cutaway.errors import WeightsError
from cutaway.weights.names import Rule, Unused, find, plain, why_unused

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Loaded:
    """Parameters by our names, in the file's precision, most of them views of the file; and what of the file was not needed."""

    parameters: dict[str, Tensor]
    unused: dict[str, str]  # the file's name: why it is not needed


def assign(
    tensors: Mapping[str, Tensor],
    rules: Sequence[Rule],
    wanted: Mapping[str, Shape],
    ignore: Sequence[Unused] = (),
    source: str = "the weights",
) -> Loaded:
    """The parameters `wanted`, by name and shape, out of a file's tensors.

    Several tensors may mean one parameter (an output matrix that is the token embedding, written under both names): then
    they must be equal. Raises WeightsError, naming every tensor left over, every parameter not set, every shape that differs.
    """
    book = _Book(wanted, source)
    by_name = {rule.theirs: rule for rule in rules}

    def dims(name: str) -> int:
        return tensors[name].ndim

    for name in tensors:
        short = plain(name)
        if (hit := find(short, by_name)) and wanted.keys() >= {*hit[0]}:
            book.enter(name, tensors[name], *hit)
        elif why := why_unused(short, ignore, partial(dims, name)):
            book.unused[name] = why
        else:
            book.extra.append(name)
    return book.close()


@dataclass
class _Book:
    """What has been assigned so far, and what went wrong."""

    wanted: Mapping[str, Shape]
    source: str
    unused: dict[str, str] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # shapes, in words
    parameters: dict[str, Tensor] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)  # our name: theirs

    def enter(self, name: str, tensor: Tensor, ours: tuple[str, ...], rule: Rule) -> None:
        expected = _their_shape([self.wanted[our] for our in ours], rule)
        if tuple(tensor.shape) != expected:
            self.wrong.append(f"{name} is {tuple(tensor.shape)}, and {' + '.join(ours)} would need {expected}")
            self.origin.update(dict.fromkeys(ours, name))
            return
        whole = _turned(tensor, rule)
        parts = whole.split([self.wanted[our][0] for our in ours]) if len(ours) > 1 else [whole]
        for our, part in zip(ours, parts, strict=True):
            if our in self.parameters and not _equal(self.parameters[our], part):
                raise _differ(self.source, self.origin[our], name, our)
            self.parameters.setdefault(our, part)
            self.origin.setdefault(our, name)

    def close(self) -> Loaded:
        missing = [our for our in self.wanted if our not in self.origin]
        problems = [
            missing and f"no tensor for {_listed(missing)}",
            self.extra and f"nowhere to put {_listed(self.extra)}",
            self.wrong and _listed(self.wrong, "; "),
        ]
        if any(problems):
            raise WeightsError(
                f"{self.source} does not fit its configuration: " + "; ".join(problem for problem in problems if problem),
                expected="each tensor used once, and each parameter set once",
                then="check that config.json and the weights belong together",
            )
        return Loaded(self.parameters, self.unused)


def _their_shape(ours: Sequence[Shape], rule: Rule) -> Shape:
    shape = (sum(our[0] for our in ours), *ours[0][1:])
    return (1,) * rule.convolution + (shape[::-1] if rule.transpose else shape)


def _turned(tensor: Tensor, rule: Rule) -> Tensor:
    """Their tensor in our layout: a view, unless rows change places."""
    tensor = tensor[0] if rule.convolution else tensor
    tensor = tensor.t() if rule.transpose else tensor
    return tensor.unflatten(0, (-1, rule.pairs // 2, 2)).transpose(1, 2).flatten(0, 2) if rule.pairs else tensor


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a, b)


def _differ(source: str, first: str, second: str, ours: str) -> WeightsError:
    return WeightsError(
        f"{source}: {first} and {second} both mean {ours}, and differ",
        expected="equal tensors",
        then="if they are meant to be two matrices, set tie_word_embeddings to false in config.json" if ours.endswith(".weight") else "",
    )


def _listed(names: Iterable[str], separator: str = ", ", limit: int = 12) -> str:
    names = list(names)
    more = [f"and {len(names) - limit} more"] if len(names) > limit else []
    return separator.join(names[:limit] + more)
