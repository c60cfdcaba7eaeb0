"""The lab's machinery on a small experiment of its own: records, the ledger, stopping and going on, claims, publishing."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from cutaway.errors import CutawayError, LabError, ModelError
from cutaway.lab import find as finding
from cutaway.lab import plan as planning
from cutaway.lab import publish, runner
from cutaway.lab.claims import CAUSAL, Claim, Needs
from cutaway.lab.experiment import NotTrainedError, Run, experiment
from cutaway.lab.find import find
from cutaway.lab.ledger import MIGRATIONS, VERSION, Keeper, Ledger
from cutaway.lab.measurement import Measurement
from cutaway.lab.parameters import parse
from cutaway.lab.record import Record
from cutaway.lab.statistics import bootstrap, mean_interval, median_interval, share_interval
from cutaway.lab.verify import verify
from tests.lab.own import mine, silent, task

__all__ = ["mine"]  # a fixture

def test_a_record_holds_what_shaped_it_and_no_path(mine: Path, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    made = runner.perform(task(mine), Keeper(ledger))
    assert ledger.newest() == [made]
    again = Record.from_dict(json.loads(json.dumps(made.to_dict())))
    assert again == made
    text = json.dumps(made.to_dict())
    assert str(tmp_path) not in text
    assert os.uname().nodename not in text
    assert made.parameters == {"many": 5, "offset": 0.0, "sizes": [1, 2]}
    assert {"commit", "machine", "versions", "started", "seconds", "threads", "command"} <= set(made.facts)


def test_the_same_seed_gives_the_same_and_another_does_not(mine: Path) -> None:
    one, same, other = (runner.perform(task(mine, seed=seed)).find("mean") for seed in (1, 1, 2))
    assert one == same != other


def test_two_processes_write_at_once(mine: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from cutaway.lab.ledger import Keeper, Ledger, Units\n"
        "units = Units(Keeper(Ledger(Path(sys.argv[1]))), sys.argv[2])\n"
        "for n in range(60): units[str(n)] = n"
    )
    path = str(tmp_path / "ledger.sqlite")
    both = [subprocess.Popen([sys.executable, "-c", code, path, name]) for name in ("a", "b")]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    with Ledger(Path(path)).opened() as file:
        assert file.execute("SELECT COUNT(*) FROM units").fetchone() == (120,)


def test_an_older_ledger_is_brought_up_to_date(mine: Path, tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    made = runner.perform(task(mine))
    old = sqlite3.connect(path, isolation_level=None)
    for statement in MIGRATIONS[0].split(";")[:-1]:
        old.execute(statement)
    values = (made.experiment, "none", "2026", json.dumps(made.to_dict()))
    old.execute("INSERT INTO records (experiment, model, made, json) VALUES (?, ?, ?, ?)", values)
    old.execute("PRAGMA user_version = 1")
    old.close()
    ledger = Ledger(path)
    assert ledger.newest() == [made]
    with ledger.opened() as file:
        assert file.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert file.execute("SELECT origin FROM records").fetchall() == [("here",)]


def test_bad_ledgers_are_refused_and_left_as_they_are(mine: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer.sqlite"
    file = sqlite3.connect(newer)
    file.execute(f"PRAGMA user_version = {VERSION + 1}")
    file.close()
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"no database at all " * 100)
    inside = tmp_path / "absent" / "ledger.sqlite"
    for path, word in ((newer, "newer"), (damaged, "damaged"), (inside, "no folder .*absent")):
        before = path.read_bytes() if path.exists() else None
        with pytest.raises(LabError, match=word):
            Ledger(path).newest()
        assert (path.read_bytes() if path.exists() else None) == before


def test_a_damaged_row_is_said(mine: Path, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.add(runner.perform(task(mine)))
    with ledger.opened() as file:
        file.execute("UPDATE records SET json = substr(json, 1, 100)")
    with pytest.raises(LabError, match="damaged"):
        ledger.newest()


@pytest.mark.long
def test_ray_gives_what_the_sequential_run_gives(mine: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    command = [sys.executable, "-m", "cutaway", "lab", "run", str(mine), "--model", "nano-gpt2", "--json"]
    found = []
    for engine in ("sequential", "ray"):
        more = ["--engine", engine, "--ledger", str(tmp_path / f"{engine}.sqlite")]
        done = subprocess.run(command + more, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        records = sorted(json.loads(done.stdout)["records"], key=lambda record: str(record["experiment"]))
        found.append([(record["experiment"], record["measurements"], record["facts"]["threads"]) for record in records])
        assert len(Ledger(tmp_path / f"{engine}.sqlite").newest()) == len(records) > 1
    assert found[0] == found[1]


def test_a_locked_or_full_ledger_loses_nothing(mine: Path, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    made = runner.perform(task(mine), Keeper(Ledger(path)))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LabError, match="another process has held it for 0 seconds"):
        Ledger(path, patience=0.2).add(made)
    holder.execute("ROLLBACK")
    holder.close()
    full = sqlite3.OperationalError("database or disk is full")
    assert "make room" in str(Ledger(path).unusable(full))
    assert "may not be written" in str(Ledger(path).unusable(sqlite3.OperationalError("attempt to write a readonly database")))
    assert Ledger(path).newest() == [made]


def test_claims_hold_fail_and_are_not_measured(mine: Path) -> None:
    found = {c.claim.measurement: c for c in verify([task(mine)], silent).claims}
    assert {name: c.verdict for name, c in found.items()} == {"sum": "holds", "mean": "holds", "nowhere": "not measured here"}
    assert found["mean"].found is not None
    assert found["mean"].found.level == pytest.approx(1 - 0.01 / 2)  # the equality is no statistic
    broken = verify([task(mine, parameters={"many": 4, "offset": -9.0})], silent)
    assert [c.verdict for c in broken.claims] == ["fails", "fails", "not measured here"]
    assert found["sum"].said == "mine:sum == 30 · exact"


def test_a_statistic_must_clear_the_bound_with_its_whole_interval() -> None:
    claim = Claim(sentence="", measurement="x", compare=">", bound=0.5, reason="", fails_if="")
    verdicts = [claim.check(Measurement("x", 0.6, kind="statistic", interval=i)) for i in ((0.55, 0.7), (0.4, 0.8), (0.1, 0.4))]
    assert verdicts == ["holds", "undecided", "fails"]


def test_an_exact_claim_about_a_float_is_refused() -> None:
    with pytest.raises(ValueError, match="another machine"):
        Claim(sentence="", measurement="x", compare="==", bound=0.3, reason="", fails_if="")


def test_unknown_names_and_wrong_kinds(mine: Path, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="did you mean e03_eight_lines"):
        find("e03_eight_line")
    with pytest.raises(LabError, match="no file"):
        find(str(tmp_path / "absent.py"))
    (tmp_path / "empty.py").write_text("x = 1")
    with pytest.raises(LabError, match="defines no experiment"):
        find(str(tmp_path / "empty.py"))
    with pytest.raises(LabError, match="nano-roberta is bidirectional, and this is about causal models"):
        planning.plan([str(mine)], ["nano-roberta"])
    tasks, _ = planning.plan([str(mine)], [])
    assert [str(t) for t in tasks] == ["mine", "trained", "reads", "causal_only on nano-gpt1", "causal_only on nano-gpt2"]
    assert "not trained on the micro-world" in Needs(own_world=True).unlike("other", True, "lm", False)
    assert Needs(own_world=True).unlike("nano", True, "lm", True) == ""
    tasks, skipped = planning.plan([str(mine)], ["nano-roberta"], skip_misfits=True, skip_training=True)
    assert [str(t) for t in tasks] == ["mine", "reads"]
    assert "bidirectional" in skipped[0].why
    assert "lab run trained" in skipped[1].why


def test_what_does_not_fit_in_memory_is_skipped_and_said(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "available", lambda: 1000)
    tasks, skipped = planning.plan([str(mine)], ["nano-gpt2"], skip_misfits=True)
    assert [str(t) for t in tasks] == ["mine", "trained", "reads"]
    assert "GiB" in skipped[0].why
    _, (skip,) = planning.plan([str(mine)], ["gpt2-xl"], skip_misfits=True)  # told from its name: nothing is fetched to find out
    assert "GiB" in skip.why


def test_parameters_are_typed(mine: Path) -> None:
    e = find(str(mine))[0]
    assert parse(e, ["many=7", "offset=0.5", "sizes=3,4"]) == {"many": 7, "offset": 0.5, "sizes": (3, 4)}
    with pytest.raises(LabError, match="many is 'x'.*many=5"):
        parse(e, ["many=x"])
    with pytest.raises(LabError, match="no parameter 'few'"):
        parse(e, ["few=1"])
    with pytest.raises(ModelError, match="no parameter few"):
        list(e.measure(Run(), few=1))


def test_publishing_refuses_what_nobody_can_repeat(mine: Path, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(LabError, match="no record"):
        publish.publish(ledger, tmp_path / "records")
    made = runner.perform(task(mine))
    for facts, word in (({"commit": "abc", "dirty": True}, "not committed"), ({"commit": None, "dirty": None}, "without a commit")):
        ledger.add(replace(made, facts={**made.facts, **facts, "started": word}))
        with pytest.raises(LabError, match=word):
            publish.publish(ledger, tmp_path / "records")
    assert not (tmp_path / "records").exists()
    clean = replace(made, facts={**made.facts, "commit": "abc", "dirty": False, "started": "z"})
    ledger.add(clean)
    (path,) = publish.publish(ledger, tmp_path / "records")
    assert path.name == "mine.none.json"
    assert publish.read(path) == clean.__class__.from_dict(json.loads(path.read_text(encoding="utf-8")))
    path.write_text(path.read_text()[:-40])
    with pytest.raises(CutawayError, match="cannot be read"):
        publish.read(path)


def test_intervals() -> None:
    rng = np.random.default_rng(1)
    low, high = share_interval(90, 90, 0.95)
    assert (round(low, 3), high) == (0.959, 1.0)  # the mirror image of 0 of 90: 0 to 4.1 %
    few = mean_interval([1.0, 2.0, 3.0], 0.95, rng)
    assert few == pytest.approx((2 - 4.302652729749464 / 3**0.5, 2 + 4.302652729749464 / 3**0.5))  # Student's table: t(2) at 97.5 %
    assert mean_interval([1.0] * 90, 0.95, rng, within=(0, 1)) == pytest.approx((low, 1.0))  # all agree: a share of 90 in 90
    assert mean_interval([1.0] * 90, 0.95, rng, groups=[0, 1] * 45, within=(0, 1))[0] < 0.35  # but they are two groups
    assert mean_interval([0.0] * 90, 0.95, rng, within=(-1, 1)) == pytest.approx((2 * (low - 1), 2 * (1 - low)))
    grouped = bootstrap([0.0] * 50 + [1.0] * 50, 0.95, rng, groups=[0] * 50 + [1] * 50)
    alone = bootstrap([0.0] * 50 + [1.0] * 50, 0.95, rng)
    assert grouped == (0.0, 1.0)  # two groups say little, however many values they hold
    assert alone[0] > 0.35


def test_the_interval_of_a_median() -> None:
    """Against SciPy's bootstrap where nothing is grouped, and as wide as two groups are where they are two."""
    from scipy.stats import bootstrap as theirs

    values = np.random.default_rng(4).normal(size=41)
    low, high = median_interval(values, 0.95, np.random.default_rng(1), range(41))
    expected = theirs((values,), np.median, method="percentile", rng=np.random.default_rng(2)).confidence_interval
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.1)
    assert median_interval([0.0] * 50 + [1.0] * 50, 0.95, np.random.default_rng(1), [0] * 50 + [1] * 50) == (0.0, 1.0)
    assert Run(seed=1).median("x", [1.0, 5.0, 2.0], groups=[1, 2, 3]).value == 2.0


