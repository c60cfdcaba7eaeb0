"""What chapter 4 trains: one head against several, with the line and without; what is measured, and when claims fail."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import cutaway
from cutaway import charts
from cutaway.core.transformer import Transformer
from cutaway.lab import e04_one_head, e04_without_line, training
from cutaway.lab.experiment import Experiment, NotTrainedError, Run
from cutaway.lab.measurement import Measurement
from cutaway.lab.record import Record


def verdicts(e: Experiment, found: dict[str, Measurement]) -> list[str]:
    return [claim.check(found.get(claim.measurement)) for claim in e.claims]


def drawn(e: Experiment, found: dict[str, Measurement]) -> None:
    record = Record(e.name, 1, {}, None, 3, 0.95, tuple(found.values()), {})
    assert e.charts
    for chart in e.charts([record]).values():
        assert "<svg" in charts.svg(chart)


class TestOneHead:
    def test_it_is_trained_once_and_has_the_parameters_of_several(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(e04_one_head, "twin_set", lambda tier: training_twins())
        sizes: dict[str, Any] = {"width": 16, "layers": 1, "heads": (1, 4), "steps": 2, "rates": (1e-3,), "seeds": 2}
        found = {m.key: m for m in e04_one_head.one_head.measure(Run(models=tmp_path), **sizes)}
        assert found["parameters.apart"].value == 0
        model = Transformer(training.config_of(16, 4, 1))
        assert found["parameters"].value == sum(p.numel() for p in model.parameters())
        assert len(list(tmp_path.iterdir())) == 2 * (1 + 2)
        again = {m.key: m for m in e04_one_head.one_head.measure(Run(models=tmp_path, may_train=False), **sizes)}
        assert again == found
        with pytest.raises(NotTrainedError):
            list(e04_one_head.one_head.measure(Run(models=tmp_path, seed=2, may_train=False), **sizes))

    def test_claims_follow_the_losses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def found(worse: float, larger: int = 0) -> dict[str, Measurement]:
            def given(run: Run, sizes: tuple[int, ...], job: tuple[int, float, int]) -> dict[str, object]:
                heads, rate, seed = job
                loss = 1 + worse * (heads == 1) + seed % 7 * 0.001 * heads + (rate != 2e-3)
                told = {"heads": heads, "rate": rate, "seed": seed, "loss": loss, "answers": loss, "right": 0.5}
                return told | {"parameters": 9 + larger * heads}

            monkeypatch.setattr(e04_one_head, "train_one", given)
            return {m.key: m for m in e04_one_head.one_head.measure(Run(), rates=(1e-3, 2e-3))}

        assert found(0)["best_rate[heads=1]"].value == 2e-3
        assert verdicts(e04_one_head.one_head, found(0)) == ["holds", "holds"]
        assert verdicts(e04_one_head.one_head, found(0.5, 1)) == ["fails", "fails"]
        drawn(e04_one_head.one_head, found(0))

    def test_an_empty_list_is_refused(self) -> None:
        for bad in ({"seeds": 0}, {"rates": ()}, {"heads": (6,)}):
            with pytest.raises(cutaway.CutawayError, match="2 seeds or more"):
                list(e04_one_head.one_head.measure(Run(), **bad))


def training_twins() -> Any:
    from cutaway.worlds import twin_set

    return twin_set("pairs")[:3]


class TestWithoutLine:
    def test_what_is_read_from_before_is_what_a_plain_loop_reads(self) -> None:
        model = Transformer(training.config_of(16, 2, 1, causal=True))
        training.loop.initialise(model, 1)
        (ids,) = training.held_out()[0].ids[:1, : int(training.held_out()[0].lengths[0])]
        found = e04_without_line.from_before(model, [ids])
        half = len(ids) // 2
        with torch.no_grad():
            whole = model(ids[None])[0]
        assert found["before"] == pytest.approx(F.cross_entropy(whole[half - 1], ids[half]).item(), abs=1e-5)  # causal: the same
        text = ids[:half].tolist()
        while len(text) < len(ids):
            text.append(int(model(torch.tensor([text]))[0, -1].argmax()))
        right = [a == b for a, b in zip(text[half:], ids[half:].tolist(), strict=True)]
        assert found["right"] == pytest.approx(sum(right) / len(right))

    def test_the_two_differ_in_the_mask_alone(self, tmp_path: Path) -> None:
        given: dict[str, Any] = {"width": 16, "heads": 2, "layers": 1, "steps": 2, "seeds": 2, "rows": 2}
        found = {m.key: m for m in e04_without_line.without_line.measure(Run(models=tmp_path), **given)}
        assert len(list(tmp_path.iterdir())) == 4
        assert found["loss.whole[line=with]"].value != found["loss.whole[line=without]"].value
        drawn(e04_without_line.without_line, found)

    def test_claims_fail_where_both_are_trained_with_the_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def found(same: bool) -> list[str]:
            def given(run: Run, sizes: tuple[int, ...], rate: float, rows: int, job: tuple[str, int]) -> dict[str, object]:
                line, seed = job
                blind = line == "without" and not same
                jitter = seed % 7 * 0.001 + (0.001 if line == "with" and seed % 2 else 0)
                return {"line": line, "seed": seed, "loss": (0.01 if blind else 1.0) + jitter, "answers": 1.0,
                        "before": (5.0 if blind else 1.0) + jitter, "right": (0.1 if blind else 0.6) + jitter, "repeats": 0.1}  # fmt: skip

            monkeypatch.setattr(e04_without_line, "train_one", given)
            measured = {m.key: m for m in e04_without_line.without_line.measure(Run())}
            return verdicts(e04_without_line.without_line, measured)

        assert found(same=False) == ["holds"] * 3
        assert "holds" not in found(same=True)

    def test_parameters_that_make_no_sense(self) -> None:
        with pytest.raises(cutaway.CutawayError, match="seeds=0"):
            list(e04_without_line.without_line.measure(Run(), seeds=0))
