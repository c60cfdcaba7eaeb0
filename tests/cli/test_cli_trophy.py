"""The trophy experiment from the command line: what it prints, its JSON and its page."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

READING = {
    "model", "weights_sha256", "tokens", "first_difference", "query_position", "equal_length", "max_abs_diff", "identical",
    "kernel_noise", "controls", "heads", "later", "dtype", "device", "threads",
}  # fmt: skip


@pytest.fixture
def models(gpt2: Path, roberta: Path) -> tuple[object, ...]:
    return "--causal", gpt2, "--bidirectional", roberta


def result_of(run: Run, *args: object) -> dict[str, Any]:
    done = run("trophy", *args, "--json")
    assert done.exit_code == 0, done.stderr
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


def test_json_has_the_published_keys(run: Run, models: tuple[object, ...]) -> None:
    result = result_of(run, *models)
    assert result.keys() >= {"sentences", "query", "causal", "bidirectional"}
    for reading in (result["causal"], result["bidirectional"]):
        assert reading.keys() >= READING
        assert reading["controls"].keys() == {"a_a", "neutral", "before"}
        assert reading["heads"][0].keys() >= {"layer", "head", "max_abs_diff", "to"}
        assert reading["heads"][0]["to"].keys() == {"trophy", "suitcase"}


def test_only_the_bidirectional_one_differs(run: Run, models: tuple[object, ...]) -> None:
    result = result_of(run, *models)
    causal, bidirectional = result["causal"], result["bidirectional"]
    assert (causal["max_abs_diff"], causal["identical"]) == (0.0, True)
    assert bidirectional["max_abs_diff"] > 0
    assert not bidirectional["identical"]
    for reading in (causal, bidirectional):
        assert reading["controls"]["a_a"] == 0
        assert reading["controls"]["before"] > 0
    assert all(later["found_out"] is None for later in causal["later"])  # there is no test set for such a folder
    assert causal["later"][0]["effect"] == 0  # "was" comes before the sentences part
    assert "knows" not in " ".join(line for line in result["verdict"] if "folder" in line and "say" not in line)


def test_the_terminal_view_fits(run: Run, models: tuple[object, ...]) -> None:
    done = run("trophy", *models)
    assert done.exit_code == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 100
    for part in ("too big", "too small", "Neutral twin", "float32", "Controls", "0, bit for bit", "What was measured", "not measured"):
        assert part in done.stdout


def test_own_sentences(run: Run, models: tuple[object, ...]) -> None:
    own = ("--a", "The box is in it.", "--b", "The box is in it and big.", "--query", "box", "--watch", "The,box")
    result = result_of(run, *models, *own)
    assert result["neutral"] is None
    assert result["causal"]["equal_length"] is False
    assert result["causal"]["max_abs_diff"] == 0
    assert result["causal"]["kernel_noise"] is not None
    assert result["causal"]["controls"]["neutral"] is None
    shown = run("trophy", *models, *own)
    assert shown.exit_code == 0, shown.stderr


def test_a_word_of_several_pieces_and_a_span(run: Run, models: tuple[object, ...]) -> None:
    own = ("--a", "The zebra and the box, it is big.", "--b", "The zebra and the box, it is small.", "--watch", "zebra,box")
    by_word, by_span = (result_of(run, *models, *own, "--query", query) for query in ("it", "23:25"))
    assert "'zebra' is" in " ".join(by_word["causal"]["notes"])
    assert by_word["causal"]["query_position"] == by_span["causal"]["query_position"]


class Page(HTMLParser):
    """Which tags a page has, what its cells say, and what it would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.titles: list[str] = []
        self.outside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.titles += [given["title"] or ""] if tag == "td" and "title" in given else []
        self.outside += [value for name in ("src", "href") if (value := given.get(name))]


def test_the_page_is_self_contained_and_its_cells_are_values(run: Run, models: tuple[object, ...], tmp_path: Path) -> None:
    page = tmp_path / "trophy.html"
    done = run("trophy", *models, "--html", page, "--json")
    text = page.read_text(encoding="utf-8")
    seen = Page(text)
    assert seen.outside == []
    assert "script" not in seen.tags
    assert "url(" not in text
    cells = [title for title in seen.titles if title.startswith("blocks.")]
    assert all(re.match(r"blocks\.\d+\.attn\.pattern\[\d+, \d+, \d+\] = [\d.e+-]+", cell) for cell in cells)
    causal = json.loads(done.stdout)["causal"]
    at, key = causal["query_position"], next(n for n, token in enumerate(causal["tokens"][0]) if token.strip() == "trophy")
    said = next(cell for cell in cells if cell.startswith(f"blocks.1.attn.pattern[2, {at}, {key}]"))
    head = next(head for head in causal["heads"] if (head["layer"], head["head"]) == (1, 2))
    assert float(said.partition(" = ")[2]) == pytest.approx(head["to"]["trophy"][0], rel=1e-4)
    assert [path.name for path in tmp_path.iterdir()] == ["trophy.html"]  # no temporary file is left


def test_the_page_escapes_text(run: Run, models: tuple[object, ...], tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    own = ("--a", "The <i>box</i> & the trophy, it is big.", "--b", "The <i>box</i> & the trophy, it is small.", "--watch", "box,trophy")
    assert run("trophy", *models, *own, "--html", page).exit_code == 0
    assert "<i>box" not in page.read_text(encoding="utf-8")


def test_a_long_text_gives_a_bounded_page(run: Run, models: tuple[object, ...], tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    start = "The box is in the suitcase, the trophy was too big, " + "and the the the the " * 6 + "it is too "
    done = run("trophy", *models, "--a", start + "big", "--b", start + "small", "--html", page, "--watch", "box,suitcase")
    assert done.exit_code == 0, done.stderr
    assert page.stat().st_size < 5_000_000


@pytest.mark.usefixtures("nano")
def test_the_shipped_models(run: Run) -> None:
    result = result_of(run)
    assert result["causal"]["max_abs_diff"] == 0
    assert result["causal"]["identical"]
    assert result["bidirectional"]["max_abs_diff"] > 0
    assert result["causal"]["neutral_swaps"] > 500
    assert any(later["found_out"] for later in result["causal"]["later"])
    assert [row["model"] for row in (result["causal"], result["bidirectional"])] == ["nano-gpt2", "nano-roberta"]
