"""Trace files hold what the trace held, bit for bit, as another library reads them; what is damaged or foreign is refused.

And differences: against NumPy, at the tap where an edit begins, where the mask lets the query read the key.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

import cutaway
from cutaway.core.tap import tap_names
from cutaway.model import Model
from cutaway.trace import files
from cutaway.trace.compare import Diff, diff
from cutaway.trace.files import SavedTrace, load, save, size_of
from cutaway.trace.summary import summary
from tests.conftest import SENTENCES, worded

KINDS = ("gpt1", "gpt2", "roberta", "bert", "llama", "classifier")
LONG, SHORT = SENTENCES[0], "the cat"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "run.safetensors"


def at(diff: Diff, tap: str) -> Any:
    return next(row for row in diff.taps if row.tap == tap)


# Files


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", (LONG, [LONG, SHORT]), ids=("one", "padded"))
def test_another_library_reads_what_the_trace_held(kind: str, texts: Any, place: Path) -> None:
    model = worded(kind)
    trace = model.trace(texts)
    saved = save(trace, place)
    assert list(saved) == list(trace) == tap_names(model.config)
    with safe_open(place, "pt") as other:
        assert set(other.keys()) == set(trace)
        for tap in trace:
            assert torch.equal(other.get_tensor(tap), trace.whole(tap)), tap
            assert torch.equal(saved.whole(tap), trace.whole(tap)), tap
            assert torch.equal(saved[tap], trace[tap]), tap
    assert (saved.texts, saved.pieces, saved.lengths, saved.edits) == (trace.texts, trace.pieces, trace.lengths, trace.edits)


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_are_known_before_anything_is_computed(kind: str) -> None:
    trace = worded(kind).trace([LONG, SHORT])
    assert trace.shapes == {tap: tuple(trace.whole(tap).shape) for tap in trace}
    assert size_of(trace) == sum(trace.whole(tap).numel() * 4 for tap in trace)


@pytest.mark.parametrize("dtype", (torch.float64, torch.bfloat16, torch.float16))
def test_every_precision(dtype: torch.dtype, place: Path) -> None:
    trace = worded("gpt2", dtype=dtype).trace(LONG)
    saved = save(trace, place)
    assert saved.about.facts["dtype"] == str(dtype).removeprefix("torch.")
    assert all(torch.equal(saved[tap], trace[tap]) and saved[tap].dtype == dtype for tap in trace)


def test_the_schema(place: Path) -> None:
    """As documented: what a reader in any language finds."""
    model = worded("roberta")
    with model.edit({"blocks.1.attn.z": cutaway.zero(head=2)}):
        save(model.trace(LONG), place)
    with safe_open(place, "pt") as other:
        metadata = other.metadata()
    said = json.loads(metadata["trace"])
    assert metadata["schema"] == "cutaway-trace 1"
    assert set(said) == {"cutaway", "facts", "causal", "texts", "pieces", "edits", "taps"}
    assert said["facts"] == model.facts() | {"kernel": "eager"}
    assert (said["causal"], said["texts"], said["taps"]) == (False, [LONG], model.taps)
    assert said["edits"] == ["blocks.1.attn.z: zero at head 2"]
    assert [piece["id"] for piece in said["pieces"][0]] == [piece.id for piece in model.pieces(LONG)]
    assert all(LONG[slice(*piece["span"])] == piece["text"] for piece in said["pieces"][0][1:-1])


def test_taps_are_read_once_and_one_by_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace computes a tap when it is read, so writing must not hold them all."""
    trace = worded("gpt2").trace(LONG)
    read: list[str] = []
    whole = type(trace).whole
    monkeypatch.setattr(type(trace), "whole", lambda self, tap: (read.append(tap), whole(self, tap))[1])
    save(trace, place, ["blocks.*.attn.*", "logits"])
    assert read == [tap for tap in trace if ".attn." in tap or tap == "logits"] == list(load(place))


