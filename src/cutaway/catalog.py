"""Which models there are: the three that this project trained and ships, and the published ones, with sizes and places.

Nothing is fetched, no weights are opened and no torch is loaded.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cutaway.core.config import Config
from cutaway.families import PUBLISHED, Family, family_of
from cutaway.families.size import parameters
from cutaway.shipped import shipped_folder, shipped_names
from cutaway.weights.fetch import cached


@dataclass(frozen=True)
class Entry:
    """One model. `folder` is where its files lie on this machine, None if they do not; `revision` None is not pinned."""

    name: str
    aliases: tuple[str, ...]
    family: str
    nano: bool  # trained by this project, on a small English world
    repo: str | None  # on the Hugging Face Hub
    revision: str | None
    parameters: int
    layers: int
    heads: int
    width: int
    context: int
    head: str
    folder: str | None


@dataclass(frozen=True)
class Catalog:
    """Every model that a name stands for."""

    models: tuple[Entry, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def catalog() -> Catalog:
    """The shipped models first, then the published ones."""
    return Catalog((*_shipped(), *_published()))


def _shipped() -> Iterator[Entry]:
    for name in shipped_names():
        folder = shipped_folder(name)
        hf_config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        family = family_of(hf_config)
        yield _entry(name, family, family.hub.config_from(hf_config, {}), folder)


def _published() -> Iterator[Entry]:
    for known in PUBLISHED:
        folder = cached(known.repo, known.revision)
        yield _entry(known.name, known.family, known.config, folder, known.aliases, known.repo, known.revision)


def _entry(
    name: str,
    family: Family,
    config: Config,
    folder: Path | None,
    aliases: tuple[str, ...] = (),
    repo: str | None = None,
    revision: str | None = None,
) -> Entry:
    return Entry(
        name=name,
        aliases=aliases,
        family=family.title,
        nano=repo is None,
        repo=repo,
        revision=revision,
        parameters=sum(parameters(config).values()),
        layers=config.layers,
        heads=config.heads,
        width=config.width,
        context=config.context,
        head=config.head,
        folder=str(folder) if folder else None,
    )
