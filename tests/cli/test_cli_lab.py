"""`cutaway lab` and `cutaway verify`: what they print, where, and how they end."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import cutaway
from cutaway.cli import lab_parts
from cutaway.lab import engine_ray
from cutaway.lab.ledger import Ledger
from tests.cli.conftest import Run
from tests.lab.own import mine, task

__all__ = ["mine"]  # a fixture


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUTAWAY_DATA", raising=False)


def test_run_prints_records_and_keeps_them(run: Run, mine: Path, ledger: Path) -> None:
    done = run("lab", "run", mine, "--model", "nano-gpt2", "--ledger", ledger, "--json", "--seed", 3, "--seed", 4)
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(r["experiment"], r["seed"]) for r in found["records"]] == [
        ("mine", 3), ("mine", 4), ("trained", 3), ("trained", 4), ("causal_only", 3), ("causal_only", 4),
    ]  # fmt: skip
    (skip, _) = found["skipped"]  # of both seeds
    assert skip["task"] == "reads"
    assert "not measured here" in skip["why"]
    assert "unpack https://" in skip["why"]  # the source, and what to do
    assert f"Note: reads: {skip['why']}" in done.stderr
    assert len(Ledger(ledger).newest()) == 3


def test_run_on_a_terminal(run: Run, mine: Path, ledger: Path) -> None:
    done = run("lab", "run", mine, "--model", "nano-gpt2", "--ledger", ledger, "--set", "many=3")
    assert done.exit_code == 2  # the other experiments have no such parameter
    assert "causal_only has no parameter 'many'" in done.stderr
    done = run("lab", "run", mine, "--model", "nano-gpt2", "--ledger", ledger)
    assert done.exit_code == 0, done.stderr
    assert "sum: 30" in done.stdout
    assert "nano-gpt2 (nano: a small model of this project)" in done.stdout
    assert " thread" in done.stdout
    assert "3 records made, 1 skipped." in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    ("args", "said"),
    (
        (("run", "e03_trofy"), "did you mean e03_trophy?"),
        (("run",), "Neither a name nor --all"),
        (("run", "e03_trophy", "--all"), "Both names and --all"),
        (("run", "./absent.py"), "There is no file absent.py"),
        (("run", "e03_where", "--model", "./absent"), "There is no file or folder ./absent"),
        (("run", "e03_scale", "--engine", "spark"), "sequential or ray"),
        (("run", "e03_scale", "--set", "rows=many"), "a value like 4000, given as rows=4000"),
        (("run", "e03_scale", "--ledger", "absent/l.sqlite"), "There is no folder absent"),
        (("report", "e03_trofy"), "There is no record of e03_trofy"),
        (("report", "--from", "memory"), "There is no source of records 'memory'"),
        (("add", "absent.json"), "absent.json cannot be read"),
        (("figures", "--to", "absent"), "There is no folder absent"),
    ),
)
def test_bad_input(run: Run, args: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutaway.lab.runner.sequential", lambda *given: iter(()))  # nothing is run
    done = run("lab", *args)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_of_the_wrong_kind(run: Run, mine: Path, ledger: Path) -> None:
    done = run("lab", "run", mine, "--model", "nano-roberta", "--ledger", ledger)
    assert done.exit_code == 2
    assert "nano-roberta is bidirectional, and this is about causal models. Expected: a model of the kind: causal" in done.stderr


@pytest.mark.parametrize("spoilt", ("damaged", "newer", "locked"))
def test_the_result_is_shown_though_the_ledger_fails(
    run: Run, mine: Path, ledger: Path, spoilt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = sqlite3.connect(ledger, isolation_level=None)
    if spoilt == "damaged":
        ledger.write_bytes(b"no database at all " * 100)
    elif spoilt == "newer":
        file.execute("PRAGMA user_version = 1000")
    else:
        file.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr("cutaway.lab.ledger.Ledger.__init__.__defaults__", (None, 0.1))
    before = ledger.read_bytes()
    done = run("lab", "run", mine, "--model", "nano-gpt2", "--ledger", ledger, "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["records"][0]["measurements"][0]["value"] == 30
    assert spoilt in done.stderr or "another process has held it" in done.stderr
    assert done.stderr.count("Error: ") == 1
    assert "kept nowhere" in done.stderr  # told before the work
    assert ledger.read_bytes() == before
    file.close()


def test_records_before_a_failure_are_shown(run: Run, mine: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine.write_text(mine.read_text().replace("run.model.config.layers", 'float("nan")'))
    done = run("lab", "run", mine, "--model", "nano-gpt2", "--ledger", ledger, "--json")
    assert done.exit_code == 2
    assert "no record can hold" in done.stderr
    assert [r["experiment"] for r in json.loads(done.stdout)["records"]] == ["mine", "trained"]
    assert len(Ledger(ledger).newest()) == 2


def test_ctrl_c_in_the_middle_and_the_same_command_again(run: Run, mine: Path, ledger: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    args = ["lab", "run", str(mine), "--ledger", str(ledger), "--json", "--model", "nano-gpt2"]
    slow = {**os.environ, "SLOW": "0.5", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(cutaway.__file__).parents[1])}
    pipes: dict[str, Any] = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    # a shell's background jobs ignore Ctrl-C, and so would what a test runner among them starts
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen([sys.executable, "-m", "cutaway", *args], env=slow, preexec_fn=heed, **pipes) as process:
        while not (seen.exists() and len(seen.read_text().split()) >= 3):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"the same command goes on where it stopped" in said
    assert b"Traceback" not in said
    begun = seen.read_text().split()
    assert Ledger(ledger).newest() == []
    done = run(*args)
    assert json.loads(done.stdout)["records"][0]["measurements"][0]["value"] == 30
    resumed = seen.read_text().split()[len(begun) :]
    assert resumed == [str(n) for n in range(len(begun) - 1, 5)]  # the unit that was under way begins anew, those before it do not
    with Ledger(ledger).opened() as file:
        assert file.execute("SELECT COUNT(*) FROM units").fetchone() == (0,)


def test_verify_says_what_holds(run: Run, mine: Path) -> None:
    done = run("verify", mine, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert f"--seed {found['seed']} repeats this" in done.stderr
    verdicts = {(c["said"].split(":")[0], c["model"], c["claim"]["measurement"]): c["verdict"] for c in found["claims"]}
    assert verdicts == {
        ("mine", None, "sum"): "holds", ("mine", None, "mean"): "holds", ("mine", None, "nowhere"): "not measured here",
        ("trained", None, "trained"): "not measured here", ("reads", None, "texts"): "not measured here",
        ("causal_only", "nano-gpt1", "layers"): "holds", ("causal_only", "nano-gpt2", "layers"): "holds",
    }  # fmt: skip
    assert found["level"] == pytest.approx(1 - 0.01 / 5)  # seven claims, and two of them are equalities
    assert set(found["seconds"]) == {"mine", "causal_only on nano-gpt1", "causal_only on nano-gpt2"}
    shown = run("verify", mine, "--seed", found["seed"])
    again = next(c for c in found["claims"] if c["claim"]["measurement"] == "mean")["found"]["value"]
    assert f"{again:.4g} (" in shown.stdout
    assert "verify --full" in shown.stdout
    assert "7 claims: 4 hold, 3 not measured here." in shown.stdout
    assert "weights sha256" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 100


def test_verify_fails_loudly(run: Run, mine: Path) -> None:
    mine.write_text(mine.read_text().replace("bound=30", "bound=31"))
    done = run("verify", mine, "--seed", 1)
    assert done.exit_code == 1
    assert "mine:sum == 31 · exact" in done.stdout
    assert "Reason: arithmetic. It fails if squares were others." in done.stdout


def test_verify_trains_when_asked_and_not_again(run: Run, mine: Path) -> None:
    for args, verdict in (((), "not measured here"), (("--full",), "holds"), ((), "holds")):
        found = json.loads(run("verify", mine, "--json", *args).stdout)
        assert next(c for c in found["claims"] if c["experiment"] == "trained")["verdict"] == verdict


def test_list(run: Run) -> None:
    found = {row["name"]: row for row in json.loads(run("lab", "list", "--json").stdout)["experiments"]}
    assert found["e03_trophy"]["chapter"] == "03"
    assert "nano-gpt2" in found["e03_trophy"]["published"]
    assert found["e03_trophy"]["claims"][0] == "it.max_abs_diff == 0"
    shown = run("lab", "list").stdout
    assert all(name in shown for name in found)
    assert max(map(len, shown.splitlines())) <= 100


def test_publish_add_and_report(run: Run, mine: Path, ledger: Path, tmp_path: Path) -> None:
    run("lab", "run", mine, "--model", "nano-gpt2", "--ledger", ledger)
    refused = run("lab", "publish", "--to", tmp_path / "records", "--ledger", ledger)
    assert refused.exit_code == 2
    assert "causal_only on nano-gpt2 (its code" in refused.stderr
    theirs = tmp_path / "theirs.json"
    (made,) = [record for record in Ledger(ledger).newest() if record.experiment == "mine"]
    theirs.write_text(json.dumps(made.to_dict() | {"facts": dict(made.facts) | {"commit": "abc", "dirty": False, "started": "2999"}}))
    assert run("lab", "add", theirs, "--ledger", ledger).exit_code == 0
    assert run("lab", "publish", "mine", "--to", tmp_path / "records", "--ledger", ledger).exit_code == 0
    assert json.loads((tmp_path / "records/mine.none.json").read_text())["facts"]["origin"] == "elsewhere"
    page, text = tmp_path / "r.html", tmp_path / "r.md"
    done = run("lab", "report", "--from", "ledger", "--ledger", ledger, "--html", page, "--markdown", text)
    assert done.exit_code == 0, done.stderr
    assert "causal_only" in page.read_text()
    assert "from another machine" in page.read_text()
    assert "# What was measured" in text.read_text()
    assert run("lab", "report", "mine", "--from", "ledger", "--ledger", ledger).stdout.startswith("# What was measured")


def test_figures_are_checked(run: Run, tmp_path: Path) -> None:
    (tmp_path / "e03_trophy.md").touch()
    (tmp_path / "e03_trophy.99.svg").touch()
    done = run("lab", "figures", "--to", tmp_path, "--check")
    assert done.exit_code == 2
    assert "e03_trophy.99.svg" in done.stderr
    assert run("lab", "figures", "--to", tmp_path).exit_code == 0
    assert run("lab", "figures", "--to", tmp_path, "--check").exit_code == 0


def test_ray_that_is_not_installed(run: Run, mine: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = run("lab", "run", mine, "--model", "nano-gpt2", "--ledger", ledger, "--engine", "ray")
    assert done.exit_code == 2
    assert 'pip install "cutaway[ray]"' in done.stderr


@pytest.mark.long
def test_ray_gives_what_the_sequential_run_gives(mine: Path, ledger: Path) -> None:
    pytest.importorskip("ray")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(cutaway.__file__).parents[1]), "RAY_DEDUP_LOGS": "0"}
    args = [sys.executable, "-m", "cutaway", "lab", "run", str(mine), "--seed", "1", "--seed", "2", "--ledger", str(ledger), "--json"]
    found = []
    for engine in ("sequential", "ray"):
        done = subprocess.run([*args, "--engine", engine], env=env, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        records = json.loads(done.stdout)["records"]
        found.append([(r["experiment"], r["model"], r["seed"], r["facts"]["threads"], r["measurements"]) for r in records])
    assert found[0] == found[1]
    assert len(Ledger(ledger).newest()) == 4


@pytest.mark.long
def test_a_failure_on_ray_is_the_same_message(mine: Path, ledger: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(cutaway.errors.LabError, match="no record can hold"):
        mine.write_text(mine.read_text().replace('run.exact("sum", sum(squares))', 'run.exact("sum", float("nan"))'))
        list(engine_ray.on_ray([task(mine)], None, lambda task: lambda *_: None))


def test_the_bar_is_for_terminals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mine: Path) -> None:
    with lab_parts.told(1) as progress:
        progress(task(mine))("squares", 1, 2)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with lab_parts.told(1) as progress:
        progress(task(mine))("squares [d=3]", 1, 2)
    out, err = capsys.readouterr()
    assert out == ""
    assert "1 of 1: mine: squares [d=3]" in err
