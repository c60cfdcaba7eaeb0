"""What `about` says is computed, and comes out as others count it: transformers' models, torch's own counter, files' shapes."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from torch.utils.flop_counter import FlopCounterMode

import cutaway
from cutaway.about import About, about, stated, verdict
from cutaway.core.config import Config
from cutaway.errors import ConfigError, ModelError, WeightsError
from cutaway.families import FAMILIES, PUBLISHED, find_known
from cutaway.families.size import cache_bytes, flops, parameters
from cutaway.shipped import shipped_names
from tests.conftest import oracle

IDS = torch.arange(5, 21)[None]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty Hub cache; whoever reaches for the network fails."""
    asked: list[Any] = []

    def refuse(*args: Any, **options: Any) -> None:
        asked.append(args)
        raise OSError("no network in tests")

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    yield tmp_path / "hub"
    assert asked == []


def saved(kind: str, folder: Path, **changes: Any) -> Path:
    oracle(kind, **changes).save_pretrained(folder)
    return folder


# Sizes


@pytest.mark.parametrize(
    ("name", "count"),
    (
        ("gpt1", 116_534_784),
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
        ("roberta-base", 124_697_433),
        ("roberta-large", 355_412_057),
    ),
)
def test_published_counts_come_out_of_configurations(name: str, count: int) -> None:
    found = about(name)
    assert found.parameters == count == sum(part.parameters for part in found.parts)
    assert sum(part.share for part in found.parts) == pytest.approx(1)
    assert found.memory == {"float32": 4 * count, "float16": 2 * count, "bfloat16": 2 * count}


@pytest.mark.parametrize(
    ("name", "counts"),
    (
        ("roberta-base", [124_055_040, 124_645_632, 124_697_433]),
        ("roberta-large", [354_310_144, 355_359_744, 355_412_057]),
        ("gpt2", []),
    ),
)
def test_the_three_counts_of_roberta(name: str, counts: list[int]) -> None:
    assert list(about(name).variants.values()) == counts


def gpt(config: Config) -> dict[str, Any]:
    sizes = {"n_embd": config.width, "n_layer": config.layers, "n_head": config.heads, "n_positions": config.context}
    return sizes | {"vocab_size": config.vocab_size}


def theirs(family: str, config: Config) -> torch.nn.Module:
    """transformers' model of the same sizes, which takes no memory."""
    wide = transformers.RobertaConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.width,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=config.mlp_width,
        max_position_embeddings=config.context + 2,
        type_vocab_size=1,
        num_labels=2,
    )
    make: dict[tuple[str, str], Callable[[], torch.nn.Module]] = {
        ("gpt1", "lm"): lambda: transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig(**gpt(config))),
        ("gpt2", "lm"): lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**gpt(config))),
        ("roberta", "mlm"): lambda: transformers.RobertaForMaskedLM(wide),
        ("roberta", "none"): lambda: transformers.RobertaModel(wide, add_pooling_layer=False),
        ("roberta", "pooler"): lambda: transformers.RobertaModel(wide),
        ("roberta", "classify"): lambda: transformers.RobertaForSequenceClassification(wide),
    }
    with torch.device("meta"):
        return make[family, config.head]()


CONFIGS = [(known.name, known.family.name, known.config) for known in PUBLISHED] + [
    (f"{known.name} {head}", known.family.name, known.config.with_(head=head))
    for known in PUBLISHED
    for head in ("none", "pooler")
    if known.config.head == "mlm"
]


@pytest.mark.parametrize(("name", "family", "config"), CONFIGS, ids=[name for name, *_ in CONFIGS])
def test_transformers_counts_the_same(name: str, family: str, config: Config) -> None:
    # Its output matrix and bias are tied by name, which the meta device keeps: parameters() gives each once.
    assert sum(parameters(config).values()) == sum(p.numel() for p in theirs(family, config).parameters())


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "bert", "llama"))
def test_flops_are_those_that_torch_counts(kind: str) -> None:
    """An eager forward pass of transformers' model, in which every token of the text is multiplied with every position."""
    model = oracle(kind)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(IDS)
    asked = flops(cutaway.load(model).config, IDS.shape[1])
    assert counter.get_total_flops() == IDS.shape[1] * asked.total
    assert asked.total == asked.matrices + asked.attention