def test_nothing_done_to_a_tap_changes_what_was_saved(place: Path) -> None:
    """Pitfall 43."""
    saved = save(worded("gpt2").trace(LONG), place)
    saved["logits"].zero_()
    assert saved["logits"].abs().sum() > 0
    assert load(place)["logits"].abs().sum() > 0


def test_a_saved_run_can_be_patched_into_another(place: Path) -> None:
    model = worded("gpt2")
    saved = save(model.trace("the big cat"), place)
    with model.edit({"embed": cutaway.patch(saved)}):  # type: ignore[arg-type]
        assert torch.equal(model.trace("the small dog").logits, saved["logits"])


def test_too_large_a_file_is_refused(place: Path) -> None:
    trace = worded("gpt2").trace(LONG)
    with pytest.raises(cutaway.CutawayError, match=r"35 taps would take .* GB.*at most.*blocks\.5\.attn\.\*"):
        save(trace, place, most=size_of(trace) - 1)
    assert list(place.parent.iterdir()) == []
    assert len(save(trace, place, most=size_of(trace))) == 35
    with pytest.raises(cutaway.CutawayError, match="no tap 'blocks.7'"):
        save(trace, place, ["logits", "blocks.7"])


def full(fd: int) -> None:
    raise OSError(28, "No space left on device")


