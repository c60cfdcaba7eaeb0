"""What is published holds: every record reads, names its commit, and bears out the claims of its experiment."""

from pathlib import Path

import pytest

from cutaway import charts
from cutaway.lab.document import published
from cutaway.lab.experiment import Experiment
from cutaway.lab.find import experiments, find
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
    assert {claim.check(record.find(claim.measurement)) for claim in e.claims_on(record)} <= {"holds"}


@pytest.mark.parametrize("e", experiments().values(), ids=lambda e: e.name)
def test_every_claim_is_borne_out_by_a_record(e: Experiment) -> None:
    told = {claim for path in FILES for record in [read(path)] if record.experiment == e.name for claim in e.claims_on(record)}
    assert e.claims
    assert set(e.claims) == told


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_its_charts_are_drawn(path: Path) -> None:
    record = read(path)
    (e,) = find(record.experiment)
    for title, chart in (e.charts([record]) if e.charts else {}).items():
        drawn = charts.svg(chart)
        assert title.split()[0] in drawn and "mark-" in drawn, title


@pytest.mark.parametrize("e", [e for e in experiments().values() if e.charts], ids=lambda e: e.name)
def test_every_figure_says_what_it_does_not_show(e: Experiment) -> None:
    assert e.not_shown
    section = published(e.name)
    for chart in section.charts.values():
        caption = section.caption(chart)
        assert caption.endswith(f"It does not show {e.not_shown}.")
        assert caption.startswith(("n = ", "Single values", "Lines are"))
