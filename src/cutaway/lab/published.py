"""The records that come with this package: beside it when installed, at the top of a checkout otherwise."""

from functools import cache
from pathlib import Path

from cutaway.lab.publish import read
from cutaway.lab.record import Record

PACKAGE = Path(__file__).parents[1]


def records_folder() -> Path:
    packaged = PACKAGE / "records"
    return packaged if packaged.is_dir() else PACKAGE.parents[1] / "records"


def records(experiment: str | None = None) -> list[Record]:
    """Those of one experiment or all, by experiment and model. Raises LabError for a file that is no record."""
    return [record for record in in_folder(records_folder()) if experiment in (None, record.experiment)]


@cache
def in_folder(folder: Path) -> tuple[Record, ...]:
    return tuple(read(path) for path in sorted(folder.glob("*.json")))
