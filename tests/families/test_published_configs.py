"""A config.json is read key by key; what is missing, contradictory or unknown is an error that says so (pitfalls 4, 7, 8, 19)."""

import pytest
import transformers

from cutaway.core.config import Config
from cutaway.errors import ConfigError
from cutaway.families import family_of, find_known
from cutaway.families.roberta import labels_from

# As on the Hub, whole.
GPT1 = {
    "afn": "gelu", "architectures": ["OpenAIGPTLMHeadModel"], "attn_pdrop": 0.1, "embd_pdrop": 0.1, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "model_type": "openai-gpt", "n_ctx": 512, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 512,
    "n_special": 0, "predict_special_tokens": True, "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "vocab_size": 40478,
}  # fmt: skip
GPT2 = {
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1,
    "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768,
    "n_head": 12, "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "vocab_size": 50257,
}  # fmt: skip
ROBERTA = {
    "architectures": ["RobertaForMaskedLM"], "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "eos_token_id": 2,
    "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
    "layer_norm_eps": 1e-05, "max_position_embeddings": 514, "model_type": "roberta", "num_attention_heads": 12,
    "num_hidden_layers": 12, "pad_token_id": 1, "type_vocab_size": 1, "vocab_size": 50265,
}  # fmt: skip
ALL = {"gpt1": GPT1, "gpt2": GPT2, "roberta": ROBERTA}


def config_of(hf_config: dict[str, object]) -> Config:
    return family_of(hf_config).hub.config_from(hf_config, {})


def refused(hf_config: dict[str, object], *parts: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of(hf_config)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("name", ALL)
def test_the_published_file_is_the_published_model(name):
    assert config_of(ALL[name]) == find_known(name).config


SHAPING = {
    "gpt1": "afn architectures layer_norm_epsilon n_embd n_head n_layer n_positions vocab_size",
    "gpt2": "activation_function architectures layer_norm_epsilon n_embd n_head n_layer n_positions vocab_size",
    "roberta": "architectures hidden_act hidden_size intermediate_size layer_norm_eps max_position_embeddings num_attention_heads "
    "num_hidden_layers pad_token_id type_vocab_size vocab_size",
}


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in SHAPING.items() for key in keys.split()])
def test_a_missing_key_is_named(name, key):
    refused({k: v for k, v in ALL[name].items() if k != key}, f"{key} is missing")


@pytest.mark.parametrize(
    ("name", "changes", "parts"),
    [
        ("gpt2", {"n_ctx": 512}, ["n_positions is 1024", "n_ctx is 512"]),
        ("gpt1", {"n_positions": 513}, ["n_positions is 513", "n_ctx is 512"]),
        ("gpt2", {"hidden_size": 1024}, ["n_embd is 768", "hidden_size is 1024"]),
        ("gpt2", {"n_embd": 50, "n_head": 4}, ["50", "4"]),
        ("roberta", {"hidden_size": 50, "num_attention_heads": 4}, ["50", "4"]),
        ("gpt2", {"n_head": "12"}, ["n_head is '12'"]),
        ("gpt2", {"n_head": True}, ["n_head is True"]),
        ("gpt2", {"n_layer": 0}, ["n_layer is 0"]),
        ("gpt2", {"n_head": None}, ["n_head is None"]),
        ("gpt2", {"layer_norm_epsilon": 0}, ["layer_norm_epsilon is 0"]),
        ("gpt2", {"tie_word_embeddings": "yes"}, ["tie_word_embeddings is 'yes'"]),
        ("roberta", {"max_position_embeddings": 2}, ["max_position_embeddings is 2", "pad_token_id 1"]),
        ("gpt2", {"activation_function": "relu"}, ["activation_function is 'relu'", "gelu_new"]),
        ("gpt1", {"afn": "gelu_new"}, ["afn is 'gelu_new'"]),
        ("roberta", {"hidden_act": "silu"}, ["hidden_act is 'silu'"]),
        ("gpt2", {"architectures": ["GPT2DoubleHeadsModel"]}, ["GPT2DoubleHeadsModel", "GPT2LMHeadModel"]),
        ("gpt2", {"architectures": None}, ["architectures is None"]),
        ("gpt2", {"architectures": ["GPT2LMHeadModel", "GPT2Model"]}, ["architectures"]),
        ("gpt2", {"architectures": ["RobertaForMaskedLM"]}, ["RobertaForMaskedLM"]),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, ["scale_attn_by_inverse_layer_idx is True", "False"]),
        ("gpt2", {"scale_attn_weights": False}, ["scale_attn_weights is False"]),
        ("gpt2", {"reorder_and_upcast_attn": True}, ["reorder_and_upcast_attn is True"]),
        ("gpt2", {"add_cross_attention": True}, ["add_cross_attention is True"]),
        ("gpt2", {"pruned_heads": {"0": [1]}}, ["pruned_heads"]),
        ("roberta", {"position_embedding_type": "relative_key"}, ["position_embedding_type is 'relative_key'", "absolute"]),
        ("roberta", {"is_decoder": True}, ["is_decoder is True"]),
        ("roberta", {"layer_norm_epsilon": 1e-5}, ["not known", "layer_norm_epsilon"]),
        ("gpt2", {"layer_norm_eps": 1e-5}, ["not known", "layer_norm_eps"]),
        ("gpt2", {"quantization_config": {}, "rope_theta": 1}, ["not known here: quantization_config, rope_theta"]),
    ],
)
def test_a_config_that_cannot_be_right_is_refused(name, changes, parts):
    refused(ALL[name] | changes, *parts)


