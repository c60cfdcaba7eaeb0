"""Which models there are: the small ones that this project trained and ships, and the published ones, with sizes and places.

Sizes are computed from configurations. Nothing is fetched, no weights are opened and no torch is loaded.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutaway.core.config import Config
from cutaway.errors import ModelError
from cutaway.families import FAMILIES, PUBLISHED, Family, Published, family_of, find_known
from cutaway.families.size import parameters
from cutaway.registry import no_such
from cutaway.shipped import shipped_folder, shipped_names
from cutaway.weights.fetch import cached, remove

if TYPE_CHECKING:
    from altair import TopLevelMixin


@dataclass(frozen=True)
class Entry:
    """One model. `folder` is where its files lie on this machine, None if they do not; `revision` None is not pinned."""

    name: str
    aliases: tuple[str, ...]
    family: str
    nano: bool  # trained by this project, on a small English world
    repo: str | None  # on the Hugging Face Hub
    revision: str | None
    released: str  # "": with this project
    parent: str  # the published model that it was made with
    parameters: int
    parts: dict[str, int]
    layers: int
    heads: int
    width: int
    context: int
    head: str
    folder: str | None


@dataclass(frozen=True)
class Relative:
    """A family none of whose models has a name here; any of them loads from a folder or a file."""

    family: str
    released: str
    model_type: str  # in config.json
    architecture: str  # in a GGUF file


@dataclass(frozen=True)
class Catalog:
    """Every model that a name stands for, and the families of which others load."""

    models: tuple[Entry, ...]
    relatives: tuple[Relative, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def chart(self) -> "TopLevelMixin":
        """What each model is made of, and how large it is."""
        from cutaway import charts

        return charts.made_of({one.name: one.parts for one in self.models}, "What the models are made of", "parameters")

    def page(self) -> str:
        """One self-contained HTML page."""
        from cutaway import charts
        from cutaway.render import render

        body = render("models.html", result=self, chart=charts.svg(self.chart()))
        return render("page.html", body=body, title="The models")

    def _repr_html_(self) -> str:
        from cutaway.render import render

        return render("models.html", result=self, chart="")


def catalog() -> Catalog:
    """The published models first, in the order in which they came from each other, then those of this project."""
    named = {known.family.name for known in PUBLISHED}
    relatives = (
        Relative(family.title, family.released.says, family.model_type, family.architecture)
        for family in FAMILIES.values()
        if family.name not in named
    )
    return Catalog((*_published(), *_shipped()), tuple(relatives))


def forget(name: str) -> int:
    """Take a fetched model out of the Hugging Face cache. The bytes freed.

    Raises ModelError for a model that is not there, and for one that came with this package.
    """
    return remove(fetched(name))


def fetched(name: str) -> str:
    """The Hub id under which a model would lie in the cache. Raises ModelError for a shipped model and for an unknown name."""
    if name in shipped_names():
        raise ModelError(f"{name} was not fetched: it came with cutaway", then="uninstall cutaway to remove it")
    if known := find_known(name):
        return known.repo
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return name
    raise no_such("model", name, [other for known in PUBLISHED for other in (known.name, *known.aliases)])


def _published() -> Iterator[Entry]:
    for known in PUBLISHED:
        yield _entry(known.name, known.family, known.config, cached(known.repo, known.revision), known)


def _shipped() -> Iterator[Entry]:
    for name in shipped_names():
        folder = shipped_folder(name)
        hf_config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        family = family_of(hf_config)
        yield _entry(name, family, family.hub.config_from(hf_config, {}), folder)


def _entry(name: str, family: Family, config: Config, folder: Path | None, known: Published | None = None) -> Entry:
    parts = parameters(config)
    return Entry(
        name=name,
        aliases=known.aliases if known else (),
        family=family.title,
        nano=known is None,
        repo=known.repo if known else None,
        revision=known.revision if known else None,
        released=known.released.says if known else "",
        parent=known.parent if known else "",
        parameters=sum(parts.values()),
        parts=parts,
        layers=config.layers,
        heads=config.heads,
        width=config.width,
        context=config.context,
        head=config.head,
        folder=str(folder) if folder else None,
    )