@pytest.mark.parametrize("kind", ("gpt2", "llama"))
def test_the_cache_is_as_large_as_transformers_makes_it(kind: str) -> None:
    model = oracle(kind)
    with torch.no_grad():
        kept = model(IDS, use_cache=True).past_key_values
    held = sum(tensor.numel() for layer in kept.layers for tensor in (layer.keys, layer.values))
    config = cutaway.load(model).config
    assert cache_bytes(config, "float32") == 4 * held // IDS.shape[1]
    assert cache_bytes(config, "bfloat16") == 2 * held // IDS.shape[1]


def test_a_bidirectional_model_keeps_no_cache() -> None:
    assert about("roberta").cache is None
    assert about("gpt2-xl").cache == {"float32": 614_400, "float16": 307_200, "bfloat16": 307_200}


# What the publishers say


def test_the_papers_numbers_and_the_vocabulary_that_explains_them() -> None:
    for known in PUBLISHED[1:5]:
        assert known.stated is not None
        assert known.stated.parameters == round(sum(parameters(known.config.with_(vocab_size=40_478)).values()) / 1e6) * 10**6
        assert known.stated.parameters != round(sum(parameters(known.config).values()) / 1e6) * 10**6
    assert [known.stated.parameters // 10**6 for known in PUBLISHED[1:5] if known.stated] == [117, 345, 762, 1542]
    assert "15,611,200 more" in stated(about("gpt2-xl"))
    assert "rounded" in stated(about("roberta-large"))
    assert stated(about("gpt1")) == ""


def test_every_fact_has_its_source() -> None:
    facts = [fact for known in PUBLISHED for fact in (known.released, known.trained_on, known.descent, known.stated) if fact]
    facts += [fact for family in FAMILIES.values() for fact in (family.released, family.descent)]
    assert all(re.match(r"https://[\w.-]+/", fact.source) for fact in facts)
    for one in (*PUBLISHED, *FAMILIES.values()):
        assert re.fullmatch(r"20\d\d(-\d\d(-\d\d)?)?", one.released.says), one.name
        assert one.parent == "" or one.parent in FAMILIES or find_known(one.parent), one.name


def test_the_family_tree() -> None:
    assert [one.name for one in about("distilgpt2").lineage] == ["Transformer", "GPT-1", "GPT-2", "gpt2", "distilgpt2"]
    assert [one.name for one in about("roberta").lineage] == ["Transformer", "BERT", "RoBERTa", "roberta-base"]
    assert about("roberta").made_with_it == ("distilroberta-base", "roberta-base-openai-detector")
    dates = [one.released for one in about("roberta-large-openai-detector").lineage]
    assert dates == sorted(dates)


# Files


@pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "bert", "bert-body", "llama", "classifier"))
def test_a_folder_is_counted_and_agrees(kind: str, tmp_path: Path) -> None:
    found = about(str(saved(kind, tmp_path)))
    assert found.here is not None
    assert found.here.check.equal
    assert found.here.check.file == found.parameters == sum(p.numel() for p in oracle(kind).parameters())
    assert found.here.where == "path"
    assert found.here.bytes == (tmp_path / "model.safetensors").stat().st_size


