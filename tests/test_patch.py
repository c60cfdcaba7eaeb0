"""Patching: what is swept is what editing by hand gives, what changes nothing is exactly 0, and what changes everything exactly 1."""

import json
from typing import Any

import pytest
import torch

import cutaway
from cutaway.errors import EditError, ModelError, TapError, TextError
from cutaway.model import Model
from cutaway.trace.edit import patch as patch_from
from cutaway.trace.odds import LogOdds, log_odds
from cutaway.trace.patch import PatchSweep, patch_sweep
from tests.conftest import worded

CLEAN = "the big cat was in the box because it was too big"
CORRUPT = "the big cat was in the box because it was too small"
MASKED, OTHER = (text.replace("it was", "it<mask>") for text in (CLEAN, CORRUPT))
ASKED = LogOdds("cat", "box")
EVERY = ["embed", "blocks.*.resid_pre", "blocks.*.attn.out", "blocks.*.mlp.post"]
WITHIN = ["blocks.*.attn.q", "blocks.*.attn.k", "blocks.*.attn.v", "blocks.*.attn.scores", "blocks.*.attn.pattern", "blocks.*.attn.z"]


def texts(model: Model) -> tuple[str, str]:
    return (CLEAN, CORRUPT) if model.config.causal else (MASKED, OTHER)


def swept(kind: str, taps: Any, **given: Any) -> tuple[Model, PatchSweep]:
    model = worded(kind)
    return model, patch_sweep(model, *texts(model), taps, ASKED, **{"least": 0.0, **given})


def answer(model: Model, text: str) -> float:
    ids = [piece.id for piece in model.pieces(text)]
    first, second = (model.tokenizer.encode(f" {word}")[0] for word in ("cat", "box"))
    at = ids.index(model.tokenizer.specials["<mask>"]) if "<mask>" in text else -1
    last = model.trace(text).logits[at].log_softmax(-1)
    return (last[first] - last[second]).item()


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "llama", "roberta", "bert"))
def test_each_site_is_an_edit_by_hand(kind: str) -> None:
    """The definition, with `model.edit`: one text a run, no batch, no common beginning."""
    model, found = swept(kind, [*EVERY, *WITHIN])
    clean, corrupt = texts(model)
    own = {text: answer(model, text) for text in (clean, corrupt)}
    assert found.pairs[0].odds == pytest.approx((own[clean], own[corrupt]), abs=1e-5)
    last = len(model.pieces(clean)) - 1
    picked = [n for n, site in enumerate(found.sites) if site.positions[0] >= last - 2 and (site.heads or (1,)) == (1,)]
    assert {found.sites[n].tap.split(".", 2)[-1] for n in picked} >= {"embed", "resid_pre", "attn.scores", "attn.v"}
    for direction, (donor, into) in {"denoising": (clean, corrupt), "noising": (corrupt, clean)}.items():
        trace = model.trace(donor)
        for n in picked:
            site = found.sites[n]
            with model.edit({site.tap: patch_from(trace, position=site.positions, head=site.heads)}):
                patched = answer(model, into)
            moved = found.effects(direction)[0, n].item() * (own[donor] - own[into])
            assert moved == pytest.approx(patched - own[into], abs=2e-5), (direction, site)


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "llama", "roberta"))
def test_the_exact_checks(kind: str) -> None:
    """Pitfall 43: clean into clean is bit-identical; every differing token is the whole difference; a causal past is deaf."""
    model, found = swept(kind, [*EVERY, *WITHIN])
    pair = found.pairs[0]
    assert pair.itself is True
    assert pair.whole == 1.0
    before = [n for n, site in enumerate(found.sites) if site.positions[-1] < pair.differing[0]]
    assert before
    largest = found.effects()[:, before].abs().max().item()
    assert (largest == 0.0) == model.config.causal
    assert (pair.before == 0.0) == model.config.causal


def test_a_model_that_looks_ahead_is_found_out() -> None:
    """The same weights without the mask: the past is deaf no more, and nothing else of the checks changes."""
    model = worded("gpt2").with_config(causal=False)
    pair = patch_sweep(model, CLEAN, CORRUPT, "blocks.*.resid_pre", ASKED, least=0.0).pairs[0]
    assert pair.before is not None
    assert pair.before > 0.0
    assert pair.itself
    assert pair.whole == 1.0


