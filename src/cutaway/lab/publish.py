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

    Raises LabError, before anything is written, for a record of a dirty tree or of no commit, or when there is none.
    """
    records = ledger.newest(tuple(names))
    if not records:
        raise LabError(f"The ledger {ledger.path} has no record of {', '.join(names) or 'anything'}", then="cutaway lab run makes one")
    for record in records:
        if record.facts.get("dirty") or not record.facts.get("commit"):
            how = "a tree with changes that were not committed" if record.facts.get("dirty") else "code without a commit"
            given = f"{record.experiment} on {record.model_name} was measured on {how}"
            raise LabError(given, expected="a record that names the code it was made by", then="commit, and run it again")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for record in records:
            write_text(folder / record.file_name, json.dumps(record.to_dict(), indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise LabError(f"{folder} cannot be written: {error.strerror or error}", then="name a folder that can be") from None
    return [folder / record.file_name for record in records]


def read(path: Path) -> Record:
    """A record from a file. Raises LabError if it is none."""
    try:
        return Record.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise LabError(f"{path} cannot be read as a record: {error}", expected="a file that cutaway lab publish wrote") from None
    except LabError as error:
        raise LabError(f"{path}: {error.given}", expected=error.expected) from None
