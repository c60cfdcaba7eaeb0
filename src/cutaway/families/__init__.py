"""What is particular about each published model, as data: its sizes, its tensors' names, its sources, its quirks.

No torch, and no computing: the core does that, and knows none of these names.
"""

from collections.abc import Mapping
from typing import Any

from cutaway.errors import ConfigError
from cutaway.families import gpt1, gpt2, roberta
from cutaway.families.family import Family, Published, Quirk

__all__ = ["FAMILIES", "PUBLISHED", "Family", "Published", "Quirk", "family_of", "find_known"]

FAMILIES: dict[str, Family] = {family.name: family for family in (gpt1.GPT1, gpt2.GPT2, roberta.ROBERTA)}
PUBLISHED: tuple[Published, ...] = gpt1.PUBLISHED + gpt2.PUBLISHED + roberta.PUBLISHED


def family_of(hf_config: Mapping[str, Any]) -> Family:
    """The family that a config.json belongs to, by its model_type, or by its architecture where an old file has none."""
    model_type, architectures = hf_config.get("model_type"), hf_config.get("architectures") or []
    for family in FAMILIES.values():
        if model_type == family.model_type or (model_type is None and any(name in family.heads for name in architectures)):
            return family
    raise ConfigError(
        f"config.json is of model_type {model_type!r} and architectures {architectures!r}, which no family here has",
        expected="one of " + ", ".join(family.model_type for family in FAMILIES.values()),
    )


def find_known(name: str) -> Published | None:
    """The published model that answers to this name, alias or Hub id; None if there is none."""
    return next((published for published in PUBLISHED if name in published.names), None)
