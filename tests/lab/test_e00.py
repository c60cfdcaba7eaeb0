"""The census: published counts, PyTorch's own counts of parameters and arithmetic, and claims that fail when a count is wrong."""

import pytest
import torch

import cutaway
from cutaway import charts
from cutaway.families import PUBLISHED
from cutaway.lab import e00_census as census
from cutaway.lab import e00_parts as parts
from cutaway.lab.experiment import Run
from cutaway.lab.measurement import Measurement
from cutaway.lab.record import Record
from cutaway.model import Model
from tests.conftest import worded


def counted() -> dict[str, Measurement]:
    return {m.key: m for m in census.census.measure(Run())}


def measured(model: Model) -> dict[str, Measurement]:
    return {m.key: m for m in parts.parts.measure(Run(model))}


def verdicts(model: Model) -> dict[str, str]:
    found = measured(model)
    return {c.measurement: c.check(found.get(c.measurement)) for c in parts.parts.claims_about(model)}


class TestCensus:
    def test_its_claims_hold_and_its_chart_is_drawn(self) -> None:
        found = counted()
        assert [claim.check(found.get(claim.measurement)) for claim in census.census.claims] == ["holds"] * 5
        record = Record("e00_census", 1, {}, None, 1, 0.95, tuple(found.values()), {})
        (chart,) = census.charts([record]).values()
        assert "<svg" in charts.svg(chart)

    def test_a_size_is_that_of_transformers_model(self) -> None:
        """Built on no device, so that nothing is allocated."""
        from transformers import GPT2Config, GPT2LMHeadModel, OpenAIGPTConfig, OpenAIGPTLMHeadModel, RobertaConfig, RobertaForMaskedLM

        found = counted()
        with torch.device("meta"):
            theirs = {
                "openai-gpt": OpenAIGPTLMHeadModel(OpenAIGPTConfig()),
                "gpt2": GPT2LMHeadModel(GPT2Config()),
                "gpt2-large": GPT2LMHeadModel(GPT2Config(n_embd=1280, n_layer=36, n_head=20)),
                "roberta-base": RobertaForMaskedLM(RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1)),
            }
        for name, model in theirs.items():
            assert found[f"parameters[model={name}]"].value == sum(p.numel() for p in {id(p): p for p in model.parameters()}.values()), name

    def test_a_wrong_count_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = census.parameters
        monkeypatch.setattr(census, "parameters", lambda config: real(config) | {"norms": real(config)["norms"] + 1})
        found = counted()
        assert [claim.check(found.get(claim.measurement)) for claim in census.census.claims[:3]] == ["fails"] * 3

    def test_without_the_smaller_vocabulary_the_papers_sizes_are_unexplained(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(census, "GPT1_TOKENS", census.GPT2_TOKENS)
        found = counted()
        (claim,) = (claim for claim in census.census.claims if claim.measurement == "stated.unexplained")
        assert claim.check(found[claim.measurement]) == "fails"

    def test_every_published_model_is_in_it(self) -> None:
        found = counted()
        assert all(f"parameters[model={one.name}]" in found for one in PUBLISHED)


class TestParts:
    @pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "bert", "llama", "classifier"))
    def test_claims_hold_on_every_kind(self, kind: str) -> None:
        assert set(verdicts(worded(kind)).values()) == {"holds"}

    def test_and_on_nano_models(self) -> None:
        for name in ("nano-gpt1", "nano-roberta"):
            assert set(verdicts(cutaway.load(name)).values()) == {"holds"}

    def test_a_tensor_too_many_fails(self) -> None:
        model = worded("gpt2")
        other = Model(model.transformer.__class__(model.config.with_(layers=3)), lambda: model.tokenizer, model.origin)
        other.transformer.config = model.config
        assert verdicts(other)["parameters.apart"] == "fails"

    def test_arithmetic_left_out_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = parts.flops
        monkeypatch.setattr(parts, "flops", lambda config, tokens: real(config, tokens + 1))
        assert verdicts(worded("llama"))["flops.apart"] == "fails"

    def test_a_cache_of_other_heads_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = parts.cache_bytes
        monkeypatch.setattr(parts, "cache_bytes", lambda config, dtype: real(config.with_(kv_heads=config.heads), dtype))
        assert verdicts(worded("llama"))["cache.apart"] == "fails"

    def test_a_parameter_that_makes_no_sense(self) -> None:
        with pytest.raises(cutaway.CutawayError, match="tokens=0"):
            list(parts.parts.measure(Run(worded("gpt2")), tokens=0))
