"""Recall by attention and by an LSTM: the task, the sizes, causality, caching; claims follow what was learned."""

from pathlib import Path
from typing import Any

import pytest
import torch

import cutaway
from cutaway import charts
from cutaway.lab import e03_recurrence as lab
from cutaway.lab import e03_recurrence_models as models
from cutaway.lab import e03_recurrence_times as times
from cutaway.lab.experiment import NotTrainedError, Run
from cutaway.lab.measurement import Measurement
from cutaway.lab.record import Record

SMALL: dict[str, Any] = {"width": 12, "steps": 2, "rates": (1e-3,), "seeds": 2, "distances": (0, 3), "repeats": 10}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "TIMED", (4, 16))
    monkeypatch.setattr(lab, "LOOKS", 2)
    monkeypatch.setattr(models, "LOOKS", 2)


def verdicts(found: dict[str, Measurement]) -> list[str]:
    return [claim.check(found.get(claim.measurement)) for claim in lab.recurrence.claims]


@pytest.mark.parametrize("shared", (True, False))
def test_the_answer_to_each_question_was_told(shared: bool) -> None:
    """Read back by hand."""
    task = models.Task(shared, (5,))
    ids, places, answers = task.draw(torch.Generator().manual_seed(1), 20, 5)
    assert ids.shape[1] == task.longest
    assert int(ids.max()) < models.VOCABULARY
    for row, wanted in zip(ids.tolist(), answers.tolist(), strict=True):
        told = {}
        for n in range(models.PAIRS):
            if shared:
                key, value = divmod(row[n] - models.KEYS - models.VALUES - models.FILLERS, models.VALUES)
                told[key] = value + models.KEYS
            else:
                told[row[2 * n]] = row[2 * n + 1]
        assert [told[row[place]] for place in places.tolist()] == wanted


def test_parameters_are_equal_and_state_is_what_is_kept() -> None:
    every = lab.systems(48, (0, 4, 16, 64))
    found = {m.key: m.value for m in lab.sizes(every)}
    assert found["parameters.apart"] < 0.02  # type: ignore[operator]
    assert found["state[variant=equal state,model=attention]"] == found["state[variant=equal state,model=LSTM]"]
    model = models.attention_model(24, 2, 2)
    from cutaway.core.cache import Cache

    cache = Cache(model.config, 1, 10, dtype=torch.float32)
    assert models.state_bytes(model, 10) == sum(v.numel() * 4 for v in vars(cache).values() if isinstance(v, torch.Tensor))
    lstm = models.Recurrent(12, 2)
    _, state = lstm.lstm(lstm.embed(torch.zeros(1, 3, dtype=torch.long)))
    assert models.state_bytes(lstm, 10) == sum(part.numel() * 4 for part in state)


@pytest.mark.parametrize("attends", (True, False))
def test_an_lstm_reads_nothing_that_comes_later(attends: bool) -> None:
    model = models.Recurrent(12, 2, attends=attends)
    ids = torch.randint(models.VOCABULARY, (1, 9), generator=torch.Generator().manual_seed(2))
    changed = ids.clone()
    changed[0, 6] = (ids[0, 6] + 1) % models.VOCABULARY
    apart = (model(ids) - model(changed)).abs().amax(dim=-1)[0]
    assert apart[:6].max() == 0
    assert apart[6:].min() > 0


def test_one_layer_of_attention_learns_it_and_without_its_scores_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    task = models.Task(True, (0, 2))
    model = models.attention_model(24, 1, 2)
    curve = models.train(model, task, 1e-2, 160, 1)
    assert min(curve[-1]) > 0.6
    with torch.no_grad():
        model.blocks[0].attn.q.weight.zero_()  # type: ignore[union-attr, operator]
        model.blocks[0].attn.q.bias.zero_()  # type: ignore[union-attr, operator]
    assert max(models.recalled(model, task, distance) for distance in task.distances) < 0.6


def test_it_is_trained_once(tmp_path: Path) -> None:
    found = {m.key: m for m in lab.recurrence.measure(Run(models=tmp_path), **SMALL) if m.kind != "timing"}
    assert len(list(tmp_path.iterdir())) == 7 * 3
    again = {m.key: m for m in lab.recurrence.measure(Run(models=tmp_path, may_train=False), **SMALL) if m.kind != "timing"}
    assert again == found
    with pytest.raises(NotTrainedError):
        list(lab.recurrence.measure(Run(models=tmp_path, may_train=False), **SMALL | {"steps": 3}))
    record = Record("e03_recurrence", 1, {}, None, 3, 0.95, tuple(found.values()), {})
    for chart in lab.charts([record]).values():
        assert "<svg" in charts.svg(chart)


def test_a_stopped_sweep_goes_on(tmp_path: Path) -> None:
    done: dict[str, Any] = {}
    trained: list[int] = []
    real = models.train

    def stop(*given: Any) -> Any:
        if len(trained) == 5:
            raise KeyboardInterrupt
        trained.append(1)
        return real(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "train", stop)
        with pytest.raises(KeyboardInterrupt):
            list(lab.recurrence.measure(Run(models=tmp_path, done=done), **SMALL))
    assert len(done) == 5
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    list(lab.recurrence.measure(Run(models=tmp_path, done=done), **SMALL))
    assert len(list(tmp_path.iterdir())) == 7 * 3


def test_claims_follow_what_was_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(shares: dict[str, float], one: Any = None) -> list[str]:
        def given(run: Run, every: Any, steps: int, job: tuple[int, float, int]) -> dict[str, Any]:
            which, rate, seed = job
            share = shares[every[which].model] + seed % 7 * 0.001 * (which + 1)
            curve = [[share] * len(every[which].task.distances)] * models.LOOKS
            return {"which": which, "rate": rate, "seed": seed, "loss": rate, "curve": curve}

        monkeypatch.setattr(lab, "train_one", given)
        return verdicts({m.key: m for m in lab.recurrence.measure(Run(), **SMALL | {"seeds": 5, "width": 48})})

    assert found({"attention": 0.9, "LSTM": 0.3, "LSTM with attention": 0.7}) == ["holds"] * 4
    assert found({"attention": 0.3, "LSTM": 0.9, "LSTM with attention": 0.7})[:2] == ["fails", "fails"]
    monkeypatch.setattr(lab, "as_large", lambda *given, **named: 12)
    monkeypatch.setattr(lab, "state_bytes", lambda model, tokens: tokens)
    assert found({"attention": 0.9, "LSTM": 0.3, "LSTM with attention": 0.7})[2:] == ["fails", "fails"]


def test_pairs_alternate() -> None:
    order: list[str] = []
    ratios = list(times.ratios(lambda: order.append("a"), lambda: order.append("b"), 4))
    assert order == ["a", "b", *"ba", *"ab", *"ba", *"ab"]
    assert len(ratios) == 4


@pytest.mark.parametrize("bad", [{"seeds": 0}, {"rates": ()}, {"distances": (3,)}, {"repeats": 5}, {"width": 20}, {"steps": 1}])
def test_parameters_that_make_no_sense(bad: dict[str, Any]) -> None:
    with pytest.raises(cutaway.CutawayError, match="2 seeds or more"):
        list(lab.recurrence.measure(Run(), **SMALL | bad))