def stopped(fd: int) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("fail", "error"), ((full, cutaway.CutawayError), (stopped, KeyboardInterrupt)))
def test_a_file_is_there_whole_or_not_at_all(fail: Any, error: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = worded("gpt2")
    save(model.trace(SHORT), place)
    before = place.read_bytes()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(error, match="cannot be written: No space" if fail is full else None):
        save(model.trace(LONG), place)
    assert list(place.parent.iterdir()) == [place]
    assert place.read_bytes() == before


def test_a_folder_that_is_not_there(place: Path) -> None:
    with pytest.raises(cutaway.CutawayError, match="cannot be written: No such file.*a folder that is there"):
        save(worded("gpt2").trace(SHORT), place.parent / "none" / "x")


# Damaged and foreign files


def rewritten(place: Path, change: Callable[[dict[str, Any]], object], schema: str = "cutaway-trace 1", cast: Any = None) -> None:
    """The file as another writer would have it, with other metadata."""
    tensors = {tap: load(place)[tap][None].to(cast) for tap in load(place)}
    said = load(place).about.to_dict()
    change(said)
    save_file(tensors, place, {"schema": schema, "trace": json.dumps(said)})


FOREIGN: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-1]), "cut short"),
    "longer": (lambda path: path.write_bytes(path.read_bytes() + b"x"), "something was appended"),
    "empty": (lambda path: path.write_bytes(b""), "too short"),
    "text": (lambda path: path.write_text("the big cat was in the box"), "no safetensors file"),
    "a model": (lambda path: save_file({"wte": torch.zeros(2, 2)}, path), "a safetensors file and no trace"),
    "later": (lambda path: rewritten(path, lambda said: None, "cutaway-trace 2"), "of version '2'.*version 1"),
    "no JSON": (lambda path: path.write_bytes(path.read_bytes().replace(b'\\"cutaway\\"', b'x"cutaway\\"')), "trusted|understood"),
    "no facts": (lambda path: rewritten(path, lambda said: said.pop("facts")), "other keys"),
    "a number": (lambda path: rewritten(path, lambda said: said.update(texts=[1])), "another type"),
    "a truth": (lambda path: rewritten(path, lambda said: said["facts"].update(threads=True)), "another type"),
    "a byte": (lambda path: rewritten(path, lambda said: said["pieces"][0][0].update(bytes=[256])), "cannot be understood"),
    "a span": (lambda path: rewritten(path, lambda said: said["pieces"][0][0].update(span=[0])), "not a start and an end"),
    "no text": (lambda path: rewritten(path, lambda said: said.update(texts=[], pieces=[])), "0 texts"),
    "no token": (lambda path: rewritten(path, lambda said: said.update(pieces=[[]])), "1 texts and the tokens of 1"),
    "integers": (lambda path: rewritten(path, lambda said: None, cast=torch.int32), "holds torch.int32, of a run in float32"),
    "another precision": (lambda path: rewritten(path, lambda said: None, cast=torch.float16), "holds torch.float16, of a run in float32"),
    "a tap less": (lambda path: rewritten(path, lambda said: said["taps"].pop()), "not the tensors that it holds"),
    "a tap twice": (lambda path: rewritten(path, lambda said: said["taps"].append("logits")), "not the tensors that it holds"),
    "a token less": (lambda path: rewritten(path, lambda said: said["pieces"][0].pop()), "1 texts with 6 tokens"),
    "a text more": (lambda path: rewritten(path, lambda said: said.update(texts=[LONG] * 2, pieces=said["pieces"] * 2)), "of 2 texts"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_what_is_damaged_or_foreign_is_refused(case: str, place: Path) -> None:
    spoil, expected = FOREIGN[case]
    save(worded("gpt2").trace(LONG), place)
    spoil(place)
    with pytest.raises(cutaway.CutawayError, match=f"{place.name}.*({expected})"):
        load(place)


def test_a_changed_byte_is_refused_or_changes_nothing_but_a_value(place: Path) -> None:
    """No byte of the header makes another error than ours."""
    save(worded("gpt2").trace(SHORT), place, ["logits"])
    whole = place.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    rng = np.random.default_rng(0)
    for byte in range(header):
        place.write_bytes(whole[:byte] + bytes([whole[byte] ^ int(rng.integers(1, 256))]) + whole[byte + 1 :])
        try:
            assert load(place).whole("logits").shape[0] == 1
        except cutaway.CutawayError as error:
            assert str(place) in str(error) or "no tap 'logits'" in str(error)


def test_a_file_that_is_not_there(place: Path) -> None:
    with pytest.raises(cutaway.CutawayError, match=r"run\.safetensors cannot be read: No such file"):
        load(place)


# Differences


@pytest.mark.parametrize("kind", KINDS)
def test_against_numpy(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tap of two texts each, of which the first is changed; scores where the query may read the key; in several chunks."""
    monkeypatch.setattr("cutaway.trace.compare.CHUNK", 50)
    model = worded(kind)
    a, b = (model.trace([f"the {words} was in the box", "the cat was in the big box"]) for words in ("big cat", "small dog"))
    found = diff(a, b)
    assert [row.tap for row in found.taps] == model.taps
    for row in found.taps:
        x, y = (trace.whole(row.tap).double().numpy() for trace in (a, b))
        gap = np.abs(x - y)
        if row.tap.endswith("attn.scores") and model.config.causal:
            gap = gap[..., np.tril(np.ones(gap.shape[2:])) == 1]
        assert (row.values, row.unequal) == (gap.size, np.count_nonzero(gap)), row.tap
        assert row.max_abs_diff == gap.max()
        assert row.mean_abs_diff == pytest.approx(gap.mean(), rel=1e-12)
    assert found.first == "tok_embed"
    assert not found.identical


@pytest.mark.parametrize("tap", ("pos_embed", "blocks.0.attn.pattern", "blocks.1.resid_pre", "blocks.1.mlp.post", "logits"))
def test_runs_part_where_the_edit_is(tap: str, place: Path) -> None:
    model = worded("gpt2")
    plain = save(model.trace(LONG), place)
    with model.edit({tap: cutaway.scale(2.0)}):
        found = diff(plain, model.trace(LONG))
    assert found.first == tap
    before = model.taps.index(tap)
    assert [row.unequal for row in found.taps[:before]] == [0] * before
    assert found.verdict.startswith(f"They part at {tap}")
    assert found.lines == (f"Edits in force: none in one, {tap}: scale by 2.0 in the other.",)


def test_the_same_run_twice(place: Path) -> None:
    model = worded("llama")
    found = diff(save(model.trace([LONG, SHORT]), place), model.trace([LONG, SHORT]))
    assert found.identical
    assert found.verdict == f"{len(model.taps)} taps identical, bit for bit."
    assert found.lines == ()
    assert all((row.max_abs_diff, row.mean_abs_diff, row.unequal) == (0, 0, 0) for row in found.taps)


def with_scores(model: Model, change: Callable[[Tensor], Tensor]) -> Any:
    with model.edit({"blocks.1.attn.scores": change}):
        return model.trace(LONG)


def test_what_the_mask_hides_is_not_compared() -> None:
    """q·k with later words differs; no causal model lets it matter. One key that may be read is seen at once."""
    for kind, above, unequal in (("gpt2", 1, 0), ("gpt2", 0, 4 * 7), ("roberta", 1, 4 * 9 * 8 // 2)):
        model = worded(kind)
        found = diff(model.trace(LONG), with_scores(model, lambda x, above=above: x + torch.ones_like(x).triu(above)))
        assert at(found, "blocks.1.attn.scores").unequal == unequal


def test_padding_is_not_compared() -> None:
    model = worded("gpt2")
    a, b = model.trace([SHORT, LONG]), model.trace([SHORT, LONG])
    spoiled = {tap: b.whole(tap).clone() for tap in b}
    for tap in spoiled:
        spoiled[tap][0, ..., 2:, :] = 9.0
        if tap.endswith(("scores", "pattern")):
            spoiled[tap][0, ..., 2:] = 9.0
    object.__setattr__(b, "taps", spoiled)
    assert diff(a, b).identical


@pytest.mark.parametrize(("kind", "bound"), (("gpt2", 1e-5), ("roberta", np.inf)))
def test_texts_of_two_lengths(kind: str, bound: float) -> None:
    """Compared at the positions and keys that both have: in a causal model nothing but rounding is there."""
    model = worded(kind)
    found = diff(model.trace("the big cat was in the box"), model.trace("the big cat"))
    common = len(model.pieces("the big cat"))
    assert at(found, "blocks.0.attn.pattern").values == 4 * common * common
    assert at(found, "blocks.0.attn.scores").values == 4 * (6 if kind == "gpt2" else 25)
    assert max(row.max_abs_diff for row in found.taps) < bound
    assert not found.identical
    assert f"the first {common} positions, and {common} keys, are compared" in found.notes[-1]


def test_equal_as_far_as_both_go_is_not_identical(place: Path) -> None:
    long, short = (save(worded("gpt2").trace(text), place.with_name(text[-3:]), ["pos_embed"]) for text in (LONG, SHORT))
    found = diff(long, short)
    assert (found.first, found.identical) == (None, False)
    assert found.verdict.startswith("1 tap identical, bit for bit; but not all")


@pytest.mark.parametrize("value", (float("nan"), float("inf")))
def test_what_is_not_a_number_is_equal_to_nothing(value: float) -> None:
    """At the last token the same in both runs, beside a plain difference at the first; equal infinities are equal."""
    model, tap, nan = worded("gpt2"), "blocks.1.mlp.out", np.isnan(value)
    with model.edit({tap: cutaway.replace(value, position=6)}):
        a = model.trace(LONG)
        with model.edit({tap: cutaway.scale(2.0, position=0)}):
            b = model.trace(LONG)
    found = diff(a, b)
    assert found.first == tap
    assert at(found, tap).unequal == (96 if nan else 48)
    assert at(found, tap).max_abs_diff == pytest.approx(value if nan else a[tap][0].abs().max().item(), nan_ok=True)
    assert at(found, "logits").unequal == 2 * model.config.vocab_size
    assert np.isnan([at(found, "logits").max_abs_diff, at(found, "logits").mean_abs_diff]).all()
    rows = {row["tap"]: row for row in json.loads(json.dumps(found.to_dict(), allow_nan=False))["taps"]}
    assert rows["logits"]["max_abs_diff"] is None
    assert json.dumps(summary(a).to_dict(), allow_nan=False)


def test_minus_zero_has_other_bits() -> None:
    model = worded("gpt2")
    traces = []
    for zero in (0.0, -0.0):
        with model.edit({"blocks.1.mlp.out": cutaway.replace(zero)}):
            traces.append(model.trace(LONG))
    found = diff(*traces)
    assert found.first == "blocks.1.mlp.out"
    assert at(found, "blocks.1.mlp.out").max_abs_diff == 0


def test_what_cannot_be_compared_is_named(place: Path) -> None:
    """Taps that one alone holds, taps of two shapes, another model, another number of texts, nothing in common."""
    model, wide = worded("gpt2"), worded("gpt2", n_embd=96)
    found = diff(model.trace(LONG), wide.trace(LONG))
    assert set(found.unlike) == {tap for tap in model.taps if not tap.endswith(("scores", "pattern", "logits"))}
    assert found.unlike["embed"] == ((1, 7, 48), (1, 7, 96))
    assert "embed is (1, 7, 48) in one and (1, 7, 96) in the other; not compared." in found.lines
    parts = [save(model.trace(LONG), place.with_name(name), [name]) for name in ("embed", "logits")]
    found = diff(parts[0], model.trace(LONG))
    assert found.only == ((), tuple(tap for tap in model.taps if tap != "embed"))
    assert not found.identical
    assert found.verdict == "1 tap identical, bit for bit; but not all could be compared."
    with pytest.raises(cutaway.CutawayError, match="no tap in common"):
        diff(*parts)
    with pytest.raises(cutaway.CutawayError, match="holds 2 texts and the other 1"):
        diff(model.trace([LONG, SHORT]), model.trace(LONG))


def test_a_causal_and_a_bidirectional_run() -> None:
    model = worded("gpt2")
    traces = [model.trace(LONG), model.with_config(causal=False).trace(LONG)]
    for found in (diff(*traces), diff(*traces[::-1])):
        assert found.first == "blocks.0.attn.pattern"  # scores are before the mask
        assert at(found, "blocks.1.attn.scores").values == 4 * 28
        assert any("One model is causal" in line for line in found.notes)


# A few numbers of each tap


@pytest.mark.parametrize("kind", KINDS)
def test_summary_against_numpy(kind: str) -> None:
    model = worded(kind)
    trace = model.trace([LONG, SHORT])
    for row in summary(trace).taps:
        parts = []
        for x, length in zip(trace.whole(row.tap).double().numpy(), trace.lengths, strict=True):
            part = x if x.ndim == 1 else x[..., :length, :]
            if row.tap.endswith(("scores", "pattern")):
                part = part[..., :length]
            if row.tap.endswith("scores") and model.config.causal:
                part = part[:, np.tril(np.ones((length, length))) == 1]
            parts.append(part.ravel())
        values = np.concatenate(parts)
        assert row.shape == tuple(trace.whole(row.tap).shape)
        assert (row.mean, row.std, row.largest) == pytest.approx((values.mean(), values.std(), np.abs(values).max()), abs=1e-6, rel=1e-5)


def test_pages(place: Path) -> None:
    model = worded("gpt2")
    saved: SavedTrace = save(model.trace(LONG), place)
    assert "blocks.1.mlp.out" in saved._repr_html_()
    assert f"<td>{summary(saved).taps[0].std:.4f}</td>" in summary(saved)._repr_html_()
    assert "35 taps identical, bit for bit" in diff(saved, saved)._repr_html_()
    assert "They part at tok_embed" in diff(saved, model.trace("the small dog was in the box"))._repr_html_()
    assert files.about(saved) is saved.about