def test_coverage_of_the_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutaway.lab.statistics.RESAMPLES", 1000)
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(50):
        low, high = bootstrap(rng.normal(size=40), 0.9, rng)
        inside += low <= 0 <= high
    assert 38 <= inside <= 49


def test_claims_are_about_a_kind_of_model() -> None:
    claim = Claim(sentence="", measurement="x", compare="==", bound=0, reason="", fails_if="", of=CAUSAL)
    e = experiment("x", chapter="03", version=1, question="", needs=CAUSAL, claims=(claim,))(lambda run: [])
    assert e.claims_about(None) == (claim,)


class Point(NamedTuple):
    """As an entry point of another package."""

    name: str
    value: str
    load: Callable[[], object]


def test_other_packages_offer_experiments(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = experiment("theirs", chapter="x", version=1, question="?", needs=None)(lambda run: [])
    ours = experiment("e03_trophy", chapter="x", version=1, question="?", needs=None)(lambda run: [])
    monkeypatch.setattr(finding, "entry_points", lambda group: [Point(e.name, "x:y", partial(lambda e: e, e)) for e in (theirs, ours)])
    found = finding.experiments.__wrapped__()
    assert found["theirs"] is theirs
    assert found["e03_trophy"] is not ours
    assert list(found) == sorted(found)
    for load, said in ((lambda: 1 / 0, "ZeroDivisionError"), (lambda: 3, "is int")):
        monkeypatch.setattr(finding, "entry_points", partial(lambda load, group: [Point("bad", "x:y", load)], load))
        with pytest.raises(LabError, match=rf"bad = x:y.*{said}"):
            finding.experiments.__wrapped__()


def test_a_taken_name_and_a_file_that_breaks(tmp_path: Path) -> None:
    borrowed = "from cutaway.lab.e03_scale import *"
    for text, said in (("1 / 0", "ZeroDivisionError"), (TAKEN, "that name is taken"), (borrowed, "defines no experiment")):
        path = tmp_path / f"{len(text)}.py"
        path.write_text(text)
        with pytest.raises(LabError, match=said):
            find(str(path))


TAKEN = '''
from cutaway.lab.experiment import experiment
@experiment("e03_trophy", chapter="03", version=1, question="?", needs=None)
def trophy(run):
    return []
'''


def test_what_is_trained_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    run = Run(models=tmp_path / "trained")

    def breaks(folder: Path) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.train_once("key", breaks)
    assert list((tmp_path / "trained").iterdir()) == []

    def overtaken(folder: Path) -> None:
        run.train_once("key", lambda other: (other / "weights").touch())  # another process, meanwhile
        (folder / "late").touch()

    assert [path.name for path in run.train_once("key", overtaken).iterdir()] == ["weights"]
    assert [path.name for path in (tmp_path / "trained").iterdir()] == ["key"]
    assert run.train_once("key", breaks) == tmp_path / "trained/key"
    with pytest.raises(NotTrainedError, match="verify --full"):
        Run(models=tmp_path / "trained", may_train=False).train_once("other", breaks)
    with pytest.raises(LabError, match="cannot be kept in .*half.*CUTAWAY_CACHE"):
        (tmp_path / "half").touch()
        Run(models=tmp_path / "half").train_once("key", breaks)


def test_an_empty_list_of_seeds_is_refused() -> None:
    with pytest.raises(CutawayError, match="list of seeds is empty.*one seed"):
        planning.plan(["e00_census"], [], seeds=[])
