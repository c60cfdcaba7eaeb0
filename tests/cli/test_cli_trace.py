"""`cutaway trace` and `cutaway diff`: the table, the file, the comparison, and what is said of bad input."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import cutaway
from tests.cli.conftest import Run
from tests.cli.test_cli_errors import refused

TEXT, OTHER = "The trophy didn't fit in the suitcase because it was too big.", "The box is large."


def test_a_row_for_each_tap(run: Run, gpt2: Path) -> None:
    done = run("trace", TEXT, "--model", gpt2)
    assert done.exit_code == 0
    model = cutaway.load(gpt2)
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(model.taps)]] == model.taps
    logits = model.trace(TEXT).logits
    shown = next(line for line in lines if line.startswith("logits")).split()
    assert shown[-3:] == [f"{logits.mean():+.4f}", f"{logits.std(correction=0):.4f}", f"{logits.abs().max():.4f}"]
    assert "weights sha256" in done.stdout
    assert "eager attention" in done.stdout
    assert max(map(len, lines)) <= 100


def test_some_taps_as_json(run: Run, roberta: Path) -> None:
    done = run("trace", TEXT, "--model", roberta, "--keep", "blocks.*.attn.z", "--keep", "logits", "--json")
    found = json.loads(done.stdout)
    assert [tap["tap"] for tap in found["taps"]] == ["blocks.0.attn.z", "blocks.1.attn.z", "logits"]
    assert found["taps"][-1]["largest"] == pytest.approx(cutaway.load(roberta).trace(TEXT).logits.abs().max().item())
    assert found["facts"]["kernel"] == "eager"


def test_a_file(run: Run, gpt2: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.safetensors"
    done = run("trace", TEXT, "--model", gpt2, "--out", out, "--keep", "blocks.1.*")
    assert done.exit_code == 0
    assert "taps take" in done.stderr
    assert str(out) in done.stdout
    trace = cutaway.load(gpt2).trace(TEXT)
    tensors = load_file(out)
    assert set(tensors) == {tap for tap in trace if tap.startswith("blocks.1.")}
    assert all(torch.equal(tensors[tap], trace.whole(tap)) for tap in tensors)
    described = json.loads(run("trace", TEXT, "--model", gpt2, "--out", out, "--json").stdout)
    assert (described["file"], described["bytes"], described["texts"]) == (str(out), out.stat().st_size, [TEXT])
    assert described["shapes"]["logits"] == list(trace.whole("logits").shape)


def test_diff(run: Run, gpt2: Path, tmp_path: Path) -> None:
    """The report of a file and itself, of two texts, in words and as JSON; the exit code is 0 for each."""
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    for text, out in ((TEXT, a), (OTHER, b)):
        assert run("trace", text, "--model", gpt2, "--out", out).exit_code == 0
    same, other = run("diff", a, a), run("diff", a, b)
    assert (same.exit_code, other.exit_code) == (0, 0)
    assert same.stdout.splitlines()[-1].endswith("taps identical, bit for bit.")
    assert other.stdout.splitlines()[-1].startswith("They part at tok_embed; ")
    assert "differ from token 1 on: ' trophy' in one and ' box' in the other." in other.stdout
    assert "are compared" in other.stdout
    found = json.loads(run("diff", a, b, "--json").stdout)
    assert (found["first"], found["identical"]) == ("tok_embed", False)
    assert [tap["tap"] for tap in found["taps"]] == cutaway.load(gpt2).taps
    assert json.loads(run("diff", a, a, "--json").stdout)["identical"] is True


def test_bad_input(run: Run, gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run.safetensors"
    assert "no tap 'nope'. Expected: one of tok_embed" in refused(run, "trace", TEXT, "--model", gpt2, "--keep", "nope")
    assert "at most 64" in refused(run, "trace", "the " * 65, "--model", gpt2, "--out", out)
    assert "No such file" in refused(run, "diff", out, out)
    assert "no trace" in refused(run, "diff", gpt2 / "model.safetensors", out)
    assert "cannot be written" in refused(run, "--quiet", "trace", TEXT, "--model", gpt2, "--out", tmp_path / "none" / "x")
    monkeypatch.setattr("cutaway.trace.files.size_of", lambda trace, patterns: 2**33)
    message = refused(run, "--quiet", "trace", TEXT, "--model", gpt2, "--out", out)
    assert "would take 8.59 GB. Expected: at most 4.29 GB. Next: name the taps that you need" in message
    assert list(tmp_path.iterdir()) == []
