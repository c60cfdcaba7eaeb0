"""Each family against transformers, on tiny random twins: logits and every hidden state, in two precisions."""

import pytest
import torch
from torch import Tensor

import cutaway
from cutaway.core.tap import Tap
from cutaway.model import Model
from tests.conftest import oracle

FAMILIES = ("gpt1", "gpt2", "roberta", "classifier", "bert")
BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5}


def ids(rows: int = 2, length: int = 17) -> Tensor:
    """Random ids, none of them special to RoBERTa (padding would change its positions)."""
    return torch.randint(5, 97, (rows, length), generator=torch.Generator().manual_seed(1))


def hidden_states(model: Model, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
    """Our logits, and what transformers calls hidden_states: what enters each block, and what leaves the last."""
    taps: dict[str, Tensor] = {}
    with torch.no_grad():
        logits = model.transformer(x, lengths=lengths, tap=Tap(lambda name, t: taps.setdefault(name, t)))
    last = "ln_f" if model.config.final_norm else f"blocks.{model.config.layers - 1}.ln2"
    return logits, [taps[f"blocks.{n}.resid_pre"] for n in range(model.config.layers)] + [taps[last]]


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("kind", FAMILIES)
def test_logits_and_hidden_states_are_the_oracles(kind: str, dtype: torch.dtype) -> None:
    theirs = oracle(kind).to(dtype)
    ours = cutaway.load(theirs)
    x = ids()
    with torch.no_grad():
        expected = theirs(x, output_hidden_states=True)
    logits, hidden = hidden_states(ours, x)
    assert (logits - expected.logits).abs().max() <= BOUNDS[dtype]
    assert len(hidden) == len(expected.hidden_states)
    for mine, other in zip(hidden, expected.hidden_states, strict=True):
        assert (mine - other).abs().max() <= BOUNDS[dtype]


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("kind", FAMILIES)
def test_the_fused_kernel_agrees_too(kind: str, dtype: torch.dtype) -> None:
    theirs = oracle(kind).to(dtype)
    with torch.no_grad():
        assert (cutaway.load(theirs).logits(ids()) - theirs(ids()).logits).abs().max() <= BOUNDS[dtype]


@pytest.mark.parametrize("kind", FAMILIES)
def test_padded_rows_are_as_if_alone(kind: str) -> None:
    """Right padding with lengths: real positions agree with the oracle, which is given the mask, and with the row alone."""
    theirs, x, lengths = oracle(kind).double(), ids(3, 12), torch.tensor([12, 5, 1])
    real = torch.arange(12) < lengths[:, None]
    padded = x.masked_fill(~real, 1)
    with torch.no_grad():
        expected = theirs(padded, attention_mask=real.long()).logits
    ours = cutaway.load(theirs)
    got, _ = hidden_states(ours, padded, lengths)
    fused = ours.logits(padded, lengths)
    where = slice(None) if kind == "classifier" else real
    assert (got[where] - expected[where]).abs().max() <= 1e-12
    assert (fused[where] - expected[where]).abs().max() <= 1e-12
    for row, length in enumerate(lengths.tolist()):
        alone, _ = hidden_states(ours, x[row : row + 1, :length])
        assert (alone[0] - (got[row] if kind == "classifier" else got[row, :length])).abs().max() <= 1e-12


@pytest.mark.parametrize("kind", ("gpt1", "gpt2"))
def test_padding_of_a_batch_is_the_single_run_in_float32(kind: str) -> None:
    """Pitfall 1: prompts of 3 and 7 tokens; positions count from each text's start, and 20 greedy tokens are the same."""
    ours = cutaway.load(oracle(kind))
    x, lengths = ids(2, 7), torch.tensor([3, 7])
    together = ours.logits(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = ours.logits(x[row : row + 1, :length])[0, -1]
        assert (together[row, length - 1] - alone).abs().max() <= 1e-5
    assert greedy(ours, x, lengths) == [greedy(ours, x[:1, :3], lengths[:1])[0], greedy(ours, x[1:], lengths[1:])[0]]


def greedy(model: Model, x: Tensor, lengths: Tensor, steps: int = 20) -> list[list[int]]:
    """Greedy continuation of right-padded rows, each written at its own end."""
    rows = torch.cat([x, torch.zeros(len(x), steps, dtype=torch.long)], dim=1)
    ends, out = lengths.clone(), [[] for _ in rows]
    for _ in range(steps):
        best = model.logits(rows, ends)[torch.arange(len(rows)), ends - 1].argmax(dim=-1)
        rows[torch.arange(len(rows)), ends] = best
        ends += 1
        for row, token in enumerate(best.tolist()):
            out[row].append(token)
    return out


def test_a_real_token_that_is_also_the_padding_id_counts() -> None:
    """Pitfall 1: what is padding is known by length, never by id."""
    theirs = oracle("gpt2", vocab_size=50257)
    x = torch.tensor([[50256, 15496]])
    with torch.no_grad():
        expected = theirs(x).logits
    assert (cutaway.load(theirs).logits(x, torch.tensor([2])) - expected).abs().max() <= 1e-5


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta"))
def test_the_other_gelu_would_be_seen(kind: str) -> None:
    """Pitfall 7: the wrong form moves the twins by far more than the bound."""
    theirs = oracle(kind).double()
    ours = cutaway.load(theirs)
    wrong = ours.with_config(activation="gelu_erf" if ours.config.activation == "gelu_tanh" else "gelu_tanh")
    assert (ours.logits(ids()) - wrong.logits(ids())).abs().max() > 1e-5


def test_a_transposed_square_matrix_would_be_seen() -> None:
    """Pitfall 12: attn.c_proj is square, so that no shape tells."""
    theirs = oracle("gpt2")
    ours = cutaway.load(theirs)
    with torch.no_grad():
        expected = theirs(ids()).logits
        for block in ours.transformer.blocks:
            block.attn.out.weight = torch.nn.Parameter(block.attn.out.weight.T.contiguous())
    assert (ours.logits(ids()) - expected).abs().max() > 1e-2


def test_epsilon_comes_from_the_config() -> None:
    """Pitfall 8: an epsilon of 1e-3 changes the output, as it does the oracle's."""
    theirs = oracle("gpt2", layer_norm_epsilon=1e-3).double()
    with torch.no_grad():
        expected = theirs(ids()).logits
    assert (cutaway.load(theirs).logits(ids()) - expected).abs().max() <= 1e-12
    assert (cutaway.load(oracle("gpt2").double()).logits(ids()) - expected).abs().max() > 1e-6


def test_head_count_comes_from_the_config() -> None:
    """Pitfall 19: no shape shows the number of heads."""
    theirs = oracle("gpt2").double()
    ours = cutaway.load(theirs)
    with torch.no_grad():
        expected = theirs(ids()).logits
    assert (ours.logits(ids()) - expected).abs().max() <= 1e-12
    assert (ours.with_config(heads=3).logits(ids()) - expected).abs().max() > 1e-3


def test_batch_size_moves_logits_by_less_than_the_stated_bound() -> None:
    """Pitfall 3: one prompt alone and in batches of 2, 4 and 8, with 0, 3 and 9 pads behind: within 1e-4 in float32."""
    ours = cutaway.load(oracle("gpt2"))
    x = ids(1, 11)
    alone = ours.logits(x)[0]
    for rows in (2, 4, 8):
        for pads in (0, 3, 9):
            batch = torch.cat([x, torch.zeros(1, pads, dtype=torch.long)], dim=1).expand(rows, -1)
            got = ours.logits(batch, torch.full((rows,), 11))[:, :11]
            assert (got - alone).abs().max() <= 1e-4
