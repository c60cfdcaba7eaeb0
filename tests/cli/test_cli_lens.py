"""`cutaway lens` and `cutaway attribute` as a user calls them."""

import json
from pathlib import Path

import pytest

import cutaway
from cutaway.trace.attribute import attribute
from tests.cli.conftest import Run
from tests.cli.test_cli_errors import refused

TEXT = "The trophy didn't fit in the suitcase because it was too big. The"
MASKED = f"{TEXT} <mask> was too big."


def test_a_row_for_each_floor(run: Run) -> None:
    done = run("lens", TEXT, "--answer", "trophy")
    assert done.exit_code == 0
    rows = [line for line in done.stdout.splitlines() if line.startswith(("embed", "block"))]
    assert rows[0].startswith("embed")
    assert len(rows) == 1 + cutaway.load("nano-gpt2").config.layers
    assert "readable by the language-model head" in done.stdout
    assert "␣trophy" in rows[-1]
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "\x1b" not in done.stdout


def test_a_word_or_a_number_names_the_place(run: Run) -> None:
    by_word, by_number = (json.loads(run("lens", TEXT, "--position", place, "--json").stdout) for place in ("trophy", "1"))
    assert by_word == by_number
    assert by_word["columns"][0]["token"] == " trophy"


def test_every_position(run: Run) -> None:
    done = run("lens", TEXT, "--all")
    rows = done.stdout.splitlines()[2:-2]
    assert [row.split()[0] for row in rows][:15] == [str(n) for n in range(15)]
    long = run("lens", " ".join([TEXT] * 6), "--all")
    assert "positions are read" in long.stderr


def test_a_masked_word_model_says_where_it_copies(run: Run) -> None:
    assert "no mask stands there" not in run("lens", MASKED, "--model", "nano-roberta").stdout
    assert "no mask stands there" in run("lens", MASKED, "--model", "nano-roberta", "--position", "trophy").stdout
    assert "mask" not in run("lens", MASKED, "--model", "nano-roberta").stderr  # a mask is no word outside the world


def test_who_contributed(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = run("attribute", TEXT, "--answer", "trophy", "--against", "suitcase", "--top", "5", "--html", page)
    assert done.exit_code == 0
    expected = attribute(cutaway.load("nano-gpt2"), TEXT, "trophy", "suitcase")
    assert f"{expected.whole:+.4f}" in done.stdout
    largest = sorted(expected.terms, key=lambda term: -abs(term.value))[:5]
    lines = done.stdout.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("part")) + 1
    assert [line.split("  ")[0] for line in lines[start : start + 5]] == [term.name for term in largest]
    assert "smaller parts together" in done.stdout
    assert "scale is frozen" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("method", ("ablation", "occlusion", "gradient", "integrated"))
def test_every_method_for_a_bidirectional_model(run: Run, method: str) -> None:
    options = ("--answer", "trophy", "--against", "suitcase", "--method", method, "--json")
    found = json.loads(run("attribute", MASKED, "--model", "nano-roberta", *options).stdout)
    assert found["method"] == method
    assert found["facts"]["kernel"] == "eager"
    if method != "ablation":
        assert len(found["terms"]) == len(found["tokens"])


def test_bad_input(run: Run) -> None:
    answer = ("--answer", "trophy")
    assert "ablation" in refused(run, "attribute", MASKED, "--model", "nano-roberta", *answer, "--against", "suitcase")
    assert "no method 'guess'" in refused(run, "attribute", TEXT, *answer, "--method", "guess")
    assert "position 99" in refused(run, "attribute", TEXT, *answer, "--position", "99")
    assert "position 99" in refused(run, "lens", TEXT, "--position", "99")
    assert "'cup' is not in" in refused(run, "lens", TEXT, "--position", "cup")
    assert "No text" in refused(run, "lens")
    assert "cannot be written" in run("lens", TEXT, "--html", "/none/x.html").stderr
