"""What was measured, as one page or one Markdown text: each experiment's question, claims, measurements, charts and facts.

Everything comes out of records; nothing is run.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

from cutaway.errors import LabError
from cutaway.lab import tables
from cutaway.lab.experiment import Experiment
from cutaway.lab.find import experiments
from cutaway.lab.record import Record
from cutaway.lab.verify import Checked, check, summary

if TYPE_CHECKING:
    from cutaway.charts import Chart

LONG = 40  # rows of a table that Markdown still shows


@dataclass(frozen=True)
class Section:
    """One experiment and its records, one for each model. `experiment` is None where this machine does not have it."""

    name: str
    experiment: Experiment | None
    records: tuple[Record, ...]

    @cached_property
    def checked(self) -> tuple[Checked, ...]:
        return tuple(c for record in self.records for c in check(self.experiment, record)) if self.experiment else ()

    @cached_property
    def charts(self) -> "Mapping[str, Chart]":
        """By title; of records that the experiment's present version made."""
        if self.experiment is None or self.experiment.charts is None:
            return {}
        current = [record for record in self.records if record.version == self.experiment.version]
        return self.experiment.charts(current) if current else {}

    @property
    def summary(self) -> str:
        return summary(self.checked) if self.checked else "no claims"

    @property
    def measured(self) -> list[tables.Table]:
        return tables.measured(self.records)

    @property
    def claims(self) -> tables.Table | None:
        return tables.claims(self.records, self.checked) if self.checked else None

    @property
    def facts(self) -> tables.Table:
        return tables.facts(self.records)

    def pictures(self) -> Iterator[tuple[str, str, str]]:
        """Title, SVG and caption of each chart."""
        from cutaway.charts import svg

        for n, (title, chart) in enumerate(self.charts.items(), start=1):
            yield title, apart(svg(chart), f"{self.name}-{n}-"), self.caption(chart)

    def caption(self, chart: "Chart") -> str:
        """How many values each point stands for, what the lines are, and what the figure does not show."""
        from cutaway.charts import rows_of

        rows = [row for row in rows_of(chart) if "value" in row]
        counts = sorted({int(row["n"]) for row in rows if row.get("n")})
        spread = any(row.get("low") != row.get("high") for row in rows)
        levels = sorted({f"{m.level:.0%}".replace("%", " %") for record in self.records for m in record.measurements if m.level})
        said = [f"n = {counts[0]:,}" if len(counts) == 1 else f"n = {counts[0]:,} to {counts[-1]:,}"] if counts else []
        said += [f"lines are intervals at {', '.join(levels)}" if spread else "single values, without intervals"]
        text = "; ".join(said)
        shows = f" It does not show {self.experiment.not_shown}." if self.experiment and self.experiment.not_shown else ""
        return f"{text[0].upper() if not counts else text[0]}{text[1:]}.{shows}"

    def markdown(self, figures: Sequence[str] = ()) -> str:
        """Claims, figures (links to them, in the order of the charts), measurements and facts."""
        parts = [f"{self.summary[0].upper()}{self.summary[1:]}."]
        if self.claims:
            parts += [self.claims.markdown(), reasons(self.checked)]
        for (title, chart), link in zip(self.charts.items(), figures, strict=False):
            parts += [f"![{title}]({link})", f"*{title}. {self.caption(chart)}*"]
        for table in self.measured:
            short = len(table.rows) <= LONG
            parts += [f"**{table.title}**", table.markdown() if short else f"{len(table.rows)} rows: `{self.name}.*.json` hold them."]
        return "\n\n".join([*parts, f"**{self.facts.title}**", self.facts.markdown()])


def reasons(checked: Sequence[Checked]) -> str:
    """Why each claim was expected, and what would make it fail; a list in Markdown."""
    found = dict.fromkeys((c.claim.measurement, c.claim.reason, c.claim.fails_if) for c in checked)
    return "\n".join(f"- `{name}`. Reason: {reason}. It fails if {fails_if}." for name, reason, fails_if in found)


def apart(svg: str, prefix: str) -> str:
    """The picture with names of its own: several in one page must not share their clips.

    >>> apart('<g clip-path="url(#clip0)"/><clipPath id="clip0"/>', "a-")
    '<g clip-path="url(#a-clip0)"/><clipPath id="a-clip0"/>'
    """
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", svg)


@dataclass(frozen=True)
class Report:
    """All sections, by name of the experiment; `source`: whence the records came, in words."""

    sections: tuple[Section, ...]
    source: str

    @property
    def summary(self) -> str:
        return summary([c for section in self.sections for c in section.checked])

    def to_dict(self) -> dict[str, Any]:
        found = [
            {
                "experiment": section.name,
                "question": section.experiment.question if section.experiment else None,
                "records": [record.to_dict() for record in section.records],
                "claims": [c.to_dict() for c in section.checked],
            }
            for section in self.sections
        ]
        return {"source": self.source, "summary": self.summary, "experiments": found}

    def markdown(self, figures: Mapping[str, Sequence[str]]) -> str:
        """figures: by experiment the links to its charts."""
        parts = [f"# What was measured\n\n{self.source}. {self.summary}."]
        for section in self.sections:
            question = f"{section.experiment.question}\n\n" if section.experiment else ""
            parts.append(f"## {section.name}\n\n{question}{section.markdown(figures.get(section.name, ()))}")
        return "\n\n".join(parts) + "\n"

    def page(self) -> str:
        """One self-contained HTML page."""
        from cutaway.render import render

        return render("page.html", body=self._repr_html_(), title="What was measured")

    def _repr_html_(self) -> str:
        from cutaway.render import render

        return render("report.html", report=self, label=tables.label)


def report(records: Sequence[Record], source: str) -> Report:
    """Raises LabError if there is none."""
    if not records:
        raise LabError("There is nothing to report: no record is there", then="cutaway lab run makes one")
    known = experiments()
    ordered = sorted(records, key=lambda record: (record.experiment, record.model_name))
    grouped = groupby(ordered, key=lambda record: record.experiment)
    return Report(tuple(Section(name, known.get(name), tuple(group)) for name, group in grouped), source)
