"""Training with another scale: what is trained, what is kept, and what the numbers are taken from."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from cutaway.core.transformer import hold, holding
from cutaway.lab import e03_scale_training as lab
from cutaway.lab import training
from cutaway.lab.experiment import NotTrainedError, Run
from cutaway.train import checkpoint

SMALL = (32, 2, 1, 3)  # width, heads, layers, steps


def test_the_scale_is_what_it_says() -> None:
    """d^-1/2 is the plain model, and another power is the plain model with its W_q multiplied."""
    config = training.config_of(32, 2, 1)
    ids = torch.randint(config.vocab_size, (2, 9), generator=torch.Generator().manual_seed(1))
    for power, factor in ((0.5, 1.0), (0.0, 4.0), (1.0, 0.25)):  # √16 and its inverse
        scaled = lab.Scaled(config, power)
        training.loop.initialise(scaled, 1)
        parameters = {name: p.detach().clone() for name, p in scaled.named_parameters() if name != "head.unembed.weight"}
        for part in ("weight", "bias"):
            parameters[f"blocks.0.attn.q.{part}"] *= factor
        assert torch.allclose(scaled(ids), holding(config, parameters)(ids), atol=1e-5)


def test_a_model_is_trained_once_and_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(models=tmp_path, may_train=True)
    job = ("d^0", 1e-3, 3)
    first = lab.train_one(run, SMALL, job)
    (folder,) = tmp_path.iterdir()
    monkeypatch.setattr(training.loop, "train", None)  # would fail if called
    assert lab.train_one(Run(models=tmp_path, may_train=False), SMALL, job) == first
    config = training.config_of(32, 2, 1)
    model = lab.Scaled(config, 0.0)
    hold(model, checkpoint.weights(folder))
    part = training.held_out()[:1]
    rows = zip(part[0].ids, part[0].lengths.tolist(), strict=True)  # each passage on its own, without padding
    losses = [F.cross_entropy(model(ids[None, : length - 1])[0], ids[1:length], reduction="none") for ids, length in rows]
    model_loss = torch.cat(losses).mean().item()
    monkeypatch.setattr(training, "held_out", lambda: part)
    assert training.losses(model)["loss"] == pytest.approx(model_loss, abs=1e-5)


def test_nothing_is_trained_unless_it_may(tmp_path: Path) -> None:
    with pytest.raises(NotTrainedError, match="--full"):
        lab.train_one(Run(models=tmp_path, may_train=False), SMALL, ("d^0", 1e-3, 3))
    assert not list(tmp_path.iterdir())


def test_claims_follow_the_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With losses given instead of trained, the claims hold where no scale is worse, and fail where it is better."""

    def verdicts(worst: dict[str, float]) -> list[str]:
        def given(run: Run, sizes: tuple[int, ...], job: tuple[str, float, int]) -> dict[str, object]:
            scale, rate, seed = job
            loss = worst.get(scale, 1.0) + seed % 7 * 0.001 * len(scale) + (rate != 2e-3)
            return {"scale": scale, "rate": rate, "seed": seed, "loss": loss, "answers": loss}

        monkeypatch.setattr(lab, "train_one", given)
        found = {m.key: m for m in lab.scale_training.measure(Run(models=tmp_path))}
        assert found["best_rate[scale=d^0]"].value == 2e-3
        return [claim.check(found[claim.measurement]) for claim in lab.scale_training.claims]

    assert verdicts({"d^0": 1.5, "d^-1/4": 1.2, "d^0, W_q/√d": 1.2}) == ["holds"] * 3
    assert verdicts({"d^0": 0.5, "d^-1/4": 0.8, "d^0, W_q/√d": 1.2}) == ["fails"] * 3
