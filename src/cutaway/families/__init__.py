"""What is particular about each published model, as data: its sizes, its tensors' names, its sources, its quirks.

No torch, and no computing: the core does that, and knows none of these names.
"""

from collections.abc import Mapping
from typing import Any

from cutaway.errors import ConfigError
from cutaway.families import bert, gpt1, gpt2, llama, roberta
from cutaway.families.family import Dialect, Fact, Family, Published, Quirk, Stated

__all__ = [
    "FAMILIES", "PUBLISHED", "Dialect", "Fact", "Family", "Published", "Quirk", "Stated", "dialect_of", "family_of", "find_known",
]  # fmt: skip

FAMILIES: dict[str, Family] = {
    family.name: family for family in (gpt1.GPT1, gpt2.GPT2, roberta.ROBERTA, bert.BERT, llama.LLAMA)
}
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


def dialect_of(format: str, settings: Mapping[str, Any]) -> tuple[Family, Dialect]:  # noqa: A002
    """The family that writes its models down in this format, and how. `settings` tell where several families do."""
    if format == "transformers":
        family = family_of(settings)
        return family, family.hub
    those = [family for family in FAMILIES.values() if format in family.others]
    if format == "gguf":
        known = [family.architecture for family in those]
        those = [family for family in those if family.architecture == settings.get("general.architecture")]
        if not those:
            raise ConfigError(
                f"The file is a GGUF of the architecture {settings.get('general.architecture')!r}, which no family here has",
                expected="one of " + ", ".join(known),
            )
    return those[0], those[0].others[format]


def find_known(name: str) -> Published | None:
    """The published model that answers to this name, alias or Hub id; None if there is none."""
    return next((published for published in PUBLISHED if name in published.names), None)
