"""A GGUF file carries its model's vocabulary among its settings (`tokenizer.ggml.…`); this makes the tokenizer that they describe.

Not here: reading the file, and a guess. What the settings leave open is refused, for another split gives other ids and no error.
The settings: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#tokenizer; what they mean beyond that is llama.cpp's to say.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutaway.errors import TokenizerError
from cutaway.text.bpe import SYMBOL_TO_BYTE, Pair
from cutaway.text.foreign import ForeignTokenizer
from cutaway.text.gpt2 import SPLIT, ByteBPE, gpt2
from cutaway.text.vocabulary import Format, Vocabulary

if TYPE_CHECKING:
    from cutaway.text.tokenizer import Tokenizer

Json = dict[str, Any]

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = range(1, 5)  # tokenizer.ggml.token_type; there are also unused tokens and bytes
_CAPITAL = re.compile("[A-Z]")
BLANK = "▁"  # SentencePiece's letter for a space
LONGEST = 256  # characters of a SentencePiece token: every way to halve it is looked at


@dataclass(frozen=True)
class Words:
    """How a publisher cuts a text into words before any merge.

    composed: the text is brought into Unicode's form NFC first.
    whole: a word that is a token stays whole, whatever the merges would make of it.
    bos: the begin-of-text token goes in front, unless the file says otherwise.
    """

    pattern: str
    composed: bool = False
    whole: bool = False
    bos: bool = False


# Every digit is a word, and what lies between digits is split as by GPT-2: so the blanks before a digit stay together.
DIGITS = r"\p{N}|'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?![^\s\p{N}])|\s"
# Llama 3's pattern, as its tokenizer.json has it; Qwen 2's differs in taking digits one by one.
_LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN2 = _LLAMA3.replace("{1,3}", "")

# By tokenizer.ggml.pre. "default" and none at all are not here: they mean that the converter did not know.
WORDS = {
    "gpt-2": Words(SPLIT),
    "gpt2": Words(SPLIT),
    "smollm": Words(DIGITS),
    "llama-bpe": Words(_LLAMA3, whole=True, bos=True),
    "llama3": Words(_LLAMA3, whole=True, bos=True),
    "qwen2": Words(_QWEN2, composed=True),
}


def embedded_tokenizer(metadata: Mapping[str, Any], source: str) -> "Tokenizer":
    """The tokenizer that a GGUF file's metadata describe; `source` is the file's name, for messages.

    Byte-level BPE ("gpt2"), SentencePiece BPE ("llama") and WordPiece ("bert"). Raises TokenizerError, naming the setting.
    """
    makers = {"gpt2": _byte_level, "llama": _sentencepiece, "bert": _wordpiece}
    model = metadata.get("tokenizer.ggml.model")
    if not isinstance(model, str) or model not in makers:
        found = "no tokenizer" if model is None else f"a tokenizer of the kind {model!r}"
        raise TokenizerError(f"{source} holds {found}", expected=" or ".join(makers), then="put the publisher's tokenizer files beside it")
    return makers[model](_Settings(metadata, source))


class _Settings:
    """The settings under `tokenizer.ggml`, each checked when it is asked for; the tokens and their kinds at once."""

    def __init__(self, metadata: Mapping[str, Any], source: str) -> None:
        self.source, self._metadata = source, metadata
        self.tokens: list[str] = self.listed("tokens", str)
        self.ids = {token: id_ for id_, token in enumerate(self.tokens)}
        if twice := [token for id_, token in enumerate(self.tokens) if self.ids[token] != id_]:
            raise self.refused(f"tokens has {twice[0]!r} twice", "each token once")
        untold = self.get("token_type", list, None) is None
        self.kinds: list[int] = [NORMAL] * len(self.tokens) if untold else self.listed("token_type", int, len(self.tokens))

    def refused(self, found: str, expected: str) -> TokenizerError:
        then = "get another conversion of the model, or put the publisher's tokenizer files beside it"
        return TokenizerError(f"{self.source}: tokenizer.ggml.{found}", expected=expected, then=then)

    def get(self, key: str, kind: type, default: Any) -> Any:
        value = self._metadata.get(f"tokenizer.ggml.{key}", default)
        if value is not default and type(value) is not kind:
            raise self.refused(f"{key} is {value!r}", f"a value of the type {kind.__name__}")
        return value

    def listed(self, key: str, kind: type, length: int | None = None) -> list[Any]:
        """A list whose values all have that type; of that length, if one is given."""
        values = self.get(key, list, None)
        if values is None or not values:
            raise self.refused(f"{key} is missing or empty", f"a list of {kind.__name__}")
        for value in values:
            if type(value) is not kind:
                raise self.refused(f"{key} holds {value!r}", f"a list of {kind.__name__}")
        if length not in (None, len(values)):
            raise self.refused(f"{key} has {len(values)} values, and there are {length} tokens", "one for each token")
        return list(values)

    def token(self, key: str, default: str = "") -> str:
        """The token whose id the setting holds, or else the one of that name."""
        id_: int | None = self.get(f"{key}_token_id", int, self.ids.get(default))
        if id_ is None or not 0 <= id_ < len(self.tokens):
            raise self.refused(f"{key}_token_id is {'missing' if id_ is None else id_}", f"an id from 0 to {len(self.tokens) - 1}")
        return self.tokens[id_]

    def around(self, bos: bool, first: str = "", last: str = "") -> tuple[list[str], list[str]]:
        """The tokens that stand before and after a text. `bos`: whether one stands before it where the file says nothing."""
        before = [self.token("bos", first)] if self.get("add_bos_token", bool, bos) else []
        after = [self.token("eos", last)] if self.get("add_eos_token", bool, False) else []
        return before, after

    def of_kind(self, *kinds: int) -> list[str]:
        return [token for token, kind in zip(self.tokens, self.kinds, strict=True) if kind in kinds]

    def merges(self) -> list[Pair]:
        """The merges by rank; every part and every result is a token."""
        merges: dict[Pair, int] = {}
        for rank, merge in enumerate(self.listed("merges", str)):
            left, _, right = merge.partition(" ")
            if not {left, right, left + right} <= self.ids.keys() or not left or not right:
                raise self.refused(f"merges has {merge!r} in place {rank}", "two tokens with one blank between them, which make a third")
            if merges.setdefault((left, right), rank) != rank:
                raise self.refused(f"merges has {merge!r} twice", "each merge once")
        return list(merges)


def _byte_level(given: _Settings) -> "Tokenizer":
    pre = given.get("pre", str, None)
    if (words := WORDS.get(pre)) is None:
        found = "pre is missing" if pre is None else f"pre is {pre!r}"
        raise given.refused(f"{found}: it says how a text is cut into words", " or ".join(WORDS))
    merges = given.merges()
    before, after = given.around(words.bos)
    specials = list(dict.fromkeys([*given.of_kind(UNKNOWN, CONTROL), *before, *after]))
    ordinary = {*SYMBOL_TO_BYTE, *(left + right for left, right in merges)}
    if not (words.composed or words.whole or given.of_kind(USER_DEFINED) or ordinary.intersection(specials)):
        try:
            own = _own(Vocabulary(given.ids, merges), words, Format(specials, tuple(before), None, tuple(after)))
        except TokenizerError:
            pass  # a merge whose parts come later in the list: the library does not mind
        else:
            if own.fast:
                return own
    split = {"type": "Split", "pattern": {"Regex": words.pattern}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model = {"type": "BPE", "vocab": given.ids, "merges": merges, "ignore_merges": words.whole}
    return _foreign(
        given,
        specials,
        (before, after),
        normalizer={"type": "NFC"} if words.composed else None,
        pre_tokenizer={"type": "Sequence", "pretokenizers": [split, level]},
        decoder=level,
        model=model,
    )


def _own(vocabulary: Vocabulary, words: Words, format: Format) -> ByteBPE:  # noqa: A002
    """Our own tokenizer, which shows its merges; GPT-2's, if it is that."""
    missing = len(SYMBOL_TO_BYTE.keys() - vocabulary.ids.keys())
    if words.pattern == SPLIT and not (missing or format.before or format.after):
        found = gpt2(vocabulary)
        if found.specials.keys() == set(format.specials):
            return found
    around = " ".join([*format.before, "…", *format.after])
    notes = [
        "nothing is put around a text" if around == "…" else f"a text becomes {around}",
        *(["each digit is a word"] if words.pattern == DIGITS else []),
        *([f"{missing} of the 256 bytes have no token and are left out"] if missing else []),
    ]
    return ByteBPE(vocabulary, format, kind="tokenizers", note=", ".join(notes), pattern=words.pattern, partial=True)


