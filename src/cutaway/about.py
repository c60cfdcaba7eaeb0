"""What is known of one model: how large each part is, what a token costs, where it came from, and whether its file agrees.

Sizes are computed from the configuration, never typed. Nothing is fetched, and no tensor is read: of a file that is here, the
names and shapes are counted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutaway.core.config import Config
from cutaway.errors import ModelError
from cutaway.families import FAMILIES, PUBLISHED, Dialect, Fact, Family, Published, Quirk, Stated, dialect_of, find_known
from cutaway.families.family import TRANSFORMER, Shapes
from cutaway.families.size import DTYPES, Flops, cache_bytes, flops, parameters, part_of
from cutaway.locate import HUB_ID, locate
from cutaway.registry import nearest
from cutaway.settings import read_json, settings
from cutaway.shipped import shipped_names
from cutaway.weights.fetch import cached
from cutaway.weights.files import find_weights
from cutaway.weights.gguf_header import read_gguf
from cutaway.weights.header import read_header
from cutaway.weights.hub.download import readable
from cutaway.weights.names import find, plain, why_unused

if TYPE_CHECKING:
    from altair import TopLevelMixin


@dataclass(frozen=True)
class Part:
    """Parameters of one part of the machine, and its share of the whole, from 0 to 1."""

    name: str
    parameters: int
    share: float
    note: str


@dataclass(frozen=True)
class Ancestor:
    """One step of the family tree: how it was made from the step before it."""

    name: str
    released: str  # "": nobody says
    how: Fact | None


@dataclass(frozen=True)
class Check:
    """The parameters that the configuration asks for, and those whose shapes the file has.

    A matrix that a file holds under two names is counted once. parts: where the two differ, (configuration, file).
    unknown: tensors that no parameter needs and no rule explains; they are counted. unused: explained, not counted.
    """

    configuration: int
    file: int
    parts: dict[str, tuple[int, int]]
    unknown: tuple[str, ...]
    unused: dict[str, str]

    @property
    def equal(self) -> bool:
        return not self.parts and not self.unknown


@dataclass(frozen=True)
class Here:
    """Files of the model on this machine. where: "shipped", "Hub cache" or "path"; bytes: of the weights alone."""

    where: str
    place: str
    format: str
    files: tuple[str, ...]
    bytes: int
    check: Check


@dataclass(frozen=True)
class About:
    """One model. memory and cache: bytes by precision, of the parameters and of each token's keys and values.

    variants: the parameters under each head that the family has, where it has several.
    """

    name: str
    aliases: tuple[str, ...]
    family: str
    nano: bool  # trained by this project, on a small English world
    repo: str | None  # on the Hugging Face Hub
    revision: str | None  # None: not pinned
    here: Here | None
    config: Config
    parameters: int
    parts: tuple[Part, ...]
    variants: dict[str, int]
    stated: Stated | None
    memory: dict[str, int]
    flops: Flops
    cache: dict[str, int] | None  # None: a bidirectional model keeps none
    released: Fact | None
    trained_on: Fact | None
    lineage: tuple[Ancestor, ...]  # the oldest first, the model itself last
    made_with_it: tuple[str, ...]
    quirks: tuple[Quirk, ...]
    sources: tuple[str, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        found = asdict(self)
        found["flops"]["total"] = self.flops.total
        if self.here:
            found["here"]["check"]["equal"] = self.here.check.equal
        return found

    def chart(self) -> "TopLevelMixin":
        """Parameters of each part, as bars."""
        from cutaway import charts

        title = f"{self.name}: {self.parameters:,} parameters"
        return charts.bars({part.name: part.parameters for part in self.parts}, title, "parameters")

    def page(self) -> str:
        """One self-contained HTML page."""
        from cutaway import charts
        from cutaway.render import render

        return render("page.html", body=self._html(charts.svg(self.chart())), title=self.name)

    def _repr_html_(self) -> str:
        return self._html()

    def _html(self, chart: str = "") -> str:
        from cutaway.charts import share
        from cutaway.render import render

        words = {"place": place(self), "verdict": verdict(self), "stated": stated(self), "costs": costs(self)}
        return render("about.html", result=self, chart=chart, share=share, **words)


def about(source: str, *, context: int | None = None) -> About:
    """What is known of a model: a known name, a folder, a weights file, or a Hub id that is in the cache. No network.

    context: positions that the token whose operations are counted reads; default: as many as the model can.
    Raises ModelError for a name that is not known or a place where nothing is, ConfigError and WeightsError for files that
    cannot be used.
    """
    known = None if source in shipped_names() else find_known(source)
    if known and not cached(known.repo, known.revision):
        return _about(known.name, known.family, known.config, context, known=known)
    if not known and HUB_ID.fullmatch(source) and not Path(source).exists() and not cached(source):
        raise _not_fetched(source)
    name, path, notes = locate(source, offline=True)
    held = _open(path)
    family, dialect = dialect_of(held.dialect, told := settings(held.dialect, held.said, folder := _folder(path)))
    config = dialect.config_from(told, held.shapes)
    if known and (differ := [key for key, value in config.to_dict().items() if value != getattr(known.config, key)]):
        notes += (f"The configuration here differs from the published one in {', '.join(differ)}.",)
    where = "shipped" if source in shipped_names() else "path" if path == Path(source).expanduser() else "Hub cache"
    size = sum(file.stat().st_size for file in held.files)
    files = tuple(file.name for file in held.files)
    here = Here(where, str(path), held.format, files, size, check(config, dialect, held.shapes))
    card = read_json(folder / "card.json") if (folder / "card.json").is_file() else {}
    return _about(name, family, config, context, known=known, here=here, card=card, notes=notes)


def _not_fetched(repo: str) -> ModelError:
    near = nearest(repo, [known.repo for known in PUBLISHED])
    return ModelError(
        f"{repo} is not in the Hugging Face cache, and `about` uses no network",
        expected="a known name, a folder, a weights file, or a model on the Hub that was used before",
        then=f"did you mean {near}?" if near else f'use it once, which fetches it: cutaway next "The" --model {repo}',
    )


def place(of: About) -> str:
    """Where its files are, in words."""
    pinned = f"revision {of.revision}" if of.revision else "not pinned"
    hub = f"{of.repo} on the Hugging Face Hub, {pinned}" if of.repo else ""
    if of.here is None:
        return f"{hub}; not here, and fetched when it is first used"
    found = {"shipped": "Shipped with cutaway", "Hub cache": "here in the Hub's cache", "path": "Here"}[of.here.where]
    return f"{hub}; {found}: {of.here.place}" if hub else f"{found}: {of.here.place}"


def verdict(of: About) -> str:
    """Whether the file agrees with the configuration, in words; "" if there is no file."""
    if of.here is None:
        return ""
    found = of.here.check
    if found.equal:
        return f"The file's tensors have {found.file:,} parameters, as many as the configuration asks for in each part."
    parts = [f"{part}: {asked:,} asked for, {held:,} there" for part, (asked, held) in found.parts.items()]
    unknown = [f"nothing here knows {len(found.unknown)} tensors, {found.unknown[0]} the first"] if found.unknown else []
    return (
        f"The file's tensors have {found.file:,} parameters and the configuration asks for {found.configuration:,}: "
        f"they differ by {abs(found.file - found.configuration):,} ({'; '.join(parts + unknown)})."
    )


def stated(of: About) -> str:
    """The publisher's number beside ours, in words."""
    if of.stated is None:
        return ""
    million = 10**6
    said = f"the publisher says {of.stated.parameters // million:,} million"
    if round(of.parameters / million) * million == of.stated.parameters:
        return f"{said}, which is this number rounded"
    more = of.parameters - of.stated.parameters
    return f"{said}; this is {abs(more):,} {'more' if more > 0 else 'fewer'}"


