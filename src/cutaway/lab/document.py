"""What the docs say of an experiment: a block of Markdown out of its published records, and its charts as files beside it."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cutaway.errors import LabError
from cutaway.lab.find import find
from cutaway.lab.published import records
from cutaway.lab.report import Section
from cutaway.writing import write_text

if TYPE_CHECKING:
    from cutaway.charts import Chart


def table(name: str) -> str:
    """Markdown: the claims of an experiment with their verdicts, its figures and its measurements, out of the published records."""
    section = published(name)
    if not section.records:
        return f"Not measured yet: `cutaway lab run {name}` measures it."
    return section.markdown([f"{name}.{n}.svg" for n in range(1, len(section.charts) + 1)])


def published(name: str) -> Section:
    (e,) = find(name)
    return Section(name, e, tuple(records(name)))


def charts(folder: Path) -> "dict[Path, Chart]":
    """The charts of every documented experiment (<folder>/<name>.md), each by its file."""
    found: dict[Path, Chart] = {}
    for document in sorted(folder.glob("*.md")):
        drawn = published(document.stem).charts.values()
        found |= {folder / f"{document.stem}.{n}.svg": chart for n, chart in enumerate(drawn, start=1)}
    return found


def draw(folder: Path) -> list[Path]:
    """Write the figures, and remove those that nothing draws any more. Raises LabError where that cannot be done."""
    from cutaway.charts import svg

    found = {path: f"{svg(chart)}\n{mark(chart)}\n" for path, chart in charts(folder).items()}
    try:
        for path, text in found.items():
            write_text(path, text)
        for path in set(folder.glob("*.svg")) - set(found):
            path.unlink()
    except OSError as error:
        raise LabError(f"{folder} cannot be written: {error.strerror or error}") from None
    return list(found)


def stale(folder: Path) -> list[str]:
    """The figures that are missing, left over, or say something else than the records: told by what they say, not how it is drawn."""
    wanted = charts(folder)
    left_over = [path.name for path in set(folder.glob("*.svg")) - set(wanted)]
    wrong = [path.name for path, chart in wanted.items() if not path.is_file() or mark(chart) not in path.read_text("utf-8")]
    return sorted(left_over + wrong)


def mark(chart: "Chart") -> str:
    """A comment that names what a chart says: two machines may draw the same letters differently."""
    spec = dict(chart) if isinstance(chart, Mapping) else chart.to_dict()
    return f"<!-- {hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()} -->"
