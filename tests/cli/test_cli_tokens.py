"""`cutaway tokens`, its three ways: what they print, and one clear message for each way to get them wrong."""

import json
from pathlib import Path

import pytest

from cutaway.cli import tokens_view
from cutaway.lab.e01_articles import translation
from cutaway.lab.e01_cost import cost
from cutaway.text import load_tokenizer
from cutaway.text.train import train_bpe
from cutaway.tokens import Opened, tokens
from tests.cli.conftest import TEXTS, Run
from tests.cli.test_cli_errors import refused

WORDS = "The trophy didn't fit in the suitcase."
ARTICLES = ["the box was big", "the cat was in the box", "the dog", "it was too small for it", "it was the big dog"]


@pytest.fixture(scope="module")
def gpt1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vocabulary("gpt1", tmp_path_factory.mktemp("gpt1"))


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vocabulary("gpt2", tmp_path_factory.mktemp("gpt2"))


def vocabulary(kind: str, folder: Path) -> Path:
    train_bpe(TEXTS, kind, None, folder)  # type: ignore[arg-type]
    return folder


@pytest.fixture
def parallel(tmp_path: Path) -> Path:
    """A folder of three languages: one document each, of five articles."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, word, end in (("eng", "Article", ""), ("por_PT", "Artigo", " é"), ("por_BR", "Artigo", "")):
        text = "".join(f"{word} {n}\n{article}{end}\n\n" for n, article in enumerate(ARTICLES, 1))
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


# A text


def test_the_json_is_the_library_s_result(run: Run, gpt1: Path, gpt2: Path) -> None:
    sources = [str(gpt1), str(gpt2)]
    done = run("tokens", WORDS, "--model", ",".join(sources), "--steps", "fit", "--splitter", "plain", "--json")
    assert json.loads(done.stdout) == json.loads(json.dumps(tokens(WORDS, sources, steps="fit", splitter="plain").to_dict()))


def test_side_by_side(run: Run, gpt1: Path, gpt2: Path) -> None:
    done = run("tokens", WORDS, "--model", f"{gpt1},{gpt2}", "--steps", "fit")
    head = done.stdout.splitlines()[:3]
    assert head[0].split() == ["tokenizer", "vocabulary", "tokens", "of", "them", "added", "tokens/word", "characters/token", "unknown"]
    for line, folder in zip(head[1:], (gpt1, gpt2), strict=True):
        own = len(load_tokenizer(folder).encode(WORDS))
        assert line.split()[:4] == [folder.name, f"{load_tokenizer(folder).vocab_size}", str(own), "0"]
        assert line.split()[4:] == [f"{own / 7:.2f}", f"{len(WORDS) / own:.2f}", "0"]
    assert "|␣trophy|" in done.stdout
    assert "fit (1 × in this text)" in done.stdout  # GPT-1: a blank makes no difference
    assert "fit without a blank before it (not so in this text)" in done.stdout
    assert "␣fit with the blank before it (1 × in this text)" in done.stdout
    assert "the plain way" in done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_a_word_alone(run: Run, gpt2: Path) -> None:
    assert run("tokens", "--steps", "trophy", "--model", gpt2, "--json").stdout == (
        run("tokens", "trophy", "--steps", "trophy", "--model", gpt2, "--json").stdout
    )


def test_both_cleanings(run: Run, gpt1: Path) -> None:
    done = run("tokens", "It didn’t fit…", "--model", gpt1, "--splitter", "both")
    assert f"{gpt1.name} (plain)" in done.stdout
    assert f"{gpt1.name} (spacy)" in done.stdout
    assert "have no equal in the other" in done.stdout
    told = json.loads(run("tokens", "It didn’t fit…", "--model", gpt1, "--splitter", "both", "--json").stdout)
    assert told["cleanings"][str(gpt1)]["share"] > 0


def test_a_long_text_is_cut_on_the_screen_alone(run: Run, gpt2: Path, tmp_path: Path) -> None:
    count = 10 * tokens_view.ROWS
    file = tmp_path / "long.txt"
    file.write_text("trophy" + " trophy" * (count - 1), encoding="utf-8")
    one = json.loads(run("tokens", "--file", file, "--model", gpt2, "--json").stdout)["tokenizers"][0]
    shown = run("tokens", "--file", file, "--model", gpt2)
    total = len(one["pieces"])
    assert total >= count
    assert f"The first {tokens_view.ROWS} of {total:,} tokens" in shown.stdout
    assert "--all" in shown.stdout
    assert len(shown.stdout.splitlines()) < tokens_view.ROWS + 30
    every = run("tokens", "-", "--model", gpt2, "--all", input=file.read_bytes())
    assert "The first" not in every.stdout
    assert len(every.stdout.splitlines()) > total


def test_where_there_are_no_colours_a_line_divides(gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from io import StringIO

    from rich.console import Console

    for colours in (True, False):
        out = StringIO()
        screen = Console(file=out, force_terminal=True, color_system="standard", width=100, no_color=not colours, highlight=False)
        tokens_view.show(screen, tokens("The trophy", [str(gpt2)]))
        assert ("|␣trophy" in out.getvalue()) is not colours


# What a language costs


def test_cost_is_the_lab_s_result(run: Run, gpt2: Path, parallel: Path, tmp_path: Path) -> None:
    files = sorted(parallel.iterdir())
    done = run("tokens", "--cost", *files, "--model", gpt2, "--seed", "3", "--json")
    assert done.exit_code == 0, done.stderr
    texts = [translation(path.stem, path.read_text(encoding="utf-8")) for path in files]
    opened = Opened(str(gpt2), load_tokenizer(gpt2), gpt2)
    assert json.loads(done.stdout) == json.loads(json.dumps(cost(texts, [opened], seed=3).to_dict()))
    assert run("tokens", "--cost", parallel, "--model", gpt2, "--seed", "3", "--json").stdout == done.stdout
    out = tmp_path / "cost.json"
    assert run("tokens", "--cost", parallel, "--model", gpt2, "--seed", "3", "--out", out).stdout == ""
    assert out.read_text(encoding="utf-8") == done.stdout


def test_the_table_of_costs(run: Run, gpt2: Path, parallel: Path) -> None:
    (parallel / "deu.txt").write_text("kein Artikel", encoding="utf-8")
    done = run("tokens", "--cost", parallel, "--model", gpt2)
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("language"))
    brazil, portugal, german, english = lines[start + 1 : start + 5]
    assert [line.split()[0] for line in (brazil, portugal, german, english)] == ["por_BR", "por_PT", "deu", "eng"]
    assert brazil.split()[-1] == english.split()[-1] == "1"  # word for word the reference's articles
    assert "no interval" in german
    assert "[" in portugal
    assert "por_BR against por_PT" in done.stdout
    said = " ".join(done.stdout.split())
    for part in ("deu is not aligned", "2,000 bootstrap resamples of 5 articles (n = 5), seed 0", "one register", "NFC"):
        assert part in said
    assert max(map(len, lines)) <= 100


def test_the_chart_is_a_file_of_its_own(run: Run, gpt2: Path, parallel: Path, tmp_path: Path) -> None:
    file = tmp_path / "cost.svg"
    done = run("tokens", "--cost", parallel, "--model", gpt2, "--svg", file, "--json")
    assert f"Wrote {file}" in done.stderr
    drawn = file.read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    for part in ("por_PT", "the translation", "the tokenizer", "their product"):
        assert part in drawn
    assert "href" not in drawn.replace("xlink:href", "")


def test_the_declaration_is_the_default(run: Run, gpt2: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTAWAY_DATA", str(data))
    told = json.loads(run("tokens", "--cost", "--model", gpt2, "--json").stdout)
    assert len(told["tokenizers"][0]["rows"]) == 17
    assert told["articles"] == 30
    assert run("tokens", "--cost", "udhr", "--model", gpt2, "--json").stdout == run("tokens", "--cost", "--model", gpt2, "--json").stdout


# A vocabulary of one's own


def test_train(run: Run, tmp_path: Path) -> None:
    """What is written is what the library writes, what is printed is what was learned, and --model takes it."""
    text = tmp_path / "my text.txt"
    text.write_text("\n".join(TEXTS), encoding="utf-8")
    ours, theirs = tmp_path / "my vocabulary", tmp_path / "theirs"
    done = run("tokens", "--train", text, "--vocab", "300", "--out", ours)
    assert done.exit_code == 0, done.stderr
    train_bpe(["\n".join(TEXTS)], "gpt2", 300, theirs)
    for name in ("vocab.json", "merges.txt"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes()
    first = (ours / "merges.txt").read_text(encoding="utf-8").splitlines()[1].split()
    assert " + ".join(first) in done.stdout
    assert "The first 20 of 44 merges" in done.stdout
    assert "301 tokens: 256 single symbols, 44 merges, 1 control token\n" in done.stdout
    assert "The first" not in run("tokens", "--train", text, "--vocab", "300", "--out", ours, "--force", "--all").stdout
    told = json.loads(run("tokens", "--train", text, "--vocab", "300", "--out", tmp_path / "other", "--json").stdout)
    assert [merge["rank"] for merge in told["merges"]] == list(range(44))
    assert told["merges"][0]["pair"] == first
    assert told["merges"][0]["count"] >= told["merges"][1]["count"]
    used = json.loads(run("tokens", "The trophy", "--model", ours, "--json").stdout)
    assert used["tokenizers"][0]["vocab_size"] == 301


@pytest.mark.parametrize(("kind", "symbols"), [("roberta", 256), ("gpt1", 136)])
def test_train_other_kinds(run: Run, tmp_path: Path, kind: str, symbols: int) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(TEXTS), encoding="utf-8")
    done = run("tokens", "--train", text, "--vocab", symbols + 10, "--out", tmp_path / "v", "--kind", kind, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["symbols"] == symbols
    assert load_tokenizer(tmp_path / "v").kind == kind


def test_a_vocabulary_is_not_written_over(run: Run, gpt2: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(TEXTS), encoding="utf-8")
    before = (gpt2 / "vocab.json").read_bytes()
    assert "--force writes over it" in refused(run, "tokens", "--train", text, "--vocab", "300", "--out", gpt2)
    assert (gpt2 / "vocab.json").read_bytes() == before


def test_stopped_in_training_nothing_is_written(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "v"
    text.write_text("\n".join(TEXTS), encoding="utf-8")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cutaway.text.train.merges_of", stop)
    done = run("tokens", "--train", text, "--vocab", "300", "--out", out)
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr.endswith("Error: stopped\n")
    assert not out.exists()


# Refused


WRONG = {
    "no text": ((), "No text was given"),
    "two texts": (("a", "b"), "2 texts were given"),
    "text and file": (("a", "--file", "{dir}/eng.txt"), "both given"),
    "empty name": (("a", "--model", "gpt2,,gpt1"), "--model is 'gpt2,,gpt1'"),
    "unknown model": (("a", "--model", "gpt22"), "did you mean gpt2?"),
    "word not in text": (("a text", "--steps", "cup"), "'cup' is not in the text"),
    "empty word": (("a text", "--steps", ""), "'' is not in the text"),
    "splitter": (("a", "--splitter", "spacey"), "did you mean spacy?"),
    "splitter without GPT-1": (("a", "--splitter", "both"), "none of the tokenizers is GPT-1's"),
    "both ways": (("--cost", "--train"), "one of the two"),
    "chart without cost": (("a", "--svg", "x.svg"), "--svg does not go with a text"),
    "vocab without train": (("a", "--vocab", "300"), "--vocab does not go with a text"),
    "steps with cost": (("--cost", "{dir}", "--steps", "a"), "--steps does not go with --cost"),
    "file with cost": (("--cost", "--file", "{dir}/eng.txt"), "name the files without --file"),
    "model with train": (("--train", "{dir}/eng.txt", "--model", "x"), "--model does not go with --train"),
    "one file": (("--cost", "{dir}/eng.txt"), "1 text was given"),
    "absent file": (("--cost", "{dir}/eng.txt", "{dir}/xyz.txt"), "There is no file"),
    "not UTF-8": (("--cost", "{dir}/eng.txt", "{dir}/latin.txt"), "not UTF-8"),
    "empty file": (("--cost", "{dir}/eng.txt", "{dir}/empty.txt"), "is empty"),
    "no reference": (("--cost", "{dir}/por_PT.txt", "{dir}/por_BR.txt"), "reference language eng is not among the files"),
    "other reference": (("--cost", "{dir}/eng.txt", "{dir}/por_BR.txt", "--reference", "por"), "did you mean por_BR?"),
    "the same twice": (("--cost", "{dir}/eng.txt", "{dir}/eng.txt"), "Two files are named for the language eng"),
    "no texts in it": (("--cost", "{dir}/none"), "holds no .txt files"),
    "another chart": (("--cost", "{dir}/eng.txt", "--html", "x.png"), "ends in .html or .svg"),
    "train nothing": (("--train", "--vocab", "300", "--out", "{dir}/v"), "without a text"),
    "no vocab": (("--train", "{dir}/eng.txt", "--out", "{dir}/v"), "without --vocab"),
    "no out": (("--train", "{dir}/eng.txt", "--vocab", "300"), "without --out"),
    "kind": (("--train", "{dir}/eng.txt", "--vocab", "300", "--out", "{dir}/v", "--kind", "gpt3"), "did you mean gpt"),
    "too small": (("--train", "{dir}/eng.txt", "--vocab", "9", "--out", "{dir}/v"), "at least its 256 single symbols"),
    "too large": (("--train", "{dir}/eng.txt", "--vocab", "9000", "--out", "{dir}/v"), "train on more text"),
    "out is a file": (("--train", "{dir}/eng.txt", "--vocab", "300", "--out", "{dir}/eng.txt"), "is a file"),
    "train on nothing": (("--train", "{dir}/empty.txt", "--vocab", "300", "--out", "{dir}/v"), "is empty"),
    "train on absent": (("--train", "{dir}/xyz.txt", "--vocab", "300", "--out", "{dir}/v"), "There is no file"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_refused(run: Run, gpt2: Path, parallel: Path, case: str) -> None:
    (parallel / "latin.txt").write_bytes(b"caf\xe9")
    (parallel / "empty.txt").write_bytes(b" \n")
    (parallel / "none").mkdir()
    args, said = WRONG[case]
    given = [arg.format(dir=parallel) for arg in args]
    model = () if "--model" in given or "--train" in given else ("--model", gpt2)
    assert said in refused(run, "tokens", *given, *model)
    assert not (parallel / "v").exists()


def test_the_data_set_that_is_not_here(run: Run, gpt2: Path) -> None:
    assert "CUTAWAY_DATA is not set" in refused(run, "tokens", "--cost", "--model", gpt2, env={"CUTAWAY_DATA": ""})


def test_a_long_word_can_be_followed(run: Run) -> None:
    """Its row of letters is wider than the column that explains the merges."""
    word = "antidisestablishmentarianism"
    assert word[:4] in run("tokens", word, "--model", "nano-gpt2", "--steps", word).stdout
