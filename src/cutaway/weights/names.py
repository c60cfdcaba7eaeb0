"""One weight has many names: publishers, ages and wrappers each add their own. Rules say which name means which.

Strings only. The tensors are moved by `load`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

# What wraps a model puts its own name in front: torch.compile, DistributedDataParallel, and transformers' heads around a body.
PREFIXES = ("_orig_mod", "module", "model", "transformer", "bert", "roberta")
_PREFIX = re.compile(rf"(?:(?:{'|'.join(PREFIXES)})\.)+")
_NUMBER = re.compile(r"[0-9]+")

# TensorFlow's names for the two, kept by early files. Only as the whole end of a name: `my_gamma_gate` is somebody's weight.
_TENSORFLOW_NORM = re.compile(r"((?:^|\.)LayerNorm\.)(gamma|beta)$")


@dataclass(frozen=True)
class Rule:
    """A tensor of theirs is this parameter of ours, or, cut along its outputs, these parameters.

    `{n}` stands for a layer's number.
    transpose: theirs is stored [in, out].
    convolution: as one of width 1, [1, in, out].
    pairs: the width of a head in which the two numbers that are rotated together stand side by side; ours stand half a head apart.
    """

    theirs: str
    ours: tuple[str, ...]
    transpose: bool = False
    convolution: bool = False
    pairs: int = 0


@dataclass(frozen=True)
class Unused:
    """A tensor that published files hold and the model does not need, and why. `*` stands for anything.

    dims: only with that many dimensions.
    """

    theirs: str
    why: str
    dims: int | None = None


def layer(theirs: str, *ours: str, transpose: bool = False) -> tuple[Rule, Rule]:
    """The weight and the bias of one layer. A bias has nothing to transpose.

    >>> [rule.ours for rule in layer("ln_f", "ln_f")]
    [('ln_f.weight',), ('ln_f.bias',)]
    """
    weight, bias = (tuple(f"{name}.{part}" for name in ours) for part in ("weight", "bias"))
    return Rule(f"{theirs}.weight", weight, transpose), Rule(f"{theirs}.bias", bias)


def plain(name: str) -> str:
    """The name without its wrappers, and with today's word for a norm's parameters.

    >>> plain("module.transformer.h.0.ln_1.weight"), plain("roberta.embeddings.LayerNorm.gamma"), plain("my_gamma_gate")
    ('h.0.ln_1.weight', 'embeddings.LayerNorm.weight', 'my_gamma_gate')
    """
    if prefix := _PREFIX.match(name):
        name = name[prefix.end() :]
    return _TENSORFLOW_NORM.sub(lambda found: found[1] + {"gamma": "weight", "beta": "bias"}[found[2]], name)


def match(pattern: str, name: str) -> str | None:
    """The layer's number, "" where the pattern has none; None if the name is another.

    >>> match("h.{n}.ln_1.weight", "h.11.ln_1.weight"), match("wte.weight", "wte.weight"), match("h.{n}.ln_1.weight", "h.1.ln_2.weight")
    ('11', '', None)
    """
    general, number = generalized(name)
    if general == pattern:
        return number
    return "" if name == pattern or ("*" in pattern and fnmatchcase(name, pattern)) else None


def generalized(name: str) -> tuple[str, str]:
    """The name with {n} for the first number in it, and that number: in every family it is the layer's. 007 is no number.

    >>> generalized("h.11.ln_1.weight"), generalized("wte.weight")
    (('h.{n}.ln_1.weight', '11'), ('wte.weight', ''))
    """
    found = _NUMBER.search(name)
    if found is None or (found[0][0] == "0" and found[0] != "0"):
        return name, ""
    return f"{name[: found.start()]}{{n}}{name[found.end() :]}", found[0]


def find(short: str, rules: Mapping[str, Rule]) -> tuple[tuple[str, ...], Rule] | None:
    """Our names for a tensor, and the rule that says so. `rules` are by their names, `short` is without wrappers."""
    general, number = generalized(short)
    if rule := rules.get(short):
        return rule.ours, rule
    if rule := rules.get(general):
        return tuple(our.replace("{n}", number) for our in rule.ours), rule
    return None


def why_unused(short: str, ignore: Iterable[Unused], dims: Callable[[], int]) -> str | None:
    """Why a tensor is not needed, None if nobody says so. `dims` is asked only where it matters."""
    for unused in ignore:
        if match(unused.theirs, short) is not None and (unused.dims is None or unused.dims == dims()):
            return unused.why
    return None
