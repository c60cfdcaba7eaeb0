"""Real, trained weights of the relatives under the same lens: SmolLM2-135M from a GGUF, MiniLM from safetensors."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import cutaway
from cutaway.errors import ModelError
from cutaway.families.size import parameters
from cutaway.model import Model
from cutaway.trophy import trophy
from tests.gguf_of import write_gguf
from tests.llama_cpp import PROMPTS, differences, llama_cpp, vocabulary_of

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def smol(smollm2: Path) -> Model:
    return cutaway.load(str(smollm2))


@pytest.fixture(scope="module")
def theirs(smollm2: Path) -> Any:
    """transformers' own reading of the same file: its own dequantizing, its own order of rows."""
    return transformers.AutoModelForCausalLM.from_pretrained(
        smollm2.parent, gguf_file=smollm2.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()


@pytest.fixture(scope="module")
def mini(minilm: Path) -> Model:
    return cutaway.load(str(minilm))


def test_smollm2_is_transformers_on_the_same_dequantized_weights(smol: Model, theirs: Any) -> None:
    for prompt in PROMPTS:
        ids, _, _ = smol.batch([prompt])
        with torch.no_grad():
            expected = theirs(ids).logits
        for got in (smol.logits(ids), smol.trace(prompt).logits[None]):
            assert (got - expected).abs().max() <= 1e-3
        assert torch.equal(smol.logits(ids)[0].argmax(-1), expected[0].argmax(-1))


def test_smollm2_says_that_it_was_quantized(smol: Model) -> None:
    assert smol.next_token("The").notes == ("Quantized tensors were unpacked to float32: 210 of Q4_1, 1 of Q8_0.",)


def test_smollm2_knows_the_capital_of_france(smol: Model) -> None:
    assert sum(parameters(smol.config).values()) == 134_515_008 == sum(p.numel() for p in smol.transformer.parameters())
    assert smol.next_token("The capital of France is").candidates[0].text == " Paris"


def test_32_greedy_tokens_are_llama_cpps_on_the_same_float32_weights(smol: Model, theirs: Any, smollm2: Path, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason='pip install "cutaway[llamacpp]"')
    path = write_gguf(theirs, "llama", tmp_path / "f32.gguf", vocabulary_of(smollm2))
    answers = llama_cpp(path)
    assert [len(answer) for answer in answers] == [32, 32, 32]
    for found in differences(cutaway.load(str(path)), answers):
        assert found.largest <= 1e-3
        assert found.equal == 32 or found.margins[found.equal] <= 2 * found.largest, "another token in spite of a clear margin"


def test_minilms_token_embeddings_are_transformers(mini: Model, minilm: Path) -> None:
    theirs = transformers.AutoModel.from_pretrained(minilm, attn_implementation="eager").eval()
    for text in ("The trophy didn't fit in the suitcase because it was too big.", "Zoë said: “naïve”!", "a " * 200):
        ids, _, _ = mini.batch([text])
        with torch.no_grad():
            expected = theirs(ids)
        assert (mini.logits(ids) - expected.last_hidden_state).abs().max() <= 1e-5
        assert (mini.trace(text)["pooled"] - expected.pooler_output[0]).abs().max() <= 1e-5


@pytest.mark.parametrize("verb", ("next", "fill"))
def test_minilm_has_no_language_model_head(mini: Model, verb: str) -> None:
    with pytest.raises(ModelError, match=f"has no .* head, which '{verb}' needs"):
        mini.require_head({"next": "lm", "fill": "mlm"}[verb], verb)


def test_the_trophy_through_both(smol: Model, mini: Model) -> None:
    result = trophy(smol, mini)
    assert result.causal.identical
    assert result.causal.max_abs_diff == 0.0
    assert result.causal.controls["a_a"] == 0.0
    assert result.causal.controls["before"] != 0.0
    assert result.bidirectional.max_abs_diff > 1e-3
    assert result.bidirectional.equal_length
