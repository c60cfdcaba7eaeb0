"""A claim: a sentence about a kind of model, a measurement, what is expected of it, why, and what would make it fail.

Claims stand in the experiment's file and are committed before the record that tests them.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cutaway.lab.measurement import Measurement

if TYPE_CHECKING:
    from cutaway.model import Model

Operator = Literal["==", "!=", "<", "<=", ">", ">="]
Verdict = Literal["holds", "fails", "undecided", "not measured here"]
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The kind of model that an experiment runs on or a claim is about; what is left out may be either."""

    causal: bool | None = None
    heads: tuple[str, ...] = ()  # one of these
    own_world: bool | None = None  # trained on the micro-world, so that its truth is known: a nano model

    def why_not(self, model: "Model") -> str:
        """Why this model is of the wrong kind, in words; empty if it is of the right one."""
        return self.unlike(model.name, model.config.causal, model.config.head, bool(model.origin.card))

    def unlike(self, name: str, causal: bool, head: str, nano: bool) -> str:
        """The same of a model of which only this is known, because it was not loaded, or a record speaks of it."""
        if self.causal is not None and causal != self.causal:
            return f"{name} is {kind(causal)}, and this is about {kind(self.causal)} models"
        if self.heads and head not in self.heads:
            return f"{name} has the head {head!r}, and this needs {' or '.join(map(repr, self.heads))}"
        if self.own_world is False and nano:
            return f"{name} is a nano model, which knows a few hundred words, and this is about models of ordinary text"
        if self.own_world and not nano:
            return f"{name} was not trained on the micro-world, so its truth is not known there; a nano model is needed"
        return ""

    def __str__(self) -> str:
        words = [kind(self.causal)] if self.causal is not None else []
        words += [f"head {' or '.join(self.heads)}"] if self.heads else []
        words += [] if self.own_world is None else ["nano" if self.own_world else "ordinary text"]
        return ", ".join(words) or "any"


def kind(causal: bool) -> str:
    return "causal" if causal else "bidirectional"


ANY, CAUSAL, BIDIRECTIONAL = Needs(), Needs(causal=True), Needs(causal=False)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """`sentence` is true of models `of` a kind if the measurement whose key is `measurement` compares so with `bound`.

    `reason` is why it is expected: theory, a paper, an earlier seed. `fails_if` names what would make it fail.
    """

    sentence: str
    measurement: str
    compare: Operator
    bound: float | int | bool
    reason: str
    fails_if: str
    of: Needs = ANY

    def __post_init__(self) -> None:
        if self.compare in ("==", "!=") and 2 * self.bound != int(2 * self.bound):  # a half of a count is as exact as the count
            raise ValueError(f"{self.measurement} {self.compare} {self.bound}: a float is not the same on another machine")

    def check(self, found: Measurement | None) -> Verdict:
        """Does it hold? A statistic must clear the bound with its whole interval; it fails only if the whole interval misses it."""
        if found is None or found.value is None:
            return "not measured here"
        compare = COMPARE[self.compare]
        if found.interval is None:
            return "holds" if compare(found.value, self.bound) else "fails"
        ends = [compare(end, self.bound) for end in found.interval]
        return "holds" if all(ends) else "undecided" if any(ends) or self.inside(found.interval) else "fails"

    @property
    def statistical(self) -> bool:
        """May chance alone make it fail? Not if it is an equality, which has no interval."""
        return self.compare not in ("==", "!=")

    def inside(self, interval: tuple[float, float]) -> bool:
        return interval[0] <= self.bound <= interval[1]

    def __str__(self) -> str:
        return f"{self.measurement} {self.compare} {self.bound}"