def test_epsilon_is_the_files():
    assert config_of(GPT1 | {"layer_norm_epsilon": 1e-3}).norm_eps == 1e-3
    assert config_of(GPT2 | {"layer_norm_epsilon": 1e-3}).norm_eps == 1e-3
    assert config_of(ROBERTA | {"layer_norm_eps": 1e-12}).norm_eps == 1e-12


def test_two_gelus():
    assert config_of(GPT1).activation == "gelu_tanh"  # though the file says "gelu"
    assert config_of(GPT2).activation == "gelu_tanh"
    assert config_of(GPT2 | {"activation_function": "gelu"}).activation == "gelu_erf"
    assert config_of(ROBERTA).activation == "gelu_erf"


def test_514_rows_are_512_tokens():
    config = config_of(ROBERTA)
    assert (config.context, config.position_offset, config.position_rows) == (512, 2, 514)
    assert config_of(ROBERTA | {"pad_token_id": 0}).context == 513


def test_inner_width():
    assert config_of(GPT2 | {"n_inner": None}).mlp_width == 3072
    assert config_of(GPT2 | {"n_inner": 1000}).mlp_width == 1000


def test_values_that_change_nothing_may_stand_there():
    plain = {
        "scale_attn_weights": True,
        "reorder_and_upcast_attn": False,
        "add_cross_attention": False,
        "pruned_heads": None,
        "is_decoder": False,
    }
    assert config_of(GPT2 | plain) == config_of(GPT2)


@pytest.mark.parametrize("name", ALL)
def test_what_transformers_holds_in_memory_is_understood(name):
    model_type = ALL[name]["model_type"]
    config = transformers.AutoConfig.for_model(**ALL[name])
    assert config.model_type == model_type
    assert config_of(config.to_dict()) == config_of(ALL[name])


class TestClasses:
    DETECTOR = ROBERTA | {"architectures": ["RobertaForSequenceClassification"]}

    def test_their_names_are_the_files(self):
        hf_config = self.DETECTOR | {"id2label": {"1": "Real", "0": "Fake"}, "label2id": {"Fake": 0, "Real": 1}}
        assert config_of(hf_config) == find_known("roberta-base-openai-detector").config
        assert labels_from(hf_config) == ("Fake", "Real")

    def test_two_unnamed_ones_are_not_written_by_transformers(self):
        assert config_of(self.DETECTOR).classes == 2
        assert labels_from(self.DETECTOR) == ("LABEL_0", "LABEL_1")

    def test_their_number(self):
        assert config_of(self.DETECTOR | {"num_labels": 5}).classes == 5
        assert config_of(self.DETECTOR | {"id2label": {0: "a", 1: "b", 2: "c"}}).classes == 3
        refused(self.DETECTOR | {"num_labels": 3, "id2label": {"0": "a", "1": "b"}}, "num_labels is 3", "2")

    @pytest.mark.parametrize("table", [{"0": "a", "2": "b"}, {}, ["a", "b"]])
    def test_a_table_that_is_none(self, table):
        refused(self.DETECTOR | {"id2label": table})

    def test_other_heads_have_none(self):
        assert config_of(ROBERTA | {"id2label": {"0": "a"}}).classes == 0


class TestRecognition:
    def test_by_architecture_where_an_old_file_has_no_type(self):
        for name, hf_config in ALL.items():
            assert family_of({key: value for key, value in hf_config.items() if key != "model_type"}).name == name

    @pytest.mark.parametrize(
        "hf_config", [{}, {"model_type": "xlm-roberta"}, {"model_type": "mistral", "architectures": ["GPT2LMHeadModel"]}]
    )
    def test_others_are_refused_by_name(self, hf_config):
        with pytest.raises(ConfigError, match="one of openai-gpt, gpt2, roberta"):
            family_of(hf_config)
