"""A trace keeps the residual stream and computes the rest again: bit for bit what keeping it gives, or it says why not."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

import cutaway
from cutaway.core.attention import ROWS
from cutaway.core.cache import Cache
from cutaway.model import Model
from cutaway.trace.edit import Edit
from cutaway.trace.lazy import Inputs, run, stage_of
from tests.conftest import oracle, tokenizer_folder, worded

TEXT = "the big cat was in the box"
TEXTS = [TEXT, "the small dog"]
KINDS = ("gpt1", "gpt2", "roberta", "bert", "llama", "classifier", "bert-body")


def model_of(kind: str, **changes: int) -> Model:
    if kind != "bert-body":
        return worded(kind, **changes)
    tokenizer = cutaway.text.load_tokenizer(tokenizer_folder("roberta"))
    return cutaway.load(oracle(kind, vocab_size=tokenizer.vocab_size, **changes), tokenizer=tokenizer)


def require_equal(model: Model, texts: str | list[str]) -> None:
    """Every tap, read in an order that no run has, and read twice."""
    lazy, kept = model.trace(texts), model.trace(texts, keep="all")
    assert list(lazy) == list(kept) == model.taps
    for tap in [*reversed(model.taps), *model.taps]:
        assert torch.equal(lazy.whole(tap), kept.whole(tap)), tap


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", (TEXT, TEXTS))
def test_lazy_is_kept(kind: str, texts: str | list[str]) -> None:
    require_equal(model_of(kind), texts)


@pytest.mark.parametrize("kind", ("gpt2", "roberta"))
def test_lazy_is_kept_in_blocks_of_queries(kind: str) -> None:
    name = "n_positions" if kind == "gpt2" else "max_position_embeddings"
    model = model_of(kind, **{name: 3 * ROWS})
    require_equal(model, " ".join([TEXT] * (2 * ROWS // 7)))


EDITS: dict[str, Callable[[], Edit | Callable[[Tensor], Tensor]]] = {
    "zero": lambda: cutaway.zero(),
    "scale": lambda: cutaway.scale(0.5),
    "add": lambda: cutaway.add(0.25),
    "replace": lambda: cutaway.replace(0.125),
    "resample": lambda: cutaway.resample("the small dog was too big for"),
    "function": lambda: torch.sin,
}


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "llama", "classifier"))
@pytest.mark.parametrize("edit", EDITS)
def test_lazy_is_kept_under_edits(kind: str, edit: str) -> None:
    """At every tap, one after the other; and read when the edit is no longer in force."""
    model = worded(kind)
    for tap in model.taps:
        with model.edit({tap: EDITS[edit]()}):
            lazy, kept = model.trace(TEXT), model.trace(TEXT, keep="all")
        for name in model.taps:
            assert torch.equal(lazy.whole(name), kept.whole(name)), (tap, name)
        if edit == "add" and tap not in ("tok_embed", "pos_embed"):
            assert not torch.equal(lazy[tap], model.trace(TEXT)[tap]), tap


def test_edits_in_blocks_of_queries() -> None:
    model = worded("gpt2", n_positions=3 * ROWS)
    long = " ".join([TEXT] * (2 * ROWS // 7))
    with model.edit({"blocks.0.attn.scores": cutaway.scale(2.0, head=1), "blocks.1.attn.pattern": cutaway.zero(head=2, position=-1)}):
        require_equal(model, long)


def test_a_changed_tensor_does_not_reach_an_edit() -> None:
    model, vector = worded("gpt2"), torch.ones(48)
    with model.edit({"blocks.0.resid_mid": cutaway.add(vector)}):
        lazy, kept = model.trace(TEXT), model.trace(TEXT, keep="all")
    vector.zero_()
    assert torch.equal(lazy["blocks.0.mlp.out"], kept["blocks.0.mlp.out"])


@pytest.mark.parametrize("kind", ("gpt2", "llama"))
def test_at_a_generated_token(kind: str) -> None:
    """One token after a prefix in a cache: lazy = kept, equal to the whole text's last row within rounding, prefix untouched."""
    model = worded(kind)
    ids, _, _ = model.batch([TEXT])
    cache = Cache(model.config, 1, 32, dtype=model.dtype)
    model.transformer(ids[:, :-1], cache=cache)
    before = cache.fork()
    with model.edit({"blocks.0.mlp.out": cutaway.scale(1.5)}):
        inputs = Inputs(ids[:, -1:], torch.tensor([1]), cache)
        lazy, kept, whole = run(model, inputs), run(model, inputs, "all"), model.trace(TEXT)
    model.transformer(ids[:, :1], cache=cache)  # going on with the cache does not reach the trace
    for tap in reversed(model.taps):
        assert torch.equal(lazy[tap], kept[tap]), tap
    assert torch.equal(cache._store[..., : before.length, :], before._store[..., : before.length, :])
    assert lazy["blocks.1.attn.pattern"].shape == lazy.shapes["blocks.1.attn.pattern"] == (1, 4, 1, 7)
    plain = model.trace(TEXT)
    assert (plain.whole("logits")[:, -1] - model.logits(ids)[:, -1]).abs().max() < 1e-5
    assert not torch.equal(whole.whole("logits"), plain.whole("logits"))


