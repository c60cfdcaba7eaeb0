"""Shared by all tests: tiny random models made by transformers, the oracle, and where the test data are."""

import atexit
import os
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
import transformers

import cutaway
from cutaway.model import Model
from cutaway.text.tokenizer import load_tokenizer
from cutaway.text.train import train_bpe
from tests import relatives

SIZES = {"vocab_size": 97, "attn_implementation": "eager"}


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["CUTAWAY_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)  # the models are tiny: a second thread would only wait


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of test data; tests that need it are skipped where it is absent."""
    folder = os.environ.get("CUTAWAY_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set CUTAWAY_DATA to the folder of test data to run this")
    return Path(folder)


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M's GGUF file; tests that need it are skipped where it is absent."""
    return relative("smollm2", "*.gguf")


@pytest.fixture(scope="session")
def minilm() -> Path:
    """MiniLM's folder."""
    return relative("minilm", "config.json").parent


def relative(name: str, pattern: str) -> Path:
    found = sorted((relatives.folder() / name).glob(pattern))
    if not found:
        pytest.skip("make weights fetches what this needs")
    return found[0]


def oracle(kind: str, **changes: Any) -> Any:
    """A tiny random transformers model in eval mode with eager attention, seed 0."""
    torch.manual_seed(0)
    gpt = {"n_embd": 48, "n_head": 4, "n_layer": 2, "n_positions": 64}
    wide = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    roberta = {"max_position_embeddings": 66, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1, **wide}
    llama = {"max_position_embeddings": 64, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, **wide}
    make = {
        "gpt1": lambda: transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig(**SIZES | gpt | changes)),
        "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZES | gpt | changes)),
        "roberta": lambda: transformers.RobertaForMaskedLM(transformers.RobertaConfig(**SIZES | roberta | changes)),
        "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**SIZES | wide | {"max_position_embeddings": 64} | changes)),
        "bert-body": lambda: transformers.BertModel(transformers.BertConfig(**SIZES | wide | {"max_position_embeddings": 64} | changes)),
        "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES | llama | changes)),
        "classifier": lambda: transformers.RobertaForSequenceClassification(transformers.RobertaConfig(**SIZES | roberta | changes)),
    }
    model = make[kind]().eval()
    for parameter in model.parameters():  # fresh biases are zero and norms one: random ones leave no term untested
        torch.nn.init.normal_(parameter, std=0.15)
    for name, parameter in model.named_parameters():
        if name.endswith("weight") and any(part in name for part in ("ln_", "LayerNorm", "norm.")):
            parameter.data.add_(1.0)
    return model




SENTENCES = ["the big cat was in the box", "the small dog was too big for the box", "it was too small because it was big"]


@cache
def tokenizer_folder(kind: str) -> Path:
    """A small vocabulary in which every word of SENTENCES is one piece."""
    folder = Path(mkdtemp(prefix="cutaway-tests-")) / kind
    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    train_bpe(SENTENCES * 3 + [f" {line}" for line in SENTENCES], kind, None, folder)
    return folder


def worded(kind: str, dtype: torch.dtype = torch.float32, **changes: Any) -> Model:
    """A tiny random model that reads SENTENCES' words as one piece each."""
    tokenizer = load_tokenizer(tokenizer_folder({"classifier": "roberta", "bert": "roberta", "llama": "gpt2"}.get(kind, kind)))
    return cutaway.load(oracle(kind, vocab_size=tokenizer.vocab_size, **changes).to(dtype), tokenizer=tokenizer)
