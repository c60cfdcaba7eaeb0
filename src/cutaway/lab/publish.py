"""Records as files: out of the ledger into `records/`, which is committed and read by the docs; and others' records in."""

import json
from collections.abc import Sequence
from pathlib import Path

from cutaway.errors import LabError
from cutaway.lab.ledger import Ledger
from cutaway.lab.record import Record
from cutaway.writing import write_text


def publish(ledger: Ledger, folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Write the newest record of each experiment and model as <experiment>.<model>.json; returns the files.

    Raises LabError, before anything is written, for records of a dirty tree or of no commit, or when there is none.
    """
    records = ledger.newest(tuple(names))
    if missing := set(names) - {record.experiment for record in records}:
        raise LabError(f"The ledger {ledger.path} has no record of {', '.join(sorted(missing))}", then="cutaway lab run makes one")
    if not records:
        raise LabError(f"The ledger {ledger.path} has no record", then="cutaway lab run makes one")
    if refused := [f"{record.experiment} on {record.model_name} ({why})" for record in records if (why := unrepeatable(record))]:
        given = f"{', '.join(refused)} cannot be published"
        raise LabError(given, expected="records that name the code they were made by", then="commit, and run again, or name others")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for record in records:
            write_text(folder / record.file_name, json.dumps(record.to_dict(), indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise LabError(f"{folder} cannot be written: {error.strerror or error}", then="name a folder that can be") from None
    return [folder / record.file_name for record in records]


def unrepeatable(record: Record) -> str:
    """Why nobody else could run this record's code; empty if anybody can."""
    if record.facts.get("dirty"):
        return "its code had changes that were not committed"
    return "" if record.facts.get("commit") else "its code was without a commit"


def read(path: Path) -> Record:
    """A record from a file. Raises LabError if it is none."""
    try:
        return Record.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise LabError(f"{path} cannot be read as a record: {error}", expected="a file that cutaway lab publish wrote") from None
    except LabError as error:
        raise LabError(f"{path}: {error.given}", expected=error.expected) from None
