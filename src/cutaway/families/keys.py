"""A published config.json, or the settings in another file, read strictly: each key is read, or known to change nothing, or refused.

No defaults of our own. A key that shapes the computation and is not there is an error, since the head count, say, is in no
tensor's shape: a wrong one loads, and gives wrong text.
"""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from cutaway.errors import ConfigError

T = TypeVar("T")

# Keys that change no logit. Most stand in published files; the rest are what transformers adds when it saves one again.
_TRAINING = (
    "attention_dropout attention_probs_dropout_prob attn_pdrop classifier_dropout embd_pdrop finetuning_task gradient_checkpointing "
    "hidden_dropout_prob initializer_range problem_type resid_pdrop"
)
_UNUSED_HEADS = (
    "_num_labels id2label label2id n_special num_labels predict_special_tokens summary_activation summary_first_dropout "
    "summary_proj_to_labels summary_type summary_use_proj"
)
_BOOKKEEPING = (
    "_attn_implementation _attn_implementation_autoset _name_or_path architectures chunk_size_feed_forward dtype model_type "
    "output_attentions output_hidden_states output_past return_dict torch_dtype torchscript transformers_version "
    "use_bfloat16 use_cache xla_device"
)
_TEXT = "bos_token_id eos_token_id pad_token_id prefix sep_token_id tokenizer_class"
_GENERATION = (
    "bad_words_ids begin_suppress_tokens decoder_start_token_id diversity_penalty do_sample early_stopping "
    "encoder_no_repeat_ngram_size exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id length_penalty "
    "max_length min_length no_repeat_ngram_size num_beam_groups num_beams num_return_sequences output_scores "
    "remove_invalid_values repetition_penalty return_dict_in_generate suppress_tokens task_specific_params temperature "
    "tf_legacy_loss top_k top_p typical_p"
)
HARMLESS = frozenset(" ".join((_TRAINING, _UNUSED_HEADS, _BOOKKEEPING, _TEXT, _GENERATION)).split())

# Keys that would change the computation, and the one value of each that is computed here.
PLAIN: Mapping[str, object] = {
    "add_cross_attention": False,
    "cross_attention_hidden_size": None,
    "is_decoder": False,
    "is_encoder_decoder": False,
    "position_embedding_type": "absolute",
    "pruned_heads": {},
    "tie_encoder_decoder": False,
}


class Keys:
    """One config.json, or what other files say in its place; `done` refuses what nobody asked for."""

    def __init__(self, given: Mapping[str, Any], where: str = "config.json") -> None:
        self._given = given
        self._where = where
        self._read: set[str] = set()

    def whole(self, key: str, *, same: tuple[str, ...] = (), default: int | None = None, least: int = 1) -> int:
        """A whole number. Keys in `same` are other words for it: they may be missing, but not differ. null is the default."""
        value = self._take(key) if default is None else self._take(key, default)
        value = default if value is None else value
        if type(value) is not int or value < least:
            raise ConfigError(f"{key} is {value!r} in {self._where}", expected=f"a whole number, at least {least}")
        for other in same:
            if (said := self._take(other, value)) != value:
                raise ConfigError(f"{self._where} contradicts itself: {key} is {value}, and {other} is {said}", expected="equal values")
        return value

    def small(self, key: str) -> float:
        """A number above 0 and below 1."""
        value = self._take(key)
        if not isinstance(value, int | float) or not 0 < value < 1:
            raise ConfigError(f"{key} is {value!r} in {self._where}", expected="a number between 0 and 1")
        return float(value)

    def number(self, key: str, *, default: float) -> float:
        """A number above 1."""
        value = self._take(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 1 < value < 1e12:
            raise ConfigError(f"{key} is {value!r} in {self._where}", expected="a number above 1")
        return float(value)

    def yes(self, key: str, *, default: bool) -> bool:
        value = self._take(key, default)
        if not isinstance(value, bool):
            raise ConfigError(f"{key} is {value!r} in {self._where}", expected="true or false")
        return value

    def choice(self, key: str, meanings: Mapping[str, T]) -> T:
        """What the value of a key means, from the values that are known."""
        value = self._take(key)
        if not isinstance(value, str) or value not in meanings:
            raise ConfigError(f"{key} is {value!r} in {self._where}", expected="one of " + ", ".join(meanings))
        return meanings[value]

    def head(self, heads: Mapping[str, T]) -> T:
        """What stands on the body, from the one architecture that config.json names."""
        named = self._take("architectures")
        if not isinstance(named, list) or len(named) != 1 or named[0] not in heads:
            raise ConfigError(f"architectures is {named!r} in {self._where}", expected="one of " + ", ".join(heads))
        return heads[named[0]]

    def labels(self) -> tuple[str, ...]:
        """The classes in the file's own words, by index. transformers writes none for two unnamed classes."""
        table = self._take("id2label", None)
        if table is None:
            table = {index: f"LABEL_{index}" for index in range(self.whole("num_labels", default=2))}
        if not isinstance(table, Mapping):
            raise ConfigError(f"id2label is {table!r} in {self._where}", expected="a table from numbers to names")
        labels = {str(index): label for index, label in table.items()}
        if (said := self._take("num_labels", len(labels))) != len(labels):
            raise ConfigError(
                f"{self._where} contradicts itself: num_labels is {said}, and id2label has {len(labels)}", expected="equal values"
            )
        if labels.keys() != {str(index) for index in range(len(labels))}:
            raise ConfigError(f"id2label has the keys {', '.join(labels)} in {self._where}", expected=f"0 to {len(labels) - 1}")
        return tuple(str(labels[str(index)]) for index in range(len(labels)))

    def done(self, plain: Mapping[str, object] | None = None, ignored: Collection[str] = ()) -> None:
        """Refuse keys that would change the computation (unless they hold the value computed here) and keys nobody knows."""
        for key, value in {**PLAIN, **(plain or {})}.items():
            if (said := self._take(key, value)) != value and said is not None:
                raise ConfigError(f"{key} is {said!r} in {self._where}, which is not computed here", expected=repr(value))
        if unknown := sorted(self._given.keys() - self._read - HARMLESS - set(ignored)):
            raise ConfigError(
                f"{self._where} holds keys that are not known here: {', '.join(unknown)}",
                expected="keys that are computed, or that are known to change nothing",
                then="leave a key out if it does not change the computation",
            )

    def _take(self, key: str, *default: Any) -> Any:
        self._read.add(key)
        if key not in self._given and not default:
            raise ConfigError(f"{key} is missing from {self._where}", expected="every size and switch that shapes the computation")
        return self._given.get(key, *default)


def rows(shapes: Mapping[str, tuple[int, ...]], table: str) -> int:
    """How many rows a table has. Raises ConfigError if the file has no such table."""
    if len(shape := shapes.get(table, ())) != 2:
        raise ConfigError(f"The file's tensors have no table {table}", expected="the token embedding, by that name")
    return shape[0]


def gguf_keys(metadata: Mapping[str, Any], architecture: str) -> Keys:
    """What a GGUF says of its architecture. It keeps numbers as float32: 1e-05 stands there as 9.99999974e-06."""
    start = f"{architecture}."
    told = {key.removeprefix(start): value for key, value in metadata.items() if key.startswith(start)}
    short = {key: float(f"{value:.7g}") if isinstance(value, float) else value for key, value in told.items()}
    return Keys(short, f"the GGUF's {start}*")