def test_the_whole_stream_of_any_block_is_the_donors_answer() -> None:
    """All positions at once, in any layer; grouped positions and heads are one site."""
    every = tuple(range(len(worded("gpt2").pieces(CLEAN))))
    _, found = swept("gpt2", "blocks.*.resid_pre", positions=[every, every[:-1]])
    assert [site.positions for site in found.sites] == [every, every[:-1]] * 2
    assert found.pairs[0].denoising[::2] == (1.0, 1.0)  # type: ignore[index]
    assert found.pairs[0].noising[::2] == (1.0, 1.0)  # type: ignore[index]
    _, heads = swept("gpt2", "blocks.1.attn.z", positions=[-1], heads=[0, (0, 1, 2, 3)])
    _, out = swept("gpt2", "blocks.1.attn.out", positions=[-1])
    assert [site.heads for site in heads.sites] == [(0,), (0, 1, 2, 3)]
    assert heads.effects()[0, 1].item() == pytest.approx(out.effects()[0, 0].item(), abs=1e-6)


def test_what_the_texts_begin_with_is_read_once() -> None:
    """Sites behind the first difference alone go on from there, and give the same."""
    model, found = swept("gpt2", "blocks.*.resid_pre")
    last = len(model.pieces(CLEAN)) - 1
    _, fewer = swept("gpt2", "blocks.*.resid_pre", positions=[last])
    assert fewer.pairs[0].before is None
    same = [n for n, site in enumerate(found.sites) if site.positions == (last,)]
    assert fewer.effects()[0].tolist() == pytest.approx(found.effects()[0, same].tolist(), abs=1e-5)


def test_batches_of_any_size_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = swept("gpt2", EVERY)
    monkeypatch.setattr("cutaway.trace.patch.TOKENS", 7 * 12)
    _, small = swept("gpt2", EVERY)
    assert small.effects()[0].tolist() == pytest.approx(found.effects()[0].tolist(), abs=1e-5)
    assert small.pairs[0].before == 0.0
    assert small.pairs[0].itself


def test_the_neutral_twin() -> None:
    """Its effect is a share of the corrupt text's: a neutral text that is the corrupt one does just what noising does."""
    model, found = swept("gpt2", "blocks.*.resid_pre", neutral=CORRUPT)
    assert found.pairs[0].neutral == found.pairs[0].noising
    same = patch_sweep(model, CLEAN, CORRUPT, "blocks.*.resid_pre", ASKED, neutral=CLEAN, least=0.0).pairs[0]
    assert set(same.neutral or ()) == {0.0}
    other = CLEAN.replace("cat", "dog")  # differs before the corrupt text does
    early = patch_sweep(model, CLEAN, CORRUPT, "blocks.*.resid_pre", ASKED, neutral=other, positions=[-1], least=0.0).pairs[0]
    whole = patch_sweep(model, CLEAN, CORRUPT, "blocks.*.resid_pre", ASKED, neutral=other, least=0.0).pairs[0]
    last = len(early.tokens[0])
    assert early.neutral == pytest.approx((whole.neutral or ())[last - 1 :: last], abs=1e-5)
    longer = patch_sweep(model, CLEAN, CORRUPT, "blocks.*.resid_pre", ASKED, neutral=CLEAN + " box", least=0.0)
    assert longer.pairs[0].neutral is None
    assert longer.effects("neutral").isnan().all()


def test_words_of_several_pieces() -> None:
    """Their pieces are read one behind the other, in the patched run too."""
    model = worded("gpt2")
    ids = [model.tokenizer.encode(f" {word}")[0] for word in ("cat", "box", "dog")]
    asked = LogOdds([ids[0], ids[2]], ids[1])
    found = patch_sweep(model, CLEAN, CORRUPT, ["embed", "blocks.1.resid_pre"], asked, least=0.0).pairs[0]
    expected = []
    for text in (CLEAN, CORRUPT):
        one, two = (model.trace(text + more).logits.log_softmax(-1) for more in ("", " cat"))
        expected.append((one[-1, ids[0]] + two[-1, ids[2]] - one[-1, ids[1]]).item())
    assert found.odds == pytest.approx(expected, abs=1e-5)
    assert found.whole == 1.0
    assert found.before == 0.0
    with pytest.raises(TextError, match="2 and 1 pieces"):
        patch_sweep(worded("roberta"), MASKED, OTHER, "embed", LogOdds([5, 6], 7))


