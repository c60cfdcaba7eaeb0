"""The ledger: every record made here, and the finished units of runs that were stopped. One SQLite file, for several processes.

What is written is written whole or not at all. A file from an older version is brought up to date when it is opened; one
from a newer version, or a damaged one, is left as it is.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, MutableMapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from cutaway.errors import LabError
from cutaway.lab.record import Record

VARIABLE = "CUTAWAY_LEDGER"
PATIENCE = 30.0  # seconds to wait for another process that writes

# Each brings the file from one version to the next. Version 1 had no units: a stopped run began anew.
MIGRATIONS = (
    "CREATE TABLE records (id INTEGER PRIMARY KEY, experiment TEXT NOT NULL, model TEXT NOT NULL, made TEXT NOT NULL, json TEXT NOT NULL);"
    "CREATE INDEX records_by_name ON records (experiment, model, made);",
    "CREATE TABLE units (run TEXT NOT NULL, unit TEXT NOT NULL, json TEXT NOT NULL, PRIMARY KEY (run, unit));"
    "ALTER TABLE records ADD COLUMN origin TEXT NOT NULL DEFAULT 'here';",
)
VERSION = len(MIGRATIONS)


def ledger_path() -> Path:
    """CUTAWAY_LEDGER, else the place that the system gives to a user's data."""
    if given := os.environ.get(VARIABLE):
        return Path(given).expanduser()
    from platformdirs import user_data_path

    return user_data_path("cutaway", appauthor=False) / "ledger.sqlite"


class Ledger:
    """One file of records. Every call opens it anew, so none holds a lock for longer than it writes."""

    def __init__(self, path: Path | None = None, patience: float = PATIENCE) -> None:
        self.path = path or ledger_path()
        self.patience = patience

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """The file, at this version. Raises LabError if it cannot be used, and changes nothing then."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=self.patience, isolation_level=None)) as file:
                self.migrate(file)
                yield file
        except (sqlite3.Error, OSError, ValueError) as error:
            raise self.unusable(error) from error

    def migrate(self, file: sqlite3.Connection) -> None:
        (version,) = file.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            given = f"The ledger {self.path} is of version {version}, made by a newer cutaway"
            raise LabError(given, expected=f"version {VERSION} or older", then="update cutaway, or name another file with --ledger")
        if version == VERSION:
            return
        file.execute("BEGIN IMMEDIATE")
        try:
            (version,) = file.execute("PRAGMA user_version").fetchone()  # another process may have been here first
            for statements in MIGRATIONS[version:]:
                for statement in filter(None, statements.split(";")):
                    file.execute(statement)
            file.execute(f"PRAGMA user_version = {VERSION}")
            file.execute("COMMIT")
        except BaseException:
            file.execute("ROLLBACK")
            raise

    def unusable(self, error: Exception) -> LabError:
        said = str(error)
        if "locked" in said:
            why = f"another process has held it for {self.patience:.0f} seconds"
            then = "wait for that to end, and run the same command again"
        elif "readonly" in said or isinstance(error, PermissionError):
            why, then = "it may not be written", "change its permissions, or name another file with --ledger"
        elif "not a database" in said or "malformed" in said or isinstance(error, ValueError):
            why, then = f"it is damaged ({said})", "keep it aside and name another with --ledger; published records are not in it"
        elif "full" in said:
            why, then = "the disk is full", "make room and run the same command again; what was there is still there"
        else:
            why, then = said, "name a file in a folder that can be written, with --ledger"
        return LabError(f"The ledger {self.path} cannot be used: {why}", then=then)

    def add(self, record: Record, run: str | None = None, origin: str = "here") -> None:
        """Write a record, and forget the units of the run that made it, both or neither."""
        text = json.dumps(record.to_dict(), allow_nan=False)
        with self.opened() as file:
            file.execute("BEGIN IMMEDIATE")
            values = (record.experiment, record.model_name, record.facts.get("started", ""), text, origin)
            file.execute("INSERT INTO records (experiment, model, made, json, origin) VALUES (?, ?, ?, ?, ?)", values)
            if run is not None:
                file.execute("DELETE FROM units WHERE run = ?", (run,))
            file.execute("COMMIT")

    def newest(self, names: tuple[str, ...] = ()) -> list[Record]:
        """The newest record of each experiment and model, of these experiments or all."""
        with self.opened() as file:
            rows = [json.loads(text) for (text,) in file.execute("SELECT json FROM records ORDER BY experiment, model, made, id")]
        found: dict[tuple[str, str], Record] = {}
        for row in rows:
            record = Record.from_dict(row)
            if not names or record.experiment in names:
                found[record.experiment, record.model_name] = record
        return list(found.values())


class Units(MutableMapping[str, Any]):
    """The finished units of one run, kept in the ledger as soon as they are done."""

    def __init__(self, ledger: Ledger, run: str) -> None:
        self.ledger, self.run = ledger, run
        with ledger.opened() as file:
            self.held = {unit: json.loads(text) for unit, text in file.execute("SELECT unit, json FROM units WHERE run = ?", (run,))}

    def __getitem__(self, unit: str) -> Any:
        return self.held[unit]

    def __setitem__(self, unit: str, value: Any) -> None:
        with self.ledger.opened() as file:
            file.execute("INSERT OR REPLACE INTO units VALUES (?, ?, ?)", (self.run, unit, json.dumps(value)))
        self.held[unit] = value

    def __delitem__(self, unit: str) -> None:
        with self.ledger.opened() as file:
            file.execute("DELETE FROM units WHERE run = ? AND unit = ?", (self.run, unit))
        del self.held[unit]

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)
