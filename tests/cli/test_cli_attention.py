"""`cutaway attention`: what a terminal gets and what a pipe gets, the files, the JSON, and what is said of bad input."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import cutaway
from cutaway import attend
from cutaway.cli.attention_view import show
from cutaway.shapes import shapes
from tests.cli.conftest import Run
from tests.cli.test_cli_errors import refused

TEXT = "The trophy didn't fit in the suitcase because it was too big."
VIEWS = {
    "thumbnails": (),
    "heads": ("--layer", 1),
    "head": ("--layer", 1, "--head", 2),
    "query": ("--query", "it"),
    "top": ("--layer", 1, "--head", 2, "--top", 3),
    "shapes": ("--shapes", "--layer", 1, "--head", 2),
}  # fmt: skip


def lines(run: Run, *args: object) -> list[str]:
    done = run("attention", TEXT, *args)
    assert done.exit_code == 0, done.stderr
    found: list[str] = done.stdout.splitlines()
    return found


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ("gpt2", "roberta"))
def test_a_pipe_gets_no_colour_and_the_facts(run: Run, name: str, view: str, request: pytest.FixtureRequest) -> None:
    found = lines(run, "--model", request.getfixturevalue(name), *VIEWS[view])
    assert "\x1b" not in "".join(found)
    assert max(map(len, found)) <= 100
    assert "eager attention" in " ".join(found[-2:])
    assert "weights sha256" in " ".join(found[-2:])


def test_a_terminal_gets_colours_and_no_more_than_its_width(gpt2: Path) -> None:
    model = cutaway.load(gpt2)
    for width in (40, 100):
        drawn = io.StringIO()
        screen = Console(file=drawn, width=width, force_terminal=True, color_system="truecolor", highlight=False, markup=False, emoji=False)
        for result in (attend.thumbnails(model, TEXT), attend.heads(model, TEXT, 0), attend.rows(model, TEXT, "it"), shapes(model, TEXT)):
            show(screen, result)
        assert "▀" in drawn.getvalue()
        assert "\x1b[" in drawn.getvalue()
        assert all(len(re.sub(r"\x1b\[[\d;]*m", "", line)) <= width for line in drawn.getvalue().splitlines())


def test_masked_cells_are_dots_and_the_rest_percentages(run: Run, gpt2: Path) -> None:
    found = lines(run, "--model", gpt2, "--layer", 1, "--head", 2)
    model = cutaway.load(gpt2)
    pattern = model.trace(TEXT)["blocks.1.attn.pattern"][2]
    rows = [line for line in found if re.match(r"\d+ ", line)]
    assert len(rows) == len(pattern)
    for t, line in enumerate(rows):
        cells = line[14:].split()
        assert cells[t + 1 :] == ["·"] * (len(pattern) - t - 1)
        assert [cell if cell == "<1" else int(cell) for cell in cells[: t + 1]] == [
            "<1" if weight < 0.005 else round(100 * weight) for weight in pattern[t, : t + 1].tolist()
        ]


def test_many_tokens_are_shades(run: Run, gpt2: Path) -> None:
    """Of weights 0.02 to 0.14, 0.39, 0.77 and more, by their square roots; one character a cell where two do not fit."""
    text = "The box is large. " * 12
    done = run("attention", text, "--model", gpt2, "--layer", 0, "--head", 0)
    pattern = cutaway.load(gpt2).trace(text)["blocks.0.attn.pattern"][0].tolist()
    assert len(pattern) > 43
    rows = [line for line in done.stdout.splitlines() if re.match(r"\d+ ", line)]
    for t, line in enumerate(rows):
        expected = [
            "░▒▓█"[sum(weight > edge for edge in (9 / 64, 25 / 64, 49 / 64))] if weight > 1 / 64 else " " for weight in pattern[t][: t + 1]
        ]
        assert line[14 : 14 + len(rows)] == "".join(expected) + "·" * (len(rows) - t - 1)


def test_thumbnails_mask_what_is_above_the_diagonal(run: Run, gpt2: Path, roberta: Path) -> None:
    causal, bidirectional = (lines(run, "--model", model) for model in (gpt2, roberta))
    drawn = [line for line in causal if line.startswith("layer")]
    assert len(drawn) == 2
    size = len(cutaway.load(gpt2).pieces(TEXT))
    for line in drawn:
        assert re.findall("·+", line) == ["·" * (size - 2)] * 4
    assert "·" not in "\n".join(bidirectional).split("weight ")[0]


def test_the_query_says_what_the_trace_says(run: Run, gpt2: Path) -> None:
    found = json.loads(run("attention", TEXT, "--model", gpt2, "--query", "it", "--json").stdout)
    trace = cutaway.load(gpt2).trace(TEXT)
    for (layer, head), weights, lengths in zip(found["heads"], found["weights"], found["lengths"], strict=True):
        one = trace.attention(layer=layer, head=head, query="it")
        readable = one.position + 1
        assert weights == one.weights[:readable].tolist() + [None] * (len(weights) - readable)
        assert lengths == one.lengths[:readable].tolist() + [None] * (len(weights) - readable)


def test_what_is_left_out_is_said(run: Run, gpt2: Path) -> None:
    text = "The box is large. " * 12
    done = run("attention", text, "--model", gpt2, "--layer", 0, "--head", 0, "--window", "10:20")
    tokens = len(cutaway.load(gpt2).pieces(text))
    assert f"Tokens 10 to 19 of {tokens} are shown. --window START:END" in done.stdout
    wide = run("attention", text, "--model", gpt2, "--layer", 0)
    assert f"of {tokens} are shown" in wide.stdout
    said = run("attention", text, "--model", gpt2, "--layer", 0, "--window", "4:", "--json")
    assert json.loads(said.stdout)["window"] == [4, tokens]
    assert f"Tokens 4 to {tokens - 1} of {tokens}" in said.stderr


def test_a_long_text_of_a_nano_model(run: Run, nano: None, tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    file.write_text("The trophy was big. " * 200, encoding="utf-8")
    done = run("attention", "--file", file)
    assert done.exit_code == 0, done.stderr
    assert re.search(r"A cell is the largest weight of \d+ × \d+ tokens", done.stdout)
    assert len(done.stdout) < 10_000
    assert len(run("attention", "--file", file, "--layer", 1, "--json").stdout) < 5_000_000


def test_files(run: Run, gpt2: Path, tmp_path: Path) -> None:
    page, drawn, dots, out = (tmp_path / f"a.{kind}" for kind in ("html", "svg", "png", "json"))
    done = run("attention", TEXT, "--model", gpt2, "--html", page, "--svg", drawn, "--png", dots, "--out", out)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("Wrote") == 4
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert drawn.read_text(encoding="utf-8").startswith("<svg")
    assert dots.read_bytes().startswith(b"\x89PNG")
    assert json.loads(out.read_text(encoding="utf-8"))["step"] == 1
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".html", ".json", ".png", ".svg"]


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "thumbnails"])
def test_every_view_has_a_page(run: Run, gpt2: Path, tmp_path: Path, view: str) -> None:
    done = run("attention", TEXT, "--model", gpt2, *VIEWS[view], "--html", tmp_path / "a.html")
    assert done.exit_code == 0, done.stderr
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "weights sha256" in page
    assert "suitcase" in page


@pytest.mark.long
def test_a_body_and_grouped_heads(run: Run, minilm: Path, smollm2: Path) -> None:
    for model in (minilm, smollm2):
        assert lines(run, "--model", model)
        assert lines(run, "--model", model, "--layer", 0, "--head", 1)
        assert lines(run, "--model", model, "--shapes", "--query", "it")


REFUSED: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
    "layer": (("--layer", 2), ("has no layer 2", "0 to 1")),
    "head": (("--layer", 0, "--head", 9), ("has no head 9", "0 to 3")),
    "head of no layer": (("--head", 1), ("--head 1 without --layer",)),
    "top of no head": (("--layer", 1, "--top", 2), ("--top 2 of no head", "--head")),
    "no top": (("--layer", 1, "--head", 1, "--top", 0), ("strongest 0",)),
    "two views": (("--layer", 1, "--head", 1, "--top", 2, "--query", "it"), ("--top and --query",)),
    "window outside": (("--window", "3:99"), ("3:99", "START:END within 0:")),
    "no window": (("--window", "three"), ("--window three", "START:END")),
    "window of shapes": (("--shapes", "--window", "0:3"), ("--shapes and --window",)),
    "no word": (("--query", "cup"), ("'cup' is not in", "suitcase")),
    "occurrence of no word": (("--occurrence", 1), ("of no word",)),
    "suffix": (("--png", "a.svg"), ("--png a.svg", "ends in .png")),
    "picture of a table": (("--shapes", "--svg", "a.svg"), ("--shapes makes a table", "--html")),
    "unwritable page": (("--html", "no/such/folder/a.html"), ("cannot be written",)),
    "unwritable picture": (("--png", "no/such/folder/a.png"), ("cannot be written",)),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(run: Run, gpt2: Path, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options, expected = REFUSED[case]
    message = refused(run, "attention", TEXT, "--model", gpt2, *options)
    for part in expected:
        assert part in message
    assert list(tmp_path.iterdir()) == []


def test_an_empty_text(run: Run, gpt2: Path) -> None:
    assert "The text is empty" in refused(run, "attention", "", "--model", gpt2)
    assert "No text was given" in refused(run, "attention", "--model", gpt2)