def test_pairs_whose_answers_are_too_close_are_counted() -> None:
    model = worded("gpt2")
    found = patch_sweep(model, [CLEAN, CLEAN], [CORRUPT, CORRUPT], "embed", [ASKED, LogOdds("cat", "box", at=3)])
    assert (len(found.pairs), found.left_out, found.least) == (1, 1, 0.1)
    assert found.effects().shape == (1, len(found.sites))


def test_under_an_edit() -> None:
    """Edits in force stay in force: without any attention, what is held elsewhere cannot reach the answer."""
    model = worded("gpt2")
    with model.edit({"blocks.*.attn.out": cutaway.zero()}):
        found = patch_sweep(model, CLEAN, CORRUPT, "blocks.*.resid_pre", ASKED, least=0.0)
    last = found.sites[-1].positions
    assert all((value != 0.0) == (site.positions == last) for site, value in zip(found.sites, found.pairs[0].denoising or (), strict=True))
    assert found.facts["edits"] == ["blocks.*.attn.out: zero"]


def test_the_result_is_json_and_a_page() -> None:
    _, found = swept("gpt2", "blocks.*.resid_pre", neutral=CLEAN)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["sites"][0] == {"tap": "blocks.0.resid_pre", "layer": 0, "positions": [0], "heads": None}
    assert told["pairs"][0]["denoising"] == list(found.pairs[0].denoising or ())
    page = found._repr_html_()
    assert "Denoising" in page
    assert "blocks.1.resid_pre at 11" in page
    assert page.count("<td") == 3 * len(found.sites)
    none = swept("gpt2", "embed", least=1e9)[1]
    assert none.pairs == ()
    assert "Left out" in none._repr_html_()


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"corrupt": CORRUPT + " box"}, TextError, "equal lengths"),
        ({"corrupt": CLEAN}, TextError, "the same"),
        ({"corrupt": [CORRUPT, CORRUPT]}, TextError, "numbers of texts differ"),
        ({"taps": "blocks.9.resid_pre"}, TapError, "blocks.9.resid_pre"),
        ({"positions": [40]}, EditError, "0 to 11"),
        ({"positions": [()]}, EditError, "matches nothing"),
        ({"positions": []}, EditError, "nothing to patch"),
        ({"taps": []}, EditError, "nothing to patch"),
        (
            {"clean": [CLEAN, CLEAN + " box"], "corrupt": [CORRUPT, CORRUPT + " box"], "metric": [ASKED, ASKED], "positions": [-1]},
            TextError,
            "12 to 13",
        ),
        ({"heads": [0]}, EditError, "no heads"),
        ({"metric": LogOdds("cat", "cat")}, TextError, "the same"),
        ({"metric": LogOdds("cat", "box", at=99)}, TextError, "position 99"),
        ({"metric": LogOdds("", "box")}, TextError, "no word"),
        ({"metric": LogOdds(10**6, "box")}, TextError, "no word"),
    ],
)
def test_bad_input(given: dict[str, Any], error: type[Exception], said: str) -> None:
    asked = {"clean": CLEAN, "corrupt": CORRUPT, "taps": "blocks.*.resid_pre", "metric": ASKED} | given
    with pytest.raises(error, match=said):
        patch_sweep(worded("gpt2"), **asked)


def test_a_model_without_words_is_refused() -> None:
    with pytest.raises(ModelError, match="predicts no words"):
        patch_sweep(worded("classifier"), CLEAN, CORRUPT, "embed", ASKED)
    with pytest.raises(TextError, match="0 masks"):
        patch_sweep(worded("roberta"), CLEAN, CORRUPT, "embed", ASKED)
    with pytest.raises(TextError, match="different positions"):
        patch_sweep(worded("roberta"), "the<mask> big cat was", "the big<mask> cat was", "embed", ASKED)


def test_log_odds_by_definition() -> None:
    logits = torch.tensor([[[1.0, 2.0, 4.0], [0.0, 5.0, 1.0]]])
    ids, first, second = torch.tensor([[0, 1]]), torch.tensor([[1]]), torch.tensor([[2]])
    assert log_odds(lambda given: logits, ids, first, second).item() == pytest.approx(4.0)
    assert log_odds(lambda given: logits, ids, first, second, at=0).item() == pytest.approx(-2.0)
