"""What is published holds: every record reads, names its commit, and bears out the claims of its experiment."""

from pathlib import Path

import pytest

from cutaway.lab.claims import Needs
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
    checked = [claim for claim in e.claims if record.model is None or fits(claim.of, record.model["causal"])]
    assert checked
    assert {claim.check(record.find(claim.measurement)) for claim in checked} <= {"holds", "not measured here"}


def fits(needs: Needs, causal: bool) -> bool:
    return needs.causal is None or needs.causal == causal
