"""The way back: a model's parameters under the names and in the layout that its publisher's files have."""

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from cutaway.errors import WeightsError
from cutaway.weights.names import Rule


def publish(parameters: Mapping[str, Tensor], rules: Sequence[Rule], layers: int) -> dict[str, Tensor]:
    """Tensors by the publisher's names: renamed, joined and transposed, the reverse of `load.assign`.

    Raises WeightsError if a parameter has no name there.
    """
    tensors: dict[str, Tensor] = {}
    named: set[str] = set()
    for rule in expanded(rules, layers):
        if named.isdisjoint(rule.ours) and all(name in parameters for name in rule.ours):
            whole = torch.cat([parameters[name] for name in rule.ours])
            tensors[rule.theirs] = whole.T.contiguous() if rule.transpose else whole
            named.update(rule.ours)
    if missed := parameters.keys() - named:
        raise WeightsError(f"The publisher has no name for {', '.join(sorted(missed))}", expected="a rule for each parameter")
    return tensors


def expanded(rules: Sequence[Rule], layers: int) -> Iterator[Rule]:
    """The rules with every layer's number put in."""
    for rule in rules:
        for n in range(layers) if "{n}" in rule.theirs else [0]:
            yield Rule(rule.theirs.replace("{n}", str(n)), tuple(name.replace("{n}", str(n)) for name in rule.ours), rule.transpose)
