"""Heads typed and ablated: against transformers' patterns, a model built by hand, and edits; each claim can fail."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import cutaway
from cutaway import charts
from cutaway.core.config import Config
from cutaway.core.transformer import Transformer, hold
from cutaway.lab import e04_heads as lab
from cutaway.lab import e04_heads_ablation as ablation
from cutaway.lab import e04_heads_types as types
from cutaway.lab.experiment import Run
from cutaway.lab.measurement import Measurement
from cutaway.lab.record import Record
from cutaway.lab.texts import asked_of, following
from cutaway.model import Model
from cutaway.train.loop import initialise
from tests.conftest import SENTENCES, oracle, worded

FEW: dict[str, Any] = {"sequences": 8, "length": 5, "texts": 3, "draws": 200, "ablated": 3, "shown": 2}


@cache
def nano(name: str) -> Model:
    return cutaway.load(name)


def measured(model: Model, **changes: Any) -> dict[str, Measurement]:
    return {m.key: m for m in lab.heads.measure(Run(model, seed=3), **FEW | changes)}


def verdicts(model: Model, **changes: Any) -> dict[str, str]:
    found = measured(model, **changes)
    return {c.measurement: c.check(found.get(c.measurement)) for c in lab.heads.claims_about(model)}


@pytest.fixture
def sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "drawn", lambda run, model, count: SENTENCES[:count])


@pytest.mark.parametrize("name", ("nano-gpt1", "nano-gpt2", "nano-roberta"))
def test_all_claims_hold(name: str) -> None:
    found = verdicts(nano(name), sequences=40, length=12, texts=8)
    assert set(found.values()) == {"holds"}
    assert len(found) == (3 if name == "nano-roberta" else 4)


@pytest.mark.usefixtures("sentences")
@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "bert", "llama", "classifier"))
def test_it_runs_on_every_kind(kind: str) -> None:
    model = worded(kind)
    found = measured(model, length=3)
    assert found["typed[on=text,type=previous]"].n == model.config.layers * model.config.heads
    assert ("missed" in found) == (kind == "classifier")
    assert ("fresh.share[type=induction]" in found) == model.config.causal
    assert ("typed[on=text,type=next]" in found) != model.config.causal


class TestWeights:
    @pytest.mark.parametrize("kind", ("gpt2", "roberta"))
    def test_they_are_means_over_transformers_patterns(self, kind: str) -> None:
        model = worded(kind)
        reading = types.repeated(model, np.random.default_rng(1), 5, 4)
        found = types.scores(model.transformer, [reading], 50, np.random.default_rng(2))
        with torch.no_grad():
            theirs = oracle(kind, vocab_size=model.config.vocab_size)(reading.ids, output_attentions=True).attentions
        first = 0 if model.config.causal else 1
        rows = range(first + 4 + 1, first + 8)
        offsets = {"previous": -1, "duplicate": -4} | ({"induction": -3} if model.config.causal else {"next": 1})
        for kind_of, offset in offsets.items():
            for layer, pattern in enumerate(theirs):
                for head in range(model.config.heads):
                    expected = np.mean([pattern[n, head, i, i + offset].item() for n in range(5) for i in rows])
                    assert found.mean[kind_of][layer, head] == pytest.approx(expected, abs=1e-5)

    def test_in_text_they_are_places_of_the_same_token(self) -> None:
        model = worded("gpt2")
        text = "the cat was in the box the cat was"
        ids = [piece.id for piece in model.pieces(text)]
        places = types.written(model, text).places
        assert list(zip(*map(list, places["duplicate"]), strict=True)) == [(6, 4), (7, 1), (8, 2)]
        assert list(zip(*map(list, places["induction"]), strict=True)) == [(6, 5), (7, 2), (8, 3)]
        assert all(ids[i] == ids[j] for i, j in zip(*places["duplicate"], strict=True))

    def test_drawn_places_are_those_that_can_be_read(self) -> None:
        """With all weight on positions that no query may read, nothing is drawn there."""
        model = worded("gpt2")
        reading = types.repeated(model, np.random.default_rng(1), 2, 4)
        width = reading.ids.shape[1]
        upper = [np.triu(np.ones((2, width, width)), k=1)] * 2

        def patterns(transformer: Transformer, ids: torch.Tensor) -> Any:
            yield from upper

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(types, "patterns", patterns)
            found = types.scores(model.transformer, [reading], 300, np.random.default_rng(2))
        assert all((drawn == 0).all() for drawn in found.drawn.values())


class TestCertain:
    """Corrected over heads: of many heads that look anywhere, one in a hundred is typed, and seldom any for certain."""

    def test_it_is_the_largest_statistic_of_westfall_and_young(self) -> None:
        rng = np.random.default_rng(7)
        drawn = rng.gamma(2.0, size=(2, 5, 400)) * np.arange(1, 11).reshape(2, 5, 1)
        found = types.Scores({"any": drawn[..., 0]}, {"any": drawn})
        scaled = np.array([(row - row.mean()) / row.std() for row in drawn.reshape(10, 400)])
        highest = np.sort(scaled.max(axis=0))
        expected = scaled[:, 0].reshape(2, 5) > np.quantile(highest, 0.95)
        assert np.array_equal(found.certain("any", 0.95), expected)

    def test_by_chance_it_is_seldom_any(self) -> None:
        rng, falsely, typed = np.random.default_rng(8), 0, 0
        for _ in range(200):
            drawn = rng.normal(size=(3, 30, 200))
            found = types.Scores({"any": rng.normal(size=(3, 30))}, {"any": drawn})
            falsely += bool(found.certain("any", 0.95).any())
            typed += int(found.typed("any", 99).sum())
        assert falsely <= 25  # 10 of 200 expected
        assert 0.005 < typed / (200 * 90) < 0.02


def built(vocabulary: int, context: int, *, speaks: bool = False) -> Transformer:
    """Two layers of one head that do induction: the first writes the token before, the second finds it, and may say what stands there.

    The stream holds one-hot tokens, positions and tokens before. Their sums and lengths are the same at every position, so
    a norm is the same map everywhere: (x − μ) / σ, which what is written undoes.
    """
    width = 2 * vocabulary + context
    config = Config(
        vocab_size=vocabulary, context=context, width=width, layers=2, heads=1, mlp_width=4,
        causal=True, norm_first=True, final_norm=True, embed_norm=False, activation="gelu_tanh",
    )  # fmt: skip
    model = Transformer(config).double()
    weights = {name: torch.zeros(p.shape, dtype=torch.float64) for name, p in model.named_parameters()}
    token, position, before = slice(0, vocabulary), slice(vocabulary, vocabulary + context), slice(vocabulary + context, width)
    weights["embed.token.weight"][:, token] = torch.eye(vocabulary)
    weights["embed.position.weight"][:, position] = torch.eye(context)
    for name in weights:
        if "ln" in name and name.endswith("weight"):
            weights[name] += 1
    eye, sharp = torch.eye(width, dtype=torch.float64), 1e4
    first, second = "blocks.0.attn", "blocks.1.attn"
    weights[f"{first}.q.weight"][position.start : position.stop - 1, position.start + 1 : position.stop] = sharp * torch.eye(context - 1)
    weights[f"{first}.k.weight"][position, position] = torch.eye(context, dtype=torch.float64)
    weights[f"{first}.v.weight"][before, token] = torch.eye(vocabulary, dtype=torch.float64)
    mu = 2 / width
    sigma = (2 / width - mu**2 + config.norm_eps) ** 0.5
    weights[f"{first}.out.weight"] += sigma * eye
    weights[f"{first}.out.bias"][before] = mu
    weights[f"{second}.q.weight"][token, token] = sharp * torch.eye(vocabulary, dtype=torch.float64)
    weights[f"{second}.k.weight"][token, before] = torch.eye(vocabulary, dtype=torch.float64)
    if speaks:
        weights[f"{second}.v.weight"][token, token] = torch.eye(vocabulary, dtype=torch.float64)
        weights[f"{second}.out.weight"] += 100 * eye
    weights.pop("head.unembed.weight", None)
    return hold(model, weights)


class TestInduction:
    @pytest.mark.parametrize("start", (None, 0))
    def test_a_model_built_for_it_scores_one(self, start: int | None) -> None:
        model = worded("gpt2")
        reading = types.repeated(model, np.random.default_rng(1), 20, 8, start=start)
        found = types.scores(built(model.config.vocab_size, 24), [reading], 200, np.random.default_rng(2))
        assert found.mean["previous"][0, 0] == pytest.approx(1, abs=1e-9)
        assert found.mean["induction"][1, 0] == pytest.approx(1, abs=1e-9)
        assert found.typed("induction", 99).tolist() == [[False], [True]]
        assert found.typed("previous", 99).tolist() == [[True], [False]]
        assert found.certain("induction", 0.95).tolist() == [[False], [True]]

    def test_a_random_model_is_at_chance(self) -> None:
        model = worded("gpt2")
        fresh = Transformer(model.config.with_(layers=4))
        initialise(fresh, 5)
        reading = types.repeated(model, np.random.default_rng(1), 100, 8)
        found = types.scores(fresh, [reading], 500, np.random.default_rng(2))
        chance = np.mean([1 / (i + 1) for i in range(9, 16)])  # of as many places as each query may read
        assert found.mean["induction"] == pytest.approx(np.full((4, model.config.heads), chance), abs=0.02)
        assert found.drawn["induction"].mean() == pytest.approx(chance, abs=0.005)


class TestAblation:
    @pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "llama"))
    def test_it_is_what_an_edit_does(self, kind: str) -> None:
        model = worded(kind, torch.float64)
        asked = [one for text in SENTENCES[:2] if (one := asked_of(model, text, Run(model)))]
        found = ablation.Ablation(model, asked).of_each(0)
        ids, labels = asked[0]
        plain, other = (ablation.clean(model, *one) for one in asked)
        for layer in range(model.config.layers):
            every = torch.cat([run.z[layer].transpose(1, 2).flatten(0, 1) for run in (plain, other)]).mean(dim=0)  # (H, K)
            turned = other.z[layer][0][:, [n % other.z[layer].shape[2] for n in range(ids.shape[1])]]
            for head in range(model.config.heads):
                edits = (cutaway.zero(head=head), *(cutaway.replace(z[head], head=head) for z in (every, turned)))
                for way, edit in enumerate(edits):
                    with model.edit({f"blocks.{layer}.attn.z": edit}):
                        nats = F.cross_entropy(model.logits(ids).flatten(0, 1), labels.flatten(), reduction="none").view_as(labels)
                    rows = [(row[at].mean()).item() for row, at in zip(nats, labels >= 0, strict=True)]
                    assert found[way, layer, head] == pytest.approx(np.mean(rows) - plain.losses.mean().item(), abs=1e-9)

    def test_only_chosen_heads_are_measured(self) -> None:
        model = worded("gpt2")
        whole = ablation.Ablation(model, [one for text in SENTENCES[:2] if (one := asked_of(model, text, Run(model)))])
        chosen = np.zeros((model.config.layers, model.config.heads), dtype=bool)
        chosen[1, 1] = True
        found = whole.of_each(1, ("mean",), chosen)
        assert found[0, 1, 1] == pytest.approx(whole.of_each(1)[1, 1, 1], abs=1e-6)
        assert np.isnan(found).sum() == chosen.size - 1

    def test_repeats_are_asked_for_their_second_copy(self) -> None:
        ids = torch.arange(12).view(2, 6)
        assert ablation.second_copy(ids, 0, 3).tolist() == [[-100, -100, -100, 4, 5, -100], [-100, -100, -100, 10, 11, -100]]

    def test_the_mean_in_all_heads_leaves_no_way_to_another_position(self) -> None:
        model = worded("gpt2")
        means = [torch.randn(model.config.heads, model.config.head_width) for _ in range(model.config.layers)]
        one, other = torch.tensor([[5, 9, 11]]), torch.tensor([[7, 30, 11]])
        labels = torch.tensor([[-100, -100, 3]])
        assert torch.equal(*(ablation.without_any(model, ids, labels, means) for ids in (one, other)))


class TestClaimsFail:
    """Each where its cause is taken away."""

    @pytest.mark.parametrize("noise", (0.0, 0.5))
    def test_with_patterns_that_know_no_place(self, noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
        """Noise is taken for a type once in twenty times, and here not once in the three."""
        rng, (model, key) = np.random.default_rng(1), (nano("nano-gpt2"), "typed.certain[on=text,type=previous]")

        def shuffled(transformer: Transformer, ids: torch.Tensor) -> Any:
            for _ in range(model.config.layers):
                weight = np.tril(1 + noise * rng.random((model.config.heads, ids.shape[1], ids.shape[1])))
                yield weight / weight.sum(axis=-1, keepdims=True)

        monkeypatch.setattr(types, "patterns", shuffled)
        claim = next(claim for claim in lab.heads.claims_about(model) if claim.measurement == key)
        run, texts = Run(model, seed=3), [types.written(model, text) for text in SENTENCES]
        found = [{m.key: m for m in lab.of_types(run, "text", lab.typed(Run(model, seed=n), "text", texts, 500), 1)} for n in range(3)]
        assert [claim.check(one.get(key)) for one in found] == ["fails"] * 3

    def test_with_a_threshold_below_chance(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lab, "PERCENTILE", 5.0)
        assert verdicts(nano("nano-gpt2"))["fresh.share[type=induction]"] == "fails"

    def test_with_heads_that_nobody_reads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ablation, "without_any", lambda model, ids, labels, means: ablation.clean(model, ids, labels).losses)
        assert verdicts(nano("nano-gpt1"))["rise.all[on=text,how=mean]"] == "fails"

    def test_with_something_else_in_the_place_of_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = lab.without
        monkeypatch.setattr(lab, "without", lambda *given: real(*given[:-1], given[-1] * 1.01))
        assert verdicts(nano("nano-roberta"))["control.itself"] == "fails"


class TestCopying:
    """Induction heads: of the type, and missed."""

    def heads(self, model: Model, of_type: list[list[bool]]) -> dict[str, Measurement]:
        return {m.key: m for m in lab.copying(Run(model, seed=3), np.array(of_type), 6, 8, 2)}

    def test_a_model_built_for_it_is_missed_without_it(self) -> None:
        """What the second layer finds it says, so that the next token is known; its mean says nothing."""
        words = worded("gpt2", torch.float64)
        model = replace(words, transformer=built(words.config.vocab_size, 24, speaks=True))
        found = self.heads(model, [[False], [True]])
        assert found["induction"].value == 1
        assert found["rise[on=repeats,how=mean,layer=1,head=0]"].value > 1
        assert self.heads(model, [[False], [False]]).keys() == {"induction"}

    def test_a_fresh_model_has_none(self) -> None:
        model = worded("gpt2")
        found = self.heads(model, [[True] * model.config.heads] * model.config.layers)
        assert found["induction"].value == 0


def test_a_stopped_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    done: dict[str, Any] = {}
    run = Run(nano("nano-gpt2"), seed=3, done=done)
    whole = list(lab.heads.measure(run, **FEW))
    done.pop("ablation text/2")
    monkeypatch.setattr(types, "scores", None)  # would fail if called
    assert list(lab.heads.measure(run, **FEW)) == whole


@pytest.mark.parametrize(("bad", "said"), [({"sequences": 0}, "sequences=0"), ({"texts": 1}, "texts=1"), ({"length": 400}, "shorter")])
def test_parameters_that_make_no_sense(bad: dict[str, int], said: str) -> None:
    with pytest.raises(cutaway.CutawayError, match=said):
        measured(nano("nano-gpt1"), **bad)


def test_its_charts_are_drawn() -> None:
    record = Record("e04_heads", 1, {}, {"model": "tiny"}, 3, 0.95, tuple(measured(nano("nano-gpt2")).values()), {})
    drawn = lab.charts([record])
    assert len(drawn) == 2
    for chart in drawn.values():
        assert "<svg" in charts.svg(chart)


def test_what_follows_is_asked_for() -> None:
    model = worded("gpt2")
    asked = asked_of(model, SENTENCES[0], Run(model))
    assert asked is not None
    assert torch.equal(asked[1], following(asked[0]))
