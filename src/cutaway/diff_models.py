"""What separates two models: the fields of their configurations, the parameters of their parts, and the lines of their plain files.

No weights are opened and no torch is loaded: two models with one configuration are the same here, whatever they have learned.
"""

import difflib
from dataclasses import asdict, dataclass
from typing import Any

from cutaway.core.config import Config
from cutaway.families.size import parameters
from cutaway.source import Source, source
from cutaway.source.words import meanings


@dataclass(frozen=True)
class Field:
    """A field of the configurations whose values differ."""

    name: str
    a: Any
    b: Any
    means: str


@dataclass(frozen=True)
class Part:
    """Parameters of one part of both models."""

    name: str
    a: int
    b: int


@dataclass(frozen=True)
class ModelDifference:
    """Two models compared. code: the unified diff of their plain files behind the headers; "" if these are equal.

    same_code: they are equal but for the sizes at their top.
    """

    a: str
    b: str
    fields: tuple[Field, ...]
    parts: tuple[Part, ...]
    same_code: bool
    code: str

    @property
    def verdict(self) -> str:
        """In words."""
        if not self.fields:
            return f"{self.a} and {self.b} have the same configuration: what differs is what they have learned."
        if self.same_code:
            kind = "sizes" if all(type(field.a) is type(field.b) is int for field in self.fields) else "settings"
            names = ", ".join(field.name for field in self.fields)
            return f"{self.a} and {self.b} are the same architecture, in the same code: they differ in {kind} alone ({names})."
        lines = self.code.splitlines()[2:]
        gone, new = (sum(line.startswith(sign) for line in lines) for sign in "-+")
        return f"{self.a} and {self.b} differ in {_counted(len(self.fields), 'field')}, and so in their code: −{gone} +{new} lines."

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict}

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.model_difference(self)


def diff_models(a: str | Config, b: str | Config) -> ModelDifference:
    """Compare two models, each named as for `cutaway.source`. Uses no network; raises what `source` raises."""
    one, other = (source(model, name=letter if isinstance(model, Config) else "") for model, letter in ((a, "A"), (b, "B")))
    x, y = one.config.to_dict(), other.config.to_dict()
    means = meanings()
    counts = zip(parameters(one.config).items(), parameters(other.config).values(), strict=True)
    return ModelDifference(
        a=one.name,
        b=other.name,
        fields=tuple(Field(name, x[name], y[name], means[name]) for name in x if x[name] != y[name]),
        parts=tuple(Part(name, count, theirs) for (name, count), theirs in counts if count or theirs),
        same_code=one.code == other.code,
        code=_unified(one, other),
    )


def _unified(one: Source, other: Source) -> str:
    a, b = (file.program.splitlines(keepends=True) for file in (one, other))
    return "".join(difflib.unified_diff(a, b, one.name, other.name))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