def _sentencepiece(given: _Settings) -> "Tokenizer":
    """SentencePiece joins the neighbours whose token has the best score. As merges: every way to halve a token into two.

    The halvings of one token have one score there, and the leftmost in the text goes first; a list has to put one before another.
    """
    for key, kind in (("remove_extra_whitespaces", bool), ("precompiled_charsmap", list)):
        if given.get(key, kind, None):
            raise given.refused(f"{key} changes the text first, which is not supported", "a tokenizer that reads the text as it is")
    scores = given.listed("scores", float, len(given.tokens))
    if not all(map(math.isfinite, scores)):
        raise given.refused("scores holds a value that is not a number", "a score for each token")
    before, after = given.around(True, "<s>", "</s>")
    unknown = given.token("unknown", "<unk>")
    specials = list(dict.fromkeys([*given.of_kind(UNKNOWN, CONTROL), *before, *after]))
    prefix = given.get("add_space_prefix", bool, True)
    to_blank = {"type": "Replace", "pattern": {"String": " "}, "content": BLANK}
    from_blank = {"type": "Replace", "pattern": {"String": BLANK}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": int(prefix), "stop": 0}
    model = {"type": "BPE", "vocab": given.ids, "merges": _halves(given, scores), "unk_token": unknown, "fuse_unk": True}
    return _foreign(
        given,
        specials,
        (before, after),
        normalizer={"type": "Sequence", "normalizers": [*([{"type": "Prepend", "prepend": BLANK}] if prefix else []), to_blank]},
        pre_tokenizer=None,
        decoder={"type": "Sequence", "decoders": [from_blank, {"type": "ByteFallback"}, {"type": "Fuse"}, strip]},
        model=model | {"byte_fallback": True},
    )


def _halves(given: _Settings, scores: Sequence[float]) -> list[Pair]:
    """The pairs of tokens that make a token, best score of the result first. Only ordinary tokens come about by merging."""
    ordinary = {token: scores[given.ids[token]] for token in given.of_kind(NORMAL)}
    if long := next((token for token in ordinary if len(token) > LONGEST), None):
        raise given.refused(f"tokens has one of {len(long)} characters", f"at most {LONGEST}")
    found = []
    for token, score in ordinary.items():
        halves = ((token[:i], token[i:]) for i in range(1, len(token)))
        found += [(-score, given.ids[token], pair) for pair in halves if pair[0] in ordinary and pair[1] in ordinary]
    return [pair for _, _, pair in sorted(found)]


def _wordpiece(given: _Settings) -> "Tokenizer":
    """BERT's. A GGUF file marks the token that begins a word, where the publisher's vocabulary marks those that do not."""
    if cased := next((token for token in given.of_kind(NORMAL) if not _bracketed(token) and _CAPITAL.search(token)), None):
        raise given.refused(f"tokens has {cased!r}, so capitals matter, and the file does not say how", "an uncased vocabulary")
    ids = {_published(token): id_ for token, id_ in given.ids.items()}
    if len(ids) < len(given.ids):
        raise given.refused("tokens has a token twice once it is written as in vocab.txt", "each token once")
    named = (("bos", "[CLS]"), ("seperator", "[SEP]"), ("unknown", "[UNK]"))  # GGUF spells it so
    first, last, unknown = (given.token(key, name) for key, name in named)
    bracketed = [token for token in ("[PAD]", "[MASK]") if token in given.ids]
    specials = dict.fromkeys([*given.of_kind(UNKNOWN, CONTROL), first, last, unknown, *bracketed])
    return _foreign(
        given,
        sorted(specials, key=given.ids.__getitem__),
        ([first], [last]),
        normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        pre_tokenizer={"type": "BertPreTokenizer"},
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
        model={"type": "WordPiece", "vocab": ids, "unk_token": unknown, "continuing_subword_prefix": "##", "max_input_chars_per_word": 100},
    )


def _bracketed(token: str) -> bool:
    return token.startswith("[") and token.endswith("]")


def _published(token: str) -> str:
    """A token as BERT's vocab.txt has it.

    >>> _published("▁play"), _published("ing"), _published("[CLS]")
    ('play', '##ing', '[CLS]')
    """
    if _bracketed(token):
        return token
    return token[1:] if token.startswith(BLANK) else f"##{token}"


def _foreign(given: _Settings, specials: Sequence[str], around: tuple[list[str], list[str]], **parts: Json | None) -> ForeignTokenizer:
    """The settings as a tokenizer.json, which the tokenizers library follows."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = dict.fromkeys(specials, True) | dict.fromkeys(given.of_kind(USER_DEFINED), False)
    by_id = sorted(added, key=given.ids.__getitem__)
    tokens = [{"id": given.ids[token], "content": token, "special": added[token]} | plain for token in by_id]
    before, after = around
    text, second = ({"Sequence": {"id": part, "type_id": 0}} for part in "AB")
    single = [*map(_named, before), text, *map(_named, after)]
    control = {token: {"id": token, "ids": [given.ids[token]], "tokens": [token]} for token in [*before, *after]}
    wrap = {"type": "TemplateProcessing", "single": single, "pair": [*single, second, *map(_named, after)], "special_tokens": control}
    file = {"version": "1.0", "added_tokens": tokens, "post_processor": wrap, **parts}
    return ForeignTokenizer(Path(given.source), json.dumps(file))


def _named(token: str) -> Json:
    return {"SpecialToken": {"id": token, "type_id": 0}}
