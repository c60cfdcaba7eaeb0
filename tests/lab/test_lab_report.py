"""What the records say, as pages, Markdown and the docs' blocks: every value is a record's, and nothing in a record is code."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from cutaway.errors import LabError
from cutaway.lab import document, published, runner, tables
from cutaway.lab import report as reporting
from cutaway.lab.find import of_file
from cutaway.lab.measurement import Measurement
from cutaway.lab.record import Record
from cutaway.lab.report import Report, Section, report
from cutaway.lab.verify import Checked, Verification, check, summary
from tests.lab.own import mine, task

__all__ = ["mine"]  # a fixture

MODEL = {"model": "small", "weights_sha256": "ab" * 32, "causal": True, "head": "lm", "nano": True, "dtype": "float32", "device": "cpu"}


@pytest.fixture
def section(mine: Path) -> Section:
    e = of_file(mine)[0]
    made = runner.perform(task(mine))
    other = replace(made, model=MODEL, measurements=(Measurement("sum", 29), Measurement("square", 49, at={"n": 7})))
    return Section("mine", e, (made, other))


def test_verdicts_come_from_the_records(section: Section) -> None:
    assert [(c.model, c.claim.measurement, c.verdict) for c in section.checked] == [
        (None, "sum", "holds"), (None, "mean", "holds"), (None, "nowhere", "not measured here"),
        ("small", "sum", "fails"), ("small", "mean", "not measured here"), ("small", "nowhere", "not measured here"),
    ]  # fmt: skip
    assert section.summary == "6 claims: 2 hold, 1 fails, 3 not measured here"


def test_a_record_of_another_version_says_nothing(section: Section) -> None:
    older = replace(section.records[0], version=0)
    assert section.experiment is not None
    checked = list(check(section.experiment, older))
    assert {c.verdict for c in checked} == {"not measured here"}
    assert "version 0" in checked[0].measured
    assert Section("mine", section.experiment, (older,)).charts == {}


def test_tables_hold_each_measurement_once(section: Section) -> None:
    once, square = section.measured
    assert once.header == ("", "value", "small (nano)", "n")
    rows = {row[0]: row[1:] for row in once.rows}
    assert rows["sum"] == ("30", "29", "–")
    found = section.records[0].find("mean")
    assert found is not None
    assert found.interval is not None
    low, high = found.interval
    (mean,) = [row for name, row in rows.items() if name.startswith("mean")]
    assert mean == (f"{found.value:.4g} ({low:.4g} to {high:.4g})", "–", "100 / –")
    assert "intervals at 95 %" in next(name for name in rows if name.startswith("mean"))
    assert rows["cube"][0] == "not measured: see seen"
    assert square.header == ("n", "value", "small (nano)")
    assert square.rows == (*((str(n), str(n * n), "–") for n in range(5)), ("7", "–", "49"))


class Reader(HTMLParser):
    """Tags that are not closed, elements that load something, and names that are there twice."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loaded: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag not in ("meta", "br", "path", "line", "rect"):
            self.open.append(tag)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.loaded += [tag] if tag in ("script", "link", "img", "iframe") or "src" in found else []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in ("path", "line", "rect"):
            return
        assert self.open.pop() == tag, tag


def test_the_page_stands_alone_and_runs_nothing(section: Section) -> None:
    evil = replace(section.records[0], model={**MODEL, "model": "<script>alert(1)</script>"})
    sections = (replace(section, records=(*section.records, evil)), Section("theirs", None, section.records))
    page = Report(sections, "Records of a test").page()
    read = Reader(page)
    assert read.open == []
    assert read.loaded == []
    assert len(set(read.ids)) == len(read.ids)
    assert "<script" not in page
    assert "Squares &lt;b&gt;?" in page
    assert page.count("<svg") == 1
    assert "small (nano)" in page
    assert "not installed here" in page
    assert section.records[0].facts["started"][:10] in page


def test_two_charts_do_not_share_their_clips() -> None:
    parts = [reporting.apart('<g clip-path="url(#clip0)"/><clipPath id="clip0"/>', f"e-{n}-") for n in (1, 2)]
    assert re.findall(r'id="(.*?)"', "".join(parts)) == ["e-1-clip0", "e-2-clip0"]


def test_markdown_says_the_same(section: Section) -> None:
    text = Report((section,), "Records of a test").markdown({"mine": ["mine.1.svg"]})
    assert "| The sum is known | `sum == 30` | holds: 30 | fails: 29 |" in text
    assert "![Squares <&>](mine.1.svg)" in text
    assert "`sum`. Reason: arithmetic. It fails if squares were others." in text
    assert all(line.count("|") > 2 for line in text.splitlines() if line.startswith("|"))


def test_nothing_to_report_is_said() -> None:
    with pytest.raises(LabError, match="nothing to report"):
        report([], "Published records")


def test_every_published_record_is_reported() -> None:
    found = report(published.records(), "Published records")
    assert sum(len(section.records) for section in found.sections) == len(list(published.records_folder().glob("*.json")))
    assert not [c for section in found.sections for c in section.checked if c.verdict == "fails"]
    assert found.to_dict()["experiments"]


def test_results_show_themselves(section: Section) -> None:
    record = section.records[0]
    assert "not measured: see seen" in record._repr_html_()
    result = Verification(7, 0.999, section.checked, (MODEL | {"threads": 1},), {})
    assert "Seed 7" in result._repr_html_()
    assert result.to_dict()["claims"][3]["verdict"] == "fails"
    assert "abababababab" in result._repr_html_()


def test_summaries_count() -> None:
    assert summary([]) == "0 claims: none"


def test_the_docs_follow_the_records(section: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[Record] = []
    monkeypatch.setattr(document, "find", lambda name: [section.experiment])
    monkeypatch.setattr(document, "records", lambda name: records)
    assert document.table("mine") == "Not measured yet: `cutaway lab run mine` measures it."
    (tmp_path / "mine.md").touch()
    (tmp_path / "mine.9.svg").touch()
    records.append(section.records[0])
    assert "![Squares <&>](mine.1.svg)" in document.table("mine")
    assert document.stale(tmp_path) == ["mine.1.svg", "mine.9.svg"]
    assert document.draw(tmp_path) == [tmp_path / "mine.1.svg"]
    assert document.stale(tmp_path) == []
    assert [path.name for path in tmp_path.glob("*.svg")] == ["mine.1.svg"]
    records[0] = replace(records[0], measurements=(Measurement("square", 2, at={"n": 0}),))
    assert document.stale(tmp_path) == ["mine.1.svg"]


def test_long_tables_are_told_of(section: Section) -> None:
    many: list[Any] = [Measurement("square", n, at={"n": n}) for n in range(reporting.LONG + 1)]
    text = Section("mine", None, (replace(section.records[0], measurements=tuple(many)),)).markdown()
    assert f"{reporting.LONG + 1} rows" in text


def test_what_shaped_the_numbers_is_told(section: Section) -> None:
    facts = {row[0]: row[1:] for row in tables.facts(section.records).rows}
    assert facts["seed"] == ("1", "1")
    assert facts["weights sha256"] == ("–", "abababababab")
    assert {"threads", "started", "seconds", "machine", "torch"} <= set(facts)


def test_a_verdict_says_what_it_rests_on(section: Section) -> None:
    assert section.experiment is not None
    claim = section.experiment.claims[0]
    assert tables.verdict(Checked("mine", None, claim, Measurement("sum", 30), "holds")) == "holds: 30"
    assert tables.verdict(None) == "–"
