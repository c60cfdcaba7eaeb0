"""Traces: every tap, under one vocabulary, with the values that it names; looking changes nothing."""

import numpy as np
import pytest
import torch

import cutaway
from cutaway.core.tap import tap_names
from cutaway.model import Model
from tests.conftest import oracle, worded

KINDS = ("gpt1", "gpt2", "roberta", "classifier")


@pytest.mark.parametrize("kind", KINDS)
def test_every_tap_is_there_in_order(kind: str) -> None:
    model = worded(kind)
    trace = model.trace("the big cat was in the box")
    assert list(trace) == tap_names(model.config) == model.taps


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta"))
def test_a_block_adds_up(kind: str) -> None:
    """Design: resid_mid and resid_post are the plain sums, wherever the norms stand."""
    model = worded(kind)
    trace = model.trace("the big cat was in the box")
    block = "blocks.1."
    assert torch.equal(trace[block + "resid_mid"], trace[block + "resid_pre"] + trace[block + "attn.out"])
    read = trace[block + ("resid_mid" if model.config.norm_first else "ln1")]
    assert torch.equal(trace[block + "resid_post"], read + trace[block + "mlp.out"])
    left = trace["blocks.0." + ("resid_post" if model.config.norm_first else "ln2")]
    assert torch.equal(trace[block + "resid_pre"], left)


def test_one_block_against_numpy() -> None:
    """A second, independent reference: one pre-norm block in plain NumPy, in float64."""
    model = worded("gpt2", dtype=torch.float64)
    trace = model.trace("the big cat was in the box")
    p = {name: value.detach().numpy() for name, value in model.transformer.blocks[0].named_parameters()}

    def norm(x: np.ndarray, which: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * p[f"{which}.weight"] + p[f"{which}.bias"]

    def linear(x: np.ndarray, which: str) -> np.ndarray:
        return x @ p[f"{which}.weight"].T + p[f"{which}.bias"]

    x = trace["blocks.0.resid_pre"].numpy()
    read = norm(x, "ln1")
    q, k, v = (np.stack(np.split(linear(read, f"attn.{n}"), 4, axis=-1)) for n in "qkv")  # (H, T, K)
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(12)
    hidden = np.where(np.tril(np.ones(scores.shape[1:])) == 1, scores, -np.inf)
    pattern = np.exp(hidden - hidden.max(-1, keepdims=True))
    pattern /= pattern.sum(-1, keepdims=True)
    mid = x + linear(np.concatenate(list(pattern @ v), axis=-1), "attn.out")
    up = linear(norm(mid, "ln2"), "mlp.up")
    post = 0.5 * up * (1 + np.tanh(np.sqrt(2 / np.pi) * (up + 0.044715 * up**3)))
    expected = mid + linear(post, "mlp.down")
    for tap, value in {"attn.scores": scores, "attn.pattern": pattern, "resid_mid": mid, "mlp.post": post, "resid_post": expected}.items():
        assert np.abs(trace[f"blocks.0.{tap}"].numpy() - value).max() < 1e-12, tap


@pytest.mark.parametrize("kind", KINDS)
def test_looking_changes_nothing(kind: str) -> None:
    """Pitfall 42: traced logits are bit-identical to those under an empty tap, and within a stated bound of the fast kernel."""
    model = worded(kind)
    ids, lengths, _ = model.batch(["the big cat was in the box"])
    traced = model.trace("the big cat was in the box").logits
    assert torch.equal(traced, model.trace("the big cat was in the box").logits)
    assert (traced - model.logits(ids, lengths)[0]).abs().max() <= 1e-5


def test_what_is_read_is_a_copy() -> None:
    """Pitfall 43: writing into a returned activation does not change the recording."""
    trace = worded("gpt2").trace("the big cat")
    first = trace["blocks.0.attn.pattern"]
    first.zero_()
    assert trace["blocks.0.attn.pattern"].sum() > 0


def test_several_texts_are_padded_and_their_lengths_stated() -> None:
    model = worded("gpt2")
    trace = model.trace(["the big cat was in the box", "the cat"])
    alone = model.trace("the cat")
    assert trace.lengths == (7, 2)
    assert trace["blocks.1.attn.pattern"].shape == (2, 4, 7, 7)
    assert (trace["blocks.1.resid_post"][1, :2] - alone["blocks.1.resid_post"]).abs().max() <= 1e-5


def test_a_tap_that_is_not_there_lists_those_that_are() -> None:
    with pytest.raises(cutaway.CutawayError, match=r"no tap 'blocks.0.mlp.gate'.*tok_embed.*blocks.0.attn.pattern"):
        worded("gpt2").trace("the cat")["blocks.0.mlp.gate"]


def test_the_attention_of_a_word() -> None:
    """Weights are the pattern's row; the contributions of all sources add up to the head's share of attn.out."""
    model = worded("gpt2")
    trace = model.trace("the big cat was in the box")
    seen = trace.attention(layer=1, head=2, query="box")
    assert torch.equal(seen.weights, trace["blocks.1.attn.pattern"][2, 6])
    out = model.transformer.blocks[1].attn.out
    parts = [seen.weights[s] * out.weight[:, 24:36] @ trace["blocks.1.attn.v"][2, s] for s in range(7)]
    assert torch.allclose(seen.lengths, torch.stack([part.norm() for part in parts]), atol=1e-6)
    whole = torch.stack(parts).sum(0)
    assert torch.allclose(whole, out.weight[:, 24:36] @ trace["blocks.1.attn.z"][2, 6], atol=1e-6)


def test_padded_roberta_positions() -> None:
    """Pitfall 4: positions begin at padding_idx + 1, and 64 tokens are the most that 66 rows allow."""
    model = worded("roberta")
    trace = model.trace("the cat")
    table = model.transformer.embed.position.weight
    assert torch.equal(trace["pos_embed"], table[2 : 2 + trace.lengths[0]])
    fits = " ".join(["the"] * 62)
    assert model.trace(fits).lengths == (64,)
    with pytest.raises(cutaway.CutawayError, match="has 65 tokens.*at most 64"):
        model.trace(fits + " the")


@pytest.mark.parametrize("text", ("", "   "[:0]))
def test_an_empty_text_is_refused(text: str) -> None:
    for model in (worded("gpt2"), worded("roberta")):
        with pytest.raises(cutaway.CutawayError, match="The text is empty"):
            model.trace(text)


def test_a_model_without_tokenizer_says_so() -> None:
    model: Model = cutaway.load(oracle("gpt2"))
    with pytest.raises(cutaway.CutawayError, match="came without a tokenizer"):
        model.trace("the cat")
