"""A family is what separates one line of published models from another: sizes by other words, tensors by other names, habits.

Data, and the two functions that read it. No family computes anything: that is done by one core for all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cutaway.core.config import Config, Head
from cutaway.weights.names import Rule, Unused


@dataclass(frozen=True)
class Quirk:
    """Something about a model that surprises, and where it can be seen."""

    says: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Family:
    """One line of models, as its publisher left it."""

    name: str
    title: str
    model_type: str  # in config.json
    heads: Mapping[str, Head]  # by architecture in config.json
    config_from: Callable[[Mapping[str, Any]], Config]  # raises ConfigError
    rules: Callable[[Config], tuple[Rule, ...]]  # from the files' tensor names to the core's
    unused: tuple[Unused, ...]  # what files hold and no parameter needs
    quirks: tuple[Quirk, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Published:
    """One published model. A revision stands here only if the public file it was read from is named beside it; None is not pinned."""

    name: str
    family: Family
    repo: str  # on the Hugging Face Hub
    config: Config
    aliases: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()  # of a classifier, by index
    revision: str | None = None
    quirks: tuple[Quirk, ...] = ()  # its own, beside the family's

    @property
    def names(self) -> tuple[str, ...]:
        """Everything it answers to."""
        return self.name, *self.aliases, self.repo
