"""Training: a resumed run is the same run, a mean is over tokens, and another run's state is refused."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import cutaway
from cutaway.core.transformer import Transformer
from cutaway.text.tokenizer import load_tokenizer
from cutaway.text.train import train_bpe
from cutaway.train import data
from cutaway.train.loop import Learner, Schedule, Step, initialise, loss_of, train
from cutaway.train.objectives import Causal, Masked, Objective
from cutaway.train.recurrent import Recurrent
from cutaway.worlds import passages
from tests.conftest import worded

SCHEDULE = Schedule(steps=20, warmup=5, save_every=5)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> partial[Iterator[data.Batch]]:
    folder = tmp_path_factory.mktemp("vocabulary")
    texts = [passage.text for _, passage in zip(range(3000), passages(1), strict=False)]
    train_bpe(texts, "gpt2", None, folder)
    encoder = partial(data.encode, tokenizer=load_tokenizer(folder))
    return partial(data.batches, lambda pool: passages(pool), encoder, tokens=200, pad=0)


def fresh(causal: bool = True) -> Transformer:
    config = worded("gpt2" if causal else "roberta").config.with_(vocab_size=1200)
    model = Transformer(config)
    initialise(model, 1)
    return model


def run(model: Learner, source: object, folder: Path, objective: Objective, steps: int = 20, stop: int = 10**9) -> list[float]:
    losses: list[float] = []

    def see(step: Step) -> None:
        losses.append(step.loss)
        if step.number == stop:
            raise KeyboardInterrupt

    schedule = Schedule(**(vars(SCHEDULE) | {"steps": steps}))
    with suppress(KeyboardInterrupt):
        train(model, lambda n: source(start=n), objective, schedule, folder, see)  # type: ignore[operator]
    return losses


@pytest.mark.parametrize("masked", (False, True))
def test_stopped_and_resumed_is_the_same_run(source: object, tmp_path: Path, masked: bool) -> None:
    """Pitfall 56: 20 steps in one go, and 10 + a new model + 10: losses and weights are bit-identical."""
    objective: Objective = Masked(1199, frozenset({1199}), 1200) if masked else Causal(3.0)
    whole = fresh(not masked)
    losses = run(whole, source, tmp_path / "whole", objective)
    first = run(fresh(not masked), source, tmp_path / "parts", objective, stop=12)  # saved at 10
    second_model = fresh(not masked)
    second = run(second_model, source, tmp_path / "parts", objective)
    assert first[:10] + second == losses
    for (name, a), b in zip(whole.named_parameters(), second_model.parameters(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("make", (Transformer, Recurrent))
@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "classifier"))
def test_every_parameter_is_initialised(make: type[Transformer] | type[Recurrent], kind: str) -> None:
    """Layers are made without values; none may keep what its memory held before."""
    model = make(worded(kind).config)
    for name, parameter in model.named_parameters():
        if not name.endswith(("ln1.weight", "ln2.weight", "ln_f.weight", "norm.weight")):  # norms begin at one
            torch.nn.init.constant_(parameter, torch.nan)
    initialise(model, 1)
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_the_baseline_learns_too(source: object, tmp_path: Path) -> None:
    model = Recurrent(worded("gpt2").config.with_(vocab_size=1200))
    initialise(model, 1)
    losses = run(model, source, tmp_path, Causal(), steps=60)
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])


def test_the_baseline_has_nano_gpt2s_size() -> None:
    """Equal parameters, within one in a hundred."""
    config = cutaway.load("nano-gpt2").config
    sizes = [sum(p.numel() for p in make(config).parameters()) for make in (Recurrent, Transformer)]
    assert abs(sizes[0] / sizes[1] - 1) < 0.01


def test_it_learns(source: object, tmp_path: Path) -> None:
    losses = run(fresh(), source, tmp_path, Causal(), steps=60)
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_another_runs_state_is_refused(source: object, tmp_path: Path) -> None:
    run(fresh(), source, tmp_path, Causal(), steps=5)
    with pytest.raises(cutaway.CutawayError, match=r"another run; these differ: schedule\.steps"):
        run(fresh(), source, tmp_path, Causal(), steps=6)


def test_the_loss_is_a_mean_over_tokens() -> None:
    """Pitfall 53: one token in one row and three in another count as four tokens, not as two rows."""
    model = fresh()
    batch = data.collate([([5, 6], []), ([7, 8, 9, 10], [])], pad=0)
    logits = model(batch.ids[:, :-1]).detach()
    asked = ((logits[0, :1], batch.ids[0, 1:2]), (logits[1], batch.ids[1, 1:]))
    each = [F.cross_entropy(row, labels, reduction="sum") for row, labels in asked]
    loss = loss_of(model, batch, Causal(), torch.Generator())
    assert torch.allclose(loss, sum(each) / 4)


def test_batches_continue_where_they_stopped(source: object) -> None:
    """Random access into the stream: batches from number 70 on are those of the whole stream."""
    whole = [batch.ids for _, batch in zip(range(75), source(), strict=False)]  # type: ignore[operator]
    later = [batch.ids for _, batch in zip(range(5), source(start=70), strict=False)]  # type: ignore[operator]
    assert all(torch.equal(a, b) for a, b in zip(whole[70:], later, strict=True))