def costs(of: About) -> list[tuple[str, str]]:
    """What it can read and what it takes, in words, by what they are about."""
    config, spent = of.config, of.flops
    heads = f"{config.heads} heads" + (f" ({config.key_heads} of keys and values)" if config.key_heads != config.heads else "")
    both = "in float32, {} in float16 or bfloat16"
    rows = [
        ("shape", f"{config.layers} layers, {heads}, width {config.width}, MLP {config.mlp_width}"),
        ("reads", f"up to {config.context:,} tokens out of {config.vocab_size:,}"),
        ("in memory", f"{readable(of.memory['float32'])} {both.format(readable(of.memory['float16']))}"),
        ("on disk", f"{readable(of.here.bytes)}: {_listed(of.here.files)} ({of.here.format})" if of.here else "not here"),
        ("FLOPs a token", f"{spent.total:,} forward, for a token that reads {spent.context:,} positions"),
        ("", f"= 2 × {spent.matrix_parameters:,} numbers in matrices"),
        ("", f"+ 2 · 2 · {config.layers} layers · {config.width} width · {spent.context:,} positions in attention"),
        ("", "The output matrix is counted; the embeddings, which are looked up, biases and norms are not."),
    ]
    if of.cache is None:
        return [*rows, ("cache", "none: a bidirectional model reads the whole text anew")]
    whole = readable(of.cache["float32"] * config.context)
    return [*rows, ("cache", f"{of.cache['float32']:,} bytes a token {both.format(format(of.cache['float16'], ','))}; {whole} when full")]


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} files, {names[0]} the first"


@dataclass(frozen=True)
class _Held:
    """What files hold: names and shapes, not one tensor. format: of the files; dialect: whose names these are."""

    format: str
    dialect: str
    said: Mapping[str, Any]
    shapes: Shapes
    files: tuple[Path, ...]


