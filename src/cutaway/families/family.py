"""A family is what separates one line of published models from another: sizes by other words, tensors by other names, habits.

Data, and the functions that read it. No family computes anything: that is done by one core for all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cutaway.core.config import Config, Head
from cutaway.weights.names import Rule, Unused

Settings = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Fact:
    """Something said about a model, and where it can be seen."""

    says: str
    source: str


@dataclass(frozen=True)
class Quirk(Fact):
    """Something that surprises."""


TRANSFORMER = Fact("2017-06-12", "https://arxiv.org/abs/1706.03762")  # when the plan that all families changed was published


@dataclass(frozen=True)
class Stated:
    """How many parameters the publisher said it has, as round as it was said."""

    parameters: int
    source: str


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How one kind of file writes the family's models down.

    config_from: from what the files say of themselves (config.json, hparams.json, …) and the tensors' shapes; raises ConfigError.
    rules: from the files' tensor names to the core's.
    unused: what files hold and no parameter needs.
    """

    config_from: Callable[[Settings, Shapes], Config]
    rules: Callable[[Config], tuple[Rule, ...]]
    unused: tuple[Unused, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Family:
    """One line of models, as its publisher left it."""

    name: str
    title: str
    model_type: str  # in config.json
    heads: Mapping[str, Head]  # by architecture in config.json
    hub: Dialect  # files as the Hugging Face Hub has them
    others: Mapping[str, Dialect] = field(default_factory=dict)  # by the name that a weights reader gives its format
    architecture: str = ""  # in a GGUF file
    tokenizers: tuple[str, ...]  # the kinds whose ids its models know
    released: Fact  # the day, month or year of its first model: 2019-02-14, 2019-02, 2019
    parent: str = ""  # the family whose plan it changed; "": the Transformer of 2017 itself
    descent: Fact  # what it took and what it changed
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
    released: Fact
    trained_on: Fact
    stated: Stated | None = None  # None: the publisher gave no number
    parent: str = ""  # the published model whose weights or outputs it was made with
    descent: Fact | None = None  # how; None: trained from nothing

    @property
    def names(self) -> tuple[str, ...]:
        """Everything it answers to."""
        return self.name, *self.aliases, self.repo
