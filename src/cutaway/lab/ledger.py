"""The ledger: every record made here, and the finished units of runs that were stopped. One SQLite file, for several processes.

What is written is written whole or not at all. A file from an older version is brought up to date when it is opened; one
from a newer version, or a damaged one, is left as it is.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cutaway.errors import LabError
from cutaway.lab.record import Record

VARIABLE = "CUTAWAY_LEDGER"
HERE = "here"  # the origin of a record that was made on this machine
ASIDE = "keep the file aside and name another with --ledger; published records are not in it"
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
        self.named = path is not None or VARIABLE in os.environ
        self.patience = patience

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """The file, at this version. Raises LabError if it cannot be used, and changes nothing then."""
        self.make_room()
        try:
            with closing(sqlite3.connect(self.path, timeout=self.patience, isolation_level=None)) as file:
                self.migrate(file)
                yield file
        except (sqlite3.Error, OSError) as error:
            raise self.unusable(error) from error

    def make_room(self) -> None:
        """The folder is made where nobody named it. A folder that somebody named and that is not there is a slip of the pen."""
        folder = self.path.parent
        try:
            if not self.named:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self.unusable(error) from error
        if not folder.is_dir():
            raise LabError(f"There is no folder {folder} for the ledger", then="make it, or name a file in a folder that is there")

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
        elif "not a database" in said or "malformed" in said:
            why, then = f"it is damaged ({self.damage() or said})", ASIDE
        elif "full" in said:
            why, then = "the disk is full", "make room and run the same command again; what was there is still there"
        elif self.path.is_dir():
            why, then = "it is a folder", "name a file in it, with --ledger"
        else:
            why, then = said, "name a file in a folder that can be written, with --ledger"
        return LabError(f"The ledger {self.path} cannot be used: {why}", then=then)

    def damage(self) -> str:
        """What SQLite itself finds wrong, which takes a while and is asked only of a file that failed; "" if it cannot say."""
        try:
            with closing(sqlite3.connect(self.path)) as file:
                (found,) = file.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.Error:
            return ""
        return "" if found == "ok" else str(found).splitlines()[-1]

    def check(self) -> None:
        """Raises LabError if it could not be written now."""
        with self.opened() as file:
            file.execute("BEGIN IMMEDIATE")
            file.execute(f"PRAGMA user_version = {VERSION}")
            file.execute("ROLLBACK")

    def add(self, record: Record, run: str | None = None, origin: str = HERE) -> None:
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
        """The newest record of each experiment and model, of these experiments or all; what was added from elsewhere says so."""
        with self.opened() as file:
            rows = file.execute("SELECT id, json, origin FROM records ORDER BY experiment, model, made, id").fetchall()
        found: dict[tuple[str, str], Record] = {}
        for number, text, origin in rows:
            try:
                record = Record.from_dict(json.loads(text))
            except (ValueError, LabError) as error:
                given = f"Record {number} in the ledger {self.path} is damaged: {error}"
                raise LabError(given, then=ASIDE) from None
            if not names or record.experiment in names:
                where = {} if origin == HERE else {"origin": origin}
                found[record.experiment, record.model_name] = replace(record, facts={**record.facts, **where})
        return list(found.values())


class Keeper:
    """Writes to a ledger as long as it takes what is written. The first refusal is held in `error`, and no more is tried:
    what was measured is still shown, and the error after it.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.error: LabError | None = None
        self.attempt(ledger.check)

    def attempt(self, write: Callable[[], None]) -> None:
        if self.error is None:
            try:
                write()
            except LabError as error:
                self.error = error

    def units(self, run: str) -> "Units":
        return Units(self, run)

    def keep(self, record: Record, run: str | None = None) -> None:
        self.attempt(partial(self.ledger.add, record, run))


class Units(MutableMapping[str, Any]):
    """The finished units of one run, kept in the ledger as soon as they are done."""

    def __init__(self, keeper: Keeper, run: str) -> None:
        self.keeper, self.run = keeper, run
        self.held: dict[str, Any] = {}
        keeper.attempt(self.read)

    def read(self) -> None:
        with self.keeper.ledger.opened() as file:
            rows = file.execute("SELECT unit, json FROM units WHERE run = ?", (self.run,)).fetchall()
        self.held = {unit: json.loads(text) for unit, text in rows}

    def __getitem__(self, unit: str) -> Any:
        return self.held[unit]

    def __setitem__(self, unit: str, value: Any) -> None:
        self.write("INSERT OR REPLACE INTO units VALUES (?, ?, ?)", self.run, unit, json.dumps(value))
        self.held[unit] = value

    def __delitem__(self, unit: str) -> None:
        self.write("DELETE FROM units WHERE run = ? AND unit = ?", self.run, unit)
        del self.held[unit]

    def write(self, statement: str, *values: str) -> None:
        def execute() -> None:
            with self.keeper.ledger.opened() as file:
                file.execute(statement, values)

        self.keeper.attempt(execute)

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)
