"""Bad ledgers: one message each, nothing lost. And what a record may hold, wherever it came from."""

import json
import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutaway.errors import LabError
from cutaway.lab import publish, runner
from cutaway.lab.ledger import Keeper, Ledger
from cutaway.lab.measurement import Measurement
from cutaway.lab.record import Record, command, commit, scrubbed
from tests.lab.own import mine, task

__all__ = ["mine"]  # a fixture


@pytest.fixture
def record() -> Record:
    return Record("mine", 1, {}, None, 1, 0.95, (Measurement("sum", 30),), {"started": "2026", "threads": 1, "seconds": 0.1})


@pytest.fixture
def connecting(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[sqlite3.Connection], object], str], None]:
    """Let every connection be spoiled after it is made, or opened read-only."""
    connect = sqlite3.connect

    def spoil(after: Callable[[sqlite3.Connection], object], mode: str = "rwc") -> None:
        def opened(path: Path, **options: Any) -> sqlite3.Connection:
            file: sqlite3.Connection = connect(f"file:{path}?mode={mode}", uri=True, **options)
            after(file)
            return file

        monkeypatch.setattr(sqlite3, "connect", opened)

    return spoil


def test_a_full_disk_keeps_what_was_there(record: Record, tmp_path: Path, connecting: Any) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.add(record)
    big = replace(record, facts={**record.facts, "long": "x" * 200_000})
    connecting(lambda file: file.execute("PRAGMA max_page_count = 12"))
    with pytest.raises(LabError, match="the disk is full.*make room"):
        ledger.add(big)
    assert ledger.newest() == [record]


def test_a_read_only_ledger_is_read_and_not_written(record: Record, tmp_path: Path, connecting: Any) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.add(record)
    connecting(lambda file: None, "ro")
    assert ledger.newest() == [record]
    for write in (ledger.check, lambda: ledger.add(record)):
        with pytest.raises(LabError, match="may not be written.*permissions"):
            write()


def test_damage_inside_is_found_by_sqlite(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    for n in range(40):
        Ledger(path).add(replace(record, experiment=f"mine{n}", facts={**record.facts, "long": "x" * 3000}))
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * 16384 + whole[24576:])
    with pytest.raises(LabError, match="damaged") as caught:
        Ledger(path).newest()
    assert "--ledger" in str(caught.value)


def test_a_damaged_record_inside_is_named(record: Record, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.add(record)
    with ledger.opened() as file:
        file.execute("UPDATE records SET json = '{'")
    with pytest.raises(LabError, match="Record 1 in the ledger"):
        ledger.newest()


def test_only_the_folder_that_nobody_named_is_made(record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data/cutaway/ledger.sqlite"
    with pytest.raises(LabError, match="There is no folder"):
        Ledger(path).add(record)
    monkeypatch.delenv("CUTAWAY_LEDGER", raising=False)
    monkeypatch.setattr("cutaway.lab.ledger.ledger_path", lambda: path)
    Ledger().add(record)
    assert Ledger(path).newest() == [record]


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="it is a folder"):
        Ledger(tmp_path).newest()


def test_a_ledger_that_fails_half_way_loses_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Keeper(Ledger(tmp_path / "ledger.sqlite"))
    held = keeper.units("run")
    held["a/0"] = 1
    tried = []

    def refuse(ledger: Ledger) -> Any:
        tried.append(ledger)
        raise LabError("full")

    with monkeypatch.context() as broken:
        broken.setattr(Ledger, "opened", refuse)
        held["a/1"] = 2
        held["a/2"] = 3
        assert dict(keeper.units("run")) == {}
    assert dict(held) == {"a/0": 1, "a/1": 2, "a/2": 3}
    assert len(tried) == 1  # waiting for a locked file once is enough
    assert "full" in str(keeper.error)
    assert dict(Keeper(keeper.ledger).units("run")) == {"a/0": 1}


def test_the_same_record_whoever_reads_it(mine: Path, tmp_path: Path) -> None:
    made = runner.perform(task(mine))
    assert made == Record.from_dict(json.loads(json.dumps(made.to_dict())))
    assert made.as_written() == made
    held = replace(made, measurements=(Measurement("x", np.float32(0.5)), Measurement("n", np.int64(3)), Measurement("y", np.bool_(1))))  # type: ignore[arg-type]
    assert [m.value for m in held.as_written().measurements] == [0.5, 3, True]
    with pytest.raises(LabError, match="no record can hold"):
        replace(made, measurements=(Measurement("x", float("nan")),)).as_written()


def test_no_path_reaches_a_record(mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = runner.perform(task(mine, command="cutaway lab run mine.py"))
    (note,) = [m.note for m in made.measurements if m.name == "cube"]
    assert note == "see seen"  # the experiment gave the whole path
    for word in (str(tmp_path), str(Path.home()), os.environ.get("USER", "no-user")):
        assert f'"{word}' not in json.dumps(made.to_dict())
    assert scrubbed(["C:\\Users\\ada\\x.txt", "d^-1/4 and/or", "https://a.org/b/c.zip"]) == ["x.txt", "d^-1/4 and/or", "https://a.org/b/c.zip"]
    monkeypatch.setattr("sys.argv", ["/usr/bin/cutaway", "lab", "run", "./mine.py", "--data=/home/ada/sets", "--out", "/tmp/x.json"])
    assert command() == "cutaway lab run mine.py --data=sets --out x.json"


@pytest.mark.parametrize(
    "changes",
    (
        {"experiment": "../../elsewhere"}, {"experiment": 3}, {"seed": "1"}, {"facts": []}, {"model": {"name": "x"}}, {"more": 1},
        {"schema": "cutaway.record/2"}, {"measurements": [{"name": "x", "value": "high"}]}, {"measurements": [{"name": "x"}]},
        {"measurements": [{"name": "x", "value": 1, "interval": [1]}]}, {"measurements": [{"name": "x", "value": 1, "kind": "sure"}]},
        {"measurements": [{"name": "x", "value": 1, "at": {"d": [1, 2]}}]}, {"measurements": [{"name": "x", "value": float("inf")}]},
    ),
    ids=str,
)  # fmt: skip
def test_what_is_no_record_is_refused(record: Record, tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps(record.to_dict() | changes))
    with pytest.raises(LabError, match="theirs.json"):
        publish.read(path)


def test_what_came_from_elsewhere_says_so(record: Record, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.add(record, origin="elsewhere")
    (found,) = ledger.newest()
    assert found == replace(record, facts={**record.facts, "origin": "elsewhere"})


def test_publishing_names_all_that_it_refuses(record: Record, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for name, facts in (("good", {"commit": "a", "dirty": False}), ("bare", {"commit": None}), ("changed", {"commit": "a", "dirty": True})):
        ledger.add(replace(record, experiment=name, facts={**record.facts, **facts}))
    with pytest.raises(LabError, match=r"bare on none \(.*without a commit\), changed on none \(.*not committed\)"):
        publish.publish(ledger, tmp_path / "records")
    assert not (tmp_path / "records").exists()
    assert [path.name for path in publish.publish(ledger, tmp_path / "records", ["good"])] == ["good.none.json"]
    with pytest.raises(LabError, match="no record of absent"):
        publish.publish(ledger, tmp_path / "records", ["good", "absent"])


def test_code_of_ones_own_without_a_repository_has_no_commit(mine: Path) -> None:
    found = commit(mine)
    assert found["commit"] is None
    assert "commit" in commit()
    assert publish.unrepeatable(runner.perform(task(mine)))
