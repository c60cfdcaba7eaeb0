"""`cutaway lab` and `cutaway verify` as they are typed: what is printed, how they end, and what is said of bad input."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cutaway.cli.main import app

FAILING = """
from cutaway.lab.claims import Claim
from cutaway.lab.experiment import experiment

@experiment("two", chapter="03", version=1, question="Is it two?", needs=None, claims=(
    Claim(sentence="It is two", measurement="x", compare="==", bound=2, reason="counting", fails_if="it is not"),))
def two(run, *, x: int = 3):
    yield run.exact("x", x)
"""


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CUTAWAY_LEDGER", str(tmp_path / "ledger.sqlite"))
    path = tmp_path / "two.py"
    path.write_text(FAILING, encoding="utf-8")
    return str(path)


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.stdout if code != 2 else result.output


def test_run_prints_and_keeps(two: str, tmp_path: Path) -> None:
    assert "x: 3" in run("lab", "run", two)
    whole = json.loads(run("lab", "run", two, "--set", "x=2", "--json"))
    assert whole["records"][0]["measurements"] == [{"name": "x", "value": 2, "kind": "exact"}]
    assert whole["skipped"] == []
    assert (tmp_path / "ledger.sqlite").exists()


def test_verify_ends_with_1_where_a_claim_fails(two: str) -> None:
    said = run("verify", two, "--seed", "4", code=1)
    assert "fails" in said
    assert "expected because counting; it fails if it is not" in said
    checked = json.loads(run("verify", two, "--json", "--seed", "4", code=1))
    assert [(c["verdict"], c["said"]) for c in checked["claims"]] == [("fails", "two:x == 2 · exact")]
    assert checked["seed"] == 4


def test_list_names_all() -> None:
    rows = {row["name"]: row for row in json.loads(run("lab", "list", "--json"))["experiments"]}
    assert {"e03_trophy", "e03_where", "e03_scale", "e03_eight_lines", "e03_scale_training"} <= set(rows)
    assert rows["e03_scale_training"]["trains"]
    assert all(row["claims"] for row in rows.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lab", "run"], "Neither a name nor --all"),
        (["lab", "run", "e03_scale", "--all"], "Both names and --all"),
        (["lab", "run", "e03_trophi"], "did you mean e03_trophy?"),
        (["lab", "run", "e03_scale", "--set", "rows=many"], "rows=4000"),
        (["lab", "run", "e03_scale", "--engine", "steam"], "sequential or ray"),
        (["verify", "e03_nothing_like_it"], "There is no experiment"),
        (["lab", "publish", "--to", "records"], "has no record"),
        (["lab", "add", "absent.json"], "cannot be read as a record"),
    ],
)
def test_bad_input_is_one_message(two: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert said in result.output + capsys.readouterr().err
