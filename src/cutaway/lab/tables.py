"""Records side by side, as tables of text: one column a model. Pages, Markdown and terminals draw them; nothing is computed here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cutaway.lab.measurement import Measurement
from cutaway.lab.record import Record
from cutaway.lab.verify import Checked

NONE = "–"


@dataclass(frozen=True)
class Table:
    """`left`: so many columns are words and stand on the left."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1

    def markdown(self) -> str:
        """
        >>> print(Table("", ("d", "nano-gpt2"), (("8", "0.5"), ("16", "a|b"))).markdown())
        | d | nano-gpt2 |
        | --- | ---: |
        | 8 | 0.5 |
        | 16 | a\\|b |
        """
        rules = ["---"] * self.left + ["---:"] * (len(self.header) - self.left)
        return "\n".join(f"| {' | '.join(map(plain, line))} |" for line in (self.header, rules, *self.rows))


def plain(text: str) -> str:
    """A cell of Markdown: no border, line break or tag in it; `code` stands as it is.

    >>> plain("a|b <i>"), plain("`x <= 1`")
    ('a\\\\|b &lt;i>', '`x <= 1`')
    """
    cell = " ".join(text.split()).replace("|", "\\|")
    return cell if cell.startswith("`") else cell.replace("<", "&lt;")


def label(record: Record) -> str:
    """A model's name, and whether it is one of this project's small ones."""
    if record.model is None:
        return "value"
    return f"{record.model_name} (nano)" if record.model["nano"] else record.model_name


def measured(records: Sequence[Record]) -> list[Table]:
    """What the records of one experiment hold: first the numbers that were taken once, then a table for each name with places."""
    names = list(dict.fromkeys(m.name for record in records for m in record.measurements))
    at = {name: keys_of(records, name) for name in names}
    once = tuple(row for name in names if not at[name] for row in rows_of(records, name, ()))
    header = (*(label(record) for record in records), "n")
    single = [Table("Measured once", ("", *header), tuple((called(records, row[0]), *row[1:]) for row in once))] if once else []
    placed = [
        Table(called(records, name), (*keys, *header), tuple(row[1:] for row in rows_of(records, name, keys)), left=len(keys))
        for name, keys in at.items()
        if keys
    ]
    return [without_n(table) for table in (*single, *placed)]


def keys_of(records: Sequence[Record], name: str) -> tuple[str, ...]:
    """The words that say where a measurement of this name was taken."""
    return tuple(dict.fromkeys(key for record in records for m in record.measurements if m.name == name for key in m.at))


def rows_of(records: Sequence[Record], name: str, keys: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Name, places, a value for each record, n."""
    found = [{place(m, keys): m for m in record.measurements if m.name == name} for record in records]
    for where in dict.fromkeys(where for one in found for where in one):
        each = [one.get(where) for one in found]
        counts = [f"{m.n:,}" if m and m.n else NONE for m in each]
        yield name, *where, *map(cell, each), " / ".join(counts if len(set(counts)) > 1 else counts[:1])


def place(m: Measurement, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(m.at[key]) if key in m.at else "" for key in keys)


def cell(m: Measurement | None) -> str:
    """The number with its interval; unit and n stand elsewhere in the table."""
    return str(replace(m, unit="", n=None)) if m else NONE


def called(records: Sequence[Record], name: str) -> str:
    """The name with its unit and what kind of number it is."""
    one = next(m for record in records for m in record.measurements if m.name == name)
    levels = dict.fromkeys(f"{100 * m.level:.6g} %" for record in records for m in record.measurements if m.name == name and m.level)
    parts = [one.unit, one.kind if one.interval else "", f"intervals at {' and '.join(levels)}" if levels else ""]
    said = ", ".join(part for part in parts if part)
    return f"{name} ({said})" if said else name


def without_n(table: Table) -> Table:
    """The column is dropped where nothing was counted."""
    if any(row[-1] != NONE for row in table.rows):
        return table
    return replace(table, header=table.header[:-1], rows=tuple(row[:-1] for row in table.rows))


def claims(records: Sequence[Record], checked: Sequence[Checked]) -> Table:
    """A row a claim, a column a model: the verdict and what it rests on."""
    models = [record.model_name if record.model else None for record in records]
    found = {(c.claim, c.model): c for c in checked}
    rows = [
        (claim.sentence, f"`{claim}`", *(verdict(found.get((claim, model))) for model in models))
        for claim in dict.fromkeys(c.claim for c in checked)
    ]
    return Table("Claims", ("claim", "expected", *map(label, records)), tuple(rows), left=2 + len(records))


def verdict(c: Checked | None) -> str:
    if c is None:
        return NONE
    return f"{c.verdict}: {c.measured}" if c.measured else c.verdict


def facts(records: Sequence[Record]) -> Table:
    """What shaped each record: a row a fact, a column a record."""
    each = [facts_of(record) for record in records]
    rows = [(name, *(one[name] for one in each)) for name in each[0]]
    said = tuple(row for row in rows if set(row[1:]) != {NONE})
    return Table("What shaped the numbers", ("", *map(label, records)), said, left=1 + len(records))


def facts_of(record: Record) -> dict[str, str]:
    model: dict[str, Any] = dict(record.model or {})
    given, sha, machine = record.facts, model.get("weights_sha256"), record.facts.get("machine", {})
    versions = given.get("versions", {})
    return {
        "weights sha256": sha[:12] if sha else NONE,
        "dtype": model.get("dtype", NONE),
        "device": model.get("device", NONE),
        "threads": str(given.get("threads", NONE)),
        "attention": model.get("kernel", NONE),
        "seed": str(record.seed),
        "version": str(record.version),
        "commit": (given.get("commit") or NONE)[:10] + (" (changed)" if given.get("dirty") else ""),
        "torch": versions.get("torch", NONE),
        "machine": ", ".join(f"{machine[key]}{unit}" for key, unit in MACHINE.items() if machine.get(key)) or NONE,
        "started": given.get("started", NONE)[:16].replace("T", " "),
        "seconds": str(given.get("seconds", NONE)),
    }


MACHINE = {"cpu": "", "cores": " cores", "ram_gib": " GiB", "os": ""}