def changed(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> About:
    tensors = load_file(saved("gpt2", folder) / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return about(str(folder))


def test_duplicates_and_masks_are_not_counted(tmp_path: Path) -> None:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors["lm_head.weight"] = tensors["transformer.wte.weight"].clone()
        tensors["transformer.h.0.attn.bias"] = torch.ones(1, 1, 64, 64)
        tensors["transformer.h.0.attn.masked_bias"] = torch.tensor(-1e4)

    here = changed(tmp_path, change).here
    assert here is not None
    assert here.check.equal
    assert set(here.check.unused) == {"transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias"}


def test_a_missing_tensor_and_an_unknown_one_are_named(tmp_path: Path) -> None:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["transformer.h.1.mlp.c_fc.weight"]
        tensors["my_gamma_gate"] = torch.zeros(7)
        tensors["transformer.h.0.attn.bias"] = torch.zeros(48)  # a mask would have four dimensions

    found = changed(tmp_path, change)
    assert found.here is not None
    assert not found.here.check.equal
    mlp = next(part.parameters for part in found.parts if part.name == "MLP")
    assert found.here.check.parts == {"MLP": (mlp, mlp - 4 * 48 * 48)}
    assert set(found.here.check.unknown) == {"my_gamma_gate", "transformer.h.0.attn.bias"}
    assert f"differ by {4 * 48 * 48 - 7 - 48:,}" in verdict(found)
    assert found.to_dict()["here"]["check"]["equal"] is False


def test_parts_that_differ_and_add_up_are_seen(tmp_path: Path) -> None:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors["transformer.wpe.weight"] = torch.zeros(63, 48)
        tensors["transformer.wte.weight"] = torch.zeros(98, 48)

    here = changed(tmp_path, change).here
    assert here is not None
    assert here.check.file == here.check.configuration
    assert here.check.parts.keys() == {"token embedding", "position embedding"}


def test_a_pickle_is_counted_too(tmp_path: Path) -> None:
    model = oracle("gpt2")
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    model.config.save_pretrained(tmp_path)
    (config := tmp_path / "config.json").write_text(
        json.dumps(json.loads(config.read_text(encoding="utf-8")) | {"architectures": ["GPT2LMHeadModel"]}), encoding="utf-8"
    )
    here = about(str(tmp_path)).here
    assert here is not None
    assert (here.format, here.check.equal) == ("torch", True)


def test_a_model_in_the_cache(cache: Path) -> None:
    repo = cache / "models--openai-community--gpt2"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs/main").write_text("0" * 40)
    saved("gpt2", repo / "snapshots" / ("0" * 40))
    found = about("gpt2")
    assert found.here is not None
    assert (found.here.where, found.here.check.equal) == ("Hub cache", True)
    assert found.config.width == 48
    assert any("differs from the published one in vocab_size, context, width" in note for note in found.notes)
    assert about("openai-community/gpt2").name == "gpt2"


def test_what_is_not_here() -> None:
    found = about("gpt2-xl")
    assert found.here is None
    assert found.revision is None
    with pytest.raises(ModelError, match="did you mean gpt2-xl?"):
        about("gpt2xl")
    with pytest.raises(ModelError, match="somebody/else is not in the Hugging Face cache.*uses no network"):
        about("somebody/else")
    with pytest.raises(ModelError, match="./nowhere"):
        about("./nowhere")
    with pytest.raises(ModelError, match="asked for is 1025.*from 1 to 1024"):
        about("gpt2", context=1025)
    assert about("gpt2", context=1).flops.attention == 4 * 12 * 768


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    saved("gpt2", tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(WeightsError, match="model.safetensors"):
        about(str(tmp_path))
    saved("gpt2", tmp_path)
    (tmp_path / "config.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError, match="holds a list"):
        about(str(tmp_path))
    (tmp_path / "config.json").unlink()
    with pytest.raises(ModelError, match="no config.json"):
        about(str(tmp_path))


# How it is shown


@pytest.mark.skipif("nano-gpt2" not in shipped_names(), reason="make it with `cutaway train nano-gpt2`")
def test_a_nano_model_is_always_called_one() -> None:
    found = about("nano-gpt2")
    assert found.nano
    assert found.here is not None
    assert (found.here.where, found.here.check.equal) == ("shipped", True)
    assert found.trained_on is not None
    assert "seed 1: cutaway train nano-gpt2" in found.trained_on.says
    assert "nano: a small model of this project" in found._repr_html_()


def test_pages_and_json() -> None:
    found = about("gpt2-xl")
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["flops"]["total"] == 2 * 1_554_971_200 + 4 * 48 * 1600 * 1024
    page = found.page()
    assert page.count("<svg") == 1
    assert "1,557,611,200" in page
    assert not re.search(r"(src|@import|url\()\s*=?\s*[\"']?https?:", page)


@pytest.mark.parametrize("name", ("gpt2-xl", *shipped_names()[:1]))
def test_no_torch_is_needed(name: str) -> None:
    code = f"from cutaway.about import about; about({name!r}).to_dict(); import sys; print({{'torch', 'altair'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "set()"