def test_only_the_stream_is_kept() -> None:
    trace = worded("gpt2").trace(TEXT)
    assert set(trace.taps.kept) == {"blocks.0.resid_pre", "blocks.1.resid_pre"}
    trace.whole("blocks.0.attn.pattern")
    assert all(tap.startswith("blocks.0.") for tap in trace.taps.last)
    trace.whole("logits")
    assert set(trace.taps.last) == {"ln_f", "logits"}


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_are_known_without_computing(kind: str) -> None:
    trace = model_of(kind).trace(TEXTS)
    assert dict(trace.shapes) == {tap: tuple(trace.taps.again(stage_of(tap))[tap].shape) for tap in trace}
    assert not trace.taps.last


def test_keep_names_taps() -> None:
    model = worded("gpt2")
    trace = model.trace(TEXT, keep=["blocks.*.attn.z", "logits"])
    assert set(trace.taps.kept) == {f"blocks.{n}.{tap}" for n in (0, 1) for tap in ("resid_pre", "attn.z")} | {"logits"}
    with pytest.raises(cutaway.CutawayError, match=r"no tap 'blocks.\*.attn.zz'"):
        model.trace(TEXT, keep=["blocks.*.attn.zz"])


def swap(model: Model) -> None:
    model.transformer.blocks[1].mlp.up.weight = torch.nn.Parameter(model.transformer.blocks[1].mlp.up.weight.detach().clone())  # type: ignore[union-attr]


def in_place(model: Model, way: str) -> None:
    weight = model.transformer.blocks[1].mlp.up.weight  # type: ignore[union-attr]
    if way == "data":
        weight.data[3, 5] += 1e-6  # type: ignore[index]
    else:
        with torch.no_grad():
            weight[0, 0].add_(0)  # type: ignore[index, operator]


@pytest.mark.parametrize("change", (swap, partial(in_place, way="data"), partial(in_place, way="no_grad")))
def test_changed_weights_are_noticed(change: Callable[[Model], None]) -> None:
    """A tensor put in place, one number written past autograd, and a write that leaves the value: the taps kept can still be read."""
    model = worded("gpt2")
    trace = model.trace(TEXT, keep=["blocks.1.attn.z"])
    trace.whole("blocks.0.attn.q")
    change(model)
    assert trace["blocks.0.resid_pre"].isfinite().all() and trace["blocks.1.attn.z"].isfinite().all()
    with pytest.raises(cutaway.CutawayError, match="weights have changed since this trace was made.*keep="):
        trace["blocks.1.attn.q"]


def test_another_number_of_threads_is_noticed() -> None:
    trace = worded("gpt2").trace(TEXT)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        with pytest.raises(cutaway.CutawayError, match=rf"made with {threads} threads.*set_num_threads\({threads}\)"):
            trace["blocks.1.attn.q"]
    finally:
        torch.set_num_threads(threads)
    assert trace["blocks.1.attn.q"].isfinite().all()


def test_an_edit_behind_the_blocks_is_met_and_fails_when_the_trace_is_made() -> None:
    model = worded("gpt2")
    with model.edit({"logits": cutaway.zero()}):
        trace = model.trace(TEXT)
    assert not trace["logits"].any()
    with (
        pytest.raises(cutaway.CutawayError, match="does not|broadcasts"),
        model.edit({"ln_f": cutaway.add(torch.ones(5))}),
    ):
        model.trace(TEXT)


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "llama"))
def test_gradients_against_finite_differences(kind: str) -> None:
    """In float64, in one random direction at every tap."""
    model = worded(kind, dtype=torch.float64)

    def metric(logits: Tensor) -> Tensor:
        return logits[0, -1].log_softmax(-1)[5] - logits[0, 2, 7] ** 2

    trace = model.trace(TEXT, grad=metric)
    rng = torch.Generator().manual_seed(0)
    for tap in model.taps:
        grad = trace.grad(tap)
        assert grad.shape == trace[tap].shape
        direction = torch.randn(grad.shape, generator=rng, dtype=torch.float64)
        values = []
        for step in (1e-5, -1e-5):
            with model.edit({tap: lambda x, by=step * direction: x + by}):
                values.append(metric(model.trace(TEXT).whole("logits")).item())
        assert (values[0] - values[1]) / 2e-5 == pytest.approx((grad * direction).sum().item(), rel=1e-6, abs=1e-6), tap
    assert not any(parameter.requires_grad or parameter.grad is not None for parameter in model.transformer.parameters())


def test_gradients_of_a_trace_without() -> None:
    model = worded("gpt2")
    with pytest.raises(cutaway.CutawayError, match="made without gradients.*grad="):
        model.trace(TEXT).grad("logits")
    with pytest.raises(cutaway.CutawayError, match=r"made a tensor of shape \(1, 7\).*one number"):
        model.trace(TEXT, grad=lambda logits: logits[..., 0])
    with pytest.raises(cutaway.CutawayError, match="made float"):
        model.trace(TEXT, grad=lambda logits: 1.0)  # type: ignore[arg-type, return-value]


def test_gradients_in_blocks_of_queries() -> None:
    """The joined scores and pattern lie on the path, so their gradients are those of a run in one piece."""
    model = worded("gpt2", n_positions=3 * ROWS, dtype=torch.float64)
    long = " ".join([TEXT] * (2 * ROWS // 7))
    trace = model.trace(long, grad=lambda logits: logits[0, -1].log_softmax(-1)[5])
    for tap in ("scores", "pattern"):
        grad = trace.grad(f"blocks.1.attn.{tap}")
        assert grad.abs().max() > 0 and not grad[:, :-1].any()  # in the last block, the last position's row alone
