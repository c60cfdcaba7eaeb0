"""What is published holds: every record reads, names its commit, and bears out the claims of its experiment."""

from pathlib import Path

import pytest

from cutaway import charts
from cutaway.lab.find import find
from cutaway.lab.publish import read

FILES = sorted((Path(__file__).parents[2] / "records").glob("*.json"))


def test_there_are_some() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_published_record_bears_out_its_claims(path: Path) -> None:
    record = read(path)
    assert path.name == record.file_name
    assert record.facts["commit"]
    assert not record.facts["dirty"]
    (e,) = find(record.experiment)
    checked = e.claims_on(record)
    assert checked
    assert {claim.check(record.find(claim.measurement)) for claim in checked} == {"holds"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_its_charts_are_drawn(path: Path) -> None:
    record = read(path)
    (e,) = find(record.experiment)
    for title, chart in (e.charts([record]) if e.charts else {}).items():
        drawn = charts.svg(chart)
        assert title.split()[0] in drawn and "mark-" in drawn, title