def _open(path: Path) -> _Held:
    """Reads headers; torch is needed only for formats that nothing else here can read."""
    found = find_weights(path)
    if found.format == "safetensors":
        shapes = {name: shape for file in found.files for name, shape in read_header(file).shapes.items()}
        return _Held(found.format, "transformers", {}, shapes, found.files)
    if found.format == "gguf":
        header = read_gguf(found.entrance)
        return _Held(found.format, "gguf", header.metadata, {name: place.shape for name, place in header.tensors.items()}, found.files)
    from cutaway.weights.opening import open_weights

    source, _ = open_weights(path)
    return _Held(found.format, source.dialect, source.settings, source.shapes, source.paths)


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def check(config: Config, dialect: Dialect, shapes: Shapes) -> Check:
    """Count what the files hold, part by part, against what the configuration asks for."""
    rules, asked = {rule.theirs: rule for rule in dialect.rules(config)}, parameters(config)
    held = dict.fromkeys(asked, 0)
    seen: set[str] = set()
    unknown, unused = [], {}
    for name, shape in shapes.items():
        short = plain(name)
        if hit := find(short, rules):
            ours, rule = hit
            if not seen.issuperset(ours):
                held[part_of(rule.ours[0])] += prod(shape)
                seen.update(ours)
        elif why := why_unused(short, dialect.unused, partial(len, shape)):
            unused[name] = why
        else:
            unknown.append(name)
    differing = {part: (asked[part], held[part]) for part in asked if asked[part] != held[part]}
    total = sum(held.values()) + sum(prod(shapes[name]) for name in unknown)
    return Check(sum(asked.values()), total, differing, tuple(unknown), unused)


def _about(
    name: str,
    family: Family,
    config: Config,
    context: int | None,
    *,
    known: Published | None = None,
    here: Here | None = None,
    card: Mapping[str, Any] | None = None,
    notes: tuple[str, ...] = (),
) -> About:
    total = sum(parameters(config).values())
    nano = (card or {}).get("nano") is True
    cache = {dtype: bytes for dtype in DTYPES if (bytes := cache_bytes(config, dtype)) is not None}  # noqa: A001
    return About(
        name=name,
        aliases=known.aliases if known else (),
        family=family.title,
        nano=nano,
        repo=known.repo if known else name if here and here.where == "Hub cache" else None,
        revision=known.revision if known else None,
        here=here,
        config=config,
        parameters=total,
        parts=tuple(_parts(config)),
        variants=_variants(config),
        stated=known.stated if known else None,
        memory={dtype: total * size for dtype, size in DTYPES.items()},
        flops=flops(config, _checked(context, config)),
        cache=cache or None,
        released=known.released if known else None,
        trained_on=known.trained_on if known else _from_card(card) if card and nano else None,
        lineage=tuple(_lineage(name, family, known, nano)),
        made_with_it=tuple(other.name for other in PUBLISHED if known and other.parent == known.name),
        quirks=family.quirks + (known.quirks if known else ()),
        sources=family.sources,
        notes=notes,
    )


def _checked(context: int | None, config: Config) -> int:
    if context is not None and not 1 <= context <= config.context:
        raise ModelError(f"The context asked for is {context}", expected=f"from 1 to {config.context}, which the model can read")
    return context or config.context


def _parts(config: Config) -> Iterator[Part]:
    found = parameters(config)
    output = config.head in ("lm", "mlm")
    notes = {
        "token embedding": "the output matrix too: tied" if output and config.tied else "",
        "position embedding": "" if config.positions == "learned" else "rotary: computed, not stored",
        "head": "the output matrix is its own: not tied" if output and not config.tied else "",
    }
    if config.position_offset and config.positions == "learned":
        notes["position embedding"] = f"{config.position_rows} rows for {config.context} positions"
    for part, count in found.items():
        yield Part(part, count, count / sum(found.values()), notes.get(part, ""))


def _variants(config: Config) -> dict[str, int]:
    """The counts that circulate of one bidirectional body."""
    if config.causal:
        return {}
    heads = {"body alone": "none", "body and pooler": "pooler", "body and masked-word head": "mlm"}
    return {said: sum(parameters(config.with_(head=head, classes=0)).values()) for said, head in heads.items()}


def _lineage(name: str, family: Family, known: Published | None, nano: bool) -> Iterator[Ancestor]:
    yield Ancestor("Transformer", TRANSFORMER.says, None)
    line = [family]
    while line[0].parent:
        line.insert(0, FAMILIES[line[0].parent])
    for one in line:
        yield Ancestor(one.title, one.released.says, one.descent)
    if known and known.parent:
        parent = find_known(known.parent)
        assert parent is not None, known.parent
        yield Ancestor(parent.name, parent.released.says, parent.descent)
    how = Fact("Trained from nothing by this project, on a small English world.", "card.json") if nano else known.descent if known else None
    yield Ancestor(name, known.released.says if known else "", how)


def _from_card(card: Mapping[str, Any]) -> Fact:
    seed = card.get("schedule", {}).get("seed")
    return Fact(f"{card.get('tokens'):,} tokens of a generated small English world, seed {seed}: {card.get('command')}.", "card.json")
