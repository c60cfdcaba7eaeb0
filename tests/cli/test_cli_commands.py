"""`next`, `tokens` and `models`, and where each of them takes its text from."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import cutaway
from cutaway.families import PUBLISHED
from cutaway.families.size import parameters
from tests.cli.conftest import Run

WORDS = "The trophy didn't fit in the"


def test_next_prints_the_library_s_result(run: Run, gpt2: Path) -> None:
    done = run("next", WORDS, "--model", gpt2, "-k", "3", "--json")
    assert json.loads(done.stdout) == json.loads(json.dumps(cutaway.load(str(gpt2)).next_token(WORDS, 3).to_dict()))
    shown = run("next", WORDS, "--model", gpt2, "-k", "3").stdout
    assert "probability" in shown
    assert "float32" in shown
    assert len(shown.splitlines()) >= 5


@pytest.mark.parametrize("encoding", ("utf-8", "utf-8-sig", "utf-16"))
def test_a_text_from_a_file_or_standard_input(run: Run, gpt2: Path, tmp_path: Path, encoding: str) -> None:
    raw = f"naïve {WORDS}\r\n".encode(encoding)
    file = tmp_path / "text.txt"
    file.write_bytes(raw)
    options = ("--model", gpt2, "--json")
    results = [run("next", "--file", file, *options), run("next", "-", *options, input=raw), run("next", f"naïve {WORDS}", *options)]
    assert len({done.stdout for done in results}) == 1
    assert json.loads(results[0].stdout)["text"] == f"naïve {WORDS}"


def test_out_writes_the_json(run: Run, gpt2: Path, tmp_path: Path) -> None:
    file = tmp_path / "next.json"
    done = run("next", WORDS, "--model", gpt2, "--out", file)
    assert done.stdout == ""
    assert f"Wrote {file}" in done.stderr
    assert file.read_text(encoding="utf-8") == run("next", WORDS, "--model", gpt2, "--json").stdout


def test_tokens_of_several_folders_without_weights(run: Run, gpt2: Path, roberta: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("vocab.json", "merges.txt"):
        (bare / name).write_bytes((gpt2 / name).read_bytes())
    done = run("tokens", "The trophy é", "--model", f"{bare},{roberta}", "--json", "--steps", "trophy")
    one, other = json.loads(done.stdout)["tokenizers"]
    assert [piece["text"] for piece in one["pieces"]][:2] == ["The", " trophy"]
    assert other["pieces"][0] == {"id": 0, "text": "<s>", "bytes": list(b"<s>"), "span": [0, 0], "token": "<s>"}
    assert b"".join(bytes(piece["bytes"]) for piece in one["pieces"]).decode() == "The trophy é"
    assert one["steps"][0]["steps"][0]["pair"] is None
    shown = run("tokens", "The trophy é", "--model", f"{bare},{roberta}", "--steps", "trophy").stdout
    for part in ("The|␣trophy|␣", "Ġtrophy", "added by the format", ", merge ", "3–10"):
        assert part in shown


def test_control_codes_never_reach_the_terminal(run: Run, gpt2: Path) -> None:
    assert "\x1b" not in run("tokens", "a\x1b[31mb\x07", "--model", gpt2).stdout


def test_models_are_listed_with_computed_sizes(run: Run) -> None:
    listed = {model["name"]: model for model in json.loads(run("models", "--json").stdout)["models"]}
    assert listed["openai-gpt"]["parameters"] == 116_534_784
    assert [listed[name]["parameters"] for name in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")] == [
        124_439_808, 354_823_168, 774_030_080, 1_557_611_200,
    ]  # fmt: skip
    assert {known.name for known in PUBLISHED} <= listed.keys()
    shown = run("models").stdout
    assert "1,557,611,200" in shown
    assert "not pinned" in shown.lower()
    assert max(map(len, shown.splitlines()[:12])) <= 100


def test_sizes_are_those_of_the_real_thing() -> None:
    import torch

    from cutaway.core.transformer import Transformer

    configs = [known.config for known in PUBLISHED]
    for config in [*configs, configs[0].with_(tied=False), configs[0].with_(head="none")]:
        with torch.device("meta"):
            assert sum(parameters(config).values()) == sum(p.numel() for p in Transformer(config).parameters())


def test_results_show_themselves_in_a_notebook(gpt2: Path) -> None:
    model = cutaway.load(str(gpt2))
    trace = model.trace(WORDS)
    attention, invariance = trace.attention(layer=0, head=0, query="fit"), cutaway.invariance(model, f"{WORDS} box", f"{WORDS} big")
    for result in (model.next_token(WORDS), trace, attention, invariance):
        assert "<table" in result._repr_html_()


def test_train_shows_how_it_gets_on_and_names_the_folder(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cutaway.train.loop import Step

    def retrain(name: str, folder: Path, on_step: Callable[[Step], None], *, steps: int | None = None) -> None:
        assert (name, folder, steps) == ("nano-gpt2", tmp_path, 2)
        on_step(Step(1, 3.5, 1024))

    monkeypatch.setattr("cutaway.train.nano.retrain", retrain)
    done = run("train", "nano-gpt2", "--out", tmp_path, "--steps", "2")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path)
    assert "3.500 nats" in done.stderr.replace("\n", " ")
    assert run("train", "nano-gpt3").exit_code == 2


@pytest.mark.usefixtures("nano")
def test_a_text_outside_the_nano_world_is_warned_of(run: Run) -> None:
    done = run("next", "Quantum chromodynamics is")
    assert done.exit_code == 0
    assert "nano models know a small english world only" in done.stderr.lower()
    assert run("next", "Quantum chromodynamics is", "--quiet").stderr == ""


def test_a_card_with_words_warns(run: Run, copied: Path) -> None:
    (copied / "card.json").write_text(json.dumps({"nano": True, "words": ["the", "box"]}), encoding="utf-8")
    assert run("next", "The box", "--model", copied).stderr == ""
    done = run("next", "The trophy", "--model", copied)
    assert done.exit_code == 0
    assert "small English world only; not in it: trophy" in done.stderr
    assert run("--quiet", "next", "The trophy", "--model", copied).stderr == ""
    assert run("next", "The trophy", "--model", copied, "--quiet").stderr == ""
