"""`models` and `about` on the command line: tables that fit, files that are written, and a model that is taken away."""

import json
from pathlib import Path

import pytest
from huggingface_hub import constants

from cutaway.about import about
from cutaway.catalog import catalog
from cutaway.shipped import shipped_names
from tests.cli.conftest import Run
from tests.test_catalog import placed


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_models_and_about_print_the_library_s_results(run: Run) -> None:
    assert json.loads(run("models", "--json").stdout) == json.loads(json.dumps(catalog().to_dict()))
    asked = run("about", "roberta", "--context", "10", "--json")
    assert json.loads(asked.stdout) == json.loads(json.dumps(about("roberta", context=10).to_dict()))
    assert asked.stderr == ""


def test_the_table_of_models(run: Run) -> None:
    shown = run("models").stdout
    assert max(map(len, shown.splitlines()[:16])) <= 100
    for part in ("2019-08-20", "774,030,080", "RoBERTa nano", "Not pinned", "model_type llama"):
        assert part in shown


@pytest.mark.parametrize("name", ("gpt2-xl", "gpt1", "roberta-large-openai-detector", *shipped_names()[-1:]))
def test_about_is_readable(run: Run, name: str) -> None:
    shown = run("about", name).stdout
    found = about(name)
    long = [line for line in shown.splitlines() if len(line) > 100]
    assert all("http" in line or "models" in line for line in long)
    for part in (f"{found.parameters:,}", f"{found.flops.total:,}", *(one.name for one in found.lineage), found.sources[0]):
        assert part in shown
    assert all(f"{count:,}" in shown for count in found.variants.values())
    assert ("not pinned" in shown) is not found.nano
    assert ("nano: a small model of this project" in shown) is found.nano


def test_a_file_that_does_not_agree_is_shown(run: Run, copied: Path) -> None:
    from safetensors.torch import load_file, save_file

    assert "as many as the configuration asks for" in " ".join(run("about", copied).stdout.split())
    tensors = load_file(copied / "model.safetensors")
    del tensors["transformer.ln_f.weight"]
    save_file(tensors, copied / "model.safetensors", {"format": "pt"})
    assert "they differ by 48 (norms" in " ".join(run("about", copied).stdout.split())


def test_files(run: Run, tmp_path: Path) -> None:
    for args in (("models",), ("about", "gpt2")):
        done = run(*args, "--html", tmp_path / "page.html", "--svg", tmp_path / "chart.svg")
        assert (done.exit_code, done.stdout) == (0, "")
        assert done.stderr.count("Note: Wrote") == 2
        assert "<table" in (tmp_path / "page.html").read_text(encoding="utf-8")
        assert (tmp_path / "chart.svg").read_text(encoding="utf-8").startswith("<svg")
    assert run("about", "gpt2", "--svg", tmp_path / "no" / "chart.svg").exit_code == 2


def test_a_wrong_name(run: Run) -> None:
    done = run("about", "gpt2-medum")
    assert done.exit_code == 2
    assert "did you mean gpt2-medium?" in done.stderr


def test_remove_asks_first(run: Run, cache: Path) -> None:
    folder = placed(cache, "openai-community/gpt2")
    asked = run("models", "--remove", "gpt2", input="n\n")
    assert asked.exit_code == 1
    assert "Delete openai-community/gpt2" in asked.stderr
    assert folder.exists()
    assert run("models", "--remove", "gpt2", input="y\n").exit_code == 0
    assert not folder.exists()
    placed(cache, "openai-community/gpt2")
    done = run("models", "--remove", "openai-community/gpt2", "--yes")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "freed" in done.stderr
    assert not folder.exists()


@pytest.mark.parametrize("name", ("gpt2", "gpt3", *shipped_names()[:1]))
def test_remove_what_cannot_be_removed(run: Run, name: str) -> None:
    done = run("models", "--remove", name, "--yes")
    assert done.exit_code == 2
    assert "Error:" in done.stderr
