"""Tokenizers from the settings of a GGUF file, against libraries that never saw one: tokenizers, sentencepiece, the publishers' files."""

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from handmade import MERGES, byte_tokens
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, models, normalizers, pre_tokenizers

from cutaway.errors import TokenizerError
from cutaway.text import Tokenizer
from cutaway.text.embedded import WORDS, embedded_tokenizer
from cutaway.text.foreign import ForeignTokenizer
from cutaway.weights.gguf_header import read_gguf

SPECIALS = ["<|endoftext|>", "<|im_start|>"]
# What tells splits apart: digits of several scripts, blanks of all sorts and in runs, contractions, marks, bytes that SmolLM2 lacks.
ALPHABET = [
    *" \n\t\r\x0b\x1c\x1d\x85\xa0\u2028\u3000\u200b\ufeff\x00\x04",
    *("  ", "    ", "\r\n", " \n ", "12", "345", "٣", "½", "Ⅷ", "²", "'s", "'ll", "'S", "'", "!", "?!", "_", "a", "low", "LOWER", "er"),
    *("é", "e\u0301", "中", "😀", "\U00040001", "\U0010ffff", "ð", "<|im_start|>", "<s>", "[CLS]", "##", "▁", "<0x0A>"),
]
texts = st.lists(st.sampled_from(ALPHABET) | st.characters(exclude_categories=["Cs", "Cn"]), max_size=12).map("".join)


def on_texts(count: int, check: Callable[[str], None]) -> None:
    settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))(given(texts)(check))()


def byte_level(pre: str = "smollm", **changes: Any) -> dict[str, Any]:
    tokens = [*SPECIALS, *byte_tokens(MERGES)]
    given = {
        "model": "gpt2",
        "pre": pre,
        "tokens": tokens,
        "token_type": [3] * len(SPECIALS) + [1] * (len(tokens) - len(SPECIALS)),
        "merges": [" ".join(pair) for pair in MERGES],
        "bos_token_id": 1,
        "eos_token_id": 0,
    } | changes
    return {f"tokenizer.ggml.{key}": value for key, value in given.items() if value is not None}


def engine(metadata: dict[str, Any], pre_tokenizer: Any, **options: Any) -> tokenizers.Tokenizer:
    """The tokenizers library alone, given a vocabulary and a split of its own."""
    ids = {token: id_ for id_, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    found = tokenizers.Tokenizer(models.BPE(ids, merges, **options))
    found.pre_tokenizer = pre_tokenizer
    return found


def smollm() -> Any:
    """As SmolLM2's tokenizer.json says it."""
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])


def by_pattern(pattern: str) -> Any:
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


class TestByteLevel:
    def test_gpt2_is_gpt2(self) -> None:
        tokenizer = embedded_tokenizer(byte_level("gpt-2"), "x.gguf")
        assert (tokenizer.kind, tokenizer.vocab_size, tokenizer.specials) == ("gpt2", 258 + len(MERGES), {SPECIALS[0]: 0, SPECIALS[1]: 1})
        assert tokenizer.encode("low lower", wrap=True) == tokenizer.encode("low lower")

    def test_digits_are_words_and_merges_are_shown(self) -> None:
        tokenizer = embedded_tokenizer(byte_level(), "x.gguf")
        assert tokenizer.kind == "tokenizers" and "each digit is a word" in tokenizer.description
        words = [step.pieces for step in tokenizer.steps("a  12 lower") if step.pair is None]
        assert words == [("a",), ("Ġ", "Ġ"), ("1",), ("2",), ("Ġ", "l", "o", "w", "e", "r")]
        assert pickle.loads(pickle.dumps(tokenizer)).encode("low 12") == tokenizer.encode("low 12")

    @pytest.mark.parametrize("pre", WORDS)
    def test_every_split_is_the_librarys(self, pre: str) -> None:
        # Patterns as the publishers' tokenizer.json files have them.
        llama = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        qwen = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
        split = {"gpt-2": gpt2, "gpt2": gpt2, "smollm": smollm()}.get(pre) or by_pattern(qwen if pre == "qwen2" else llama)
        extra = [("1", "2"), ("12", "3"), ("Ġ", "Ġ"), ("Ċ", "Ċ"), ("!", "Ċ"), ("'", "s"), ("'", "S"), ("ĠĠ", "ĠĠ"), ("ĉ", "a")]
        tokens = [*SPECIALS, *byte_tokens([*MERGES, *extra]), "lowest"]
        metadata = byte_level(pre, tokens=tokens, merges=[" ".join(pair) for pair in [*MERGES, *extra]], token_type=None)
        ours = embedded_tokenizer(metadata, "x.gguf")
        theirs = engine(metadata, split, ignore_merges=pre.startswith("llama"))
        if pre == "qwen2":
            theirs.normalizer = normalizers.NFC()

        def check(text: str) -> None:
            ids = theirs.encode(text, add_special_tokens=False).ids
            assert ours.encode(text) == ids == [piece.id for piece in ours.pieces(text)]

        on_texts(60, check)
        assert (len(ours.encode("lowest")) == 1) == pre.startswith("llama")  # no merge makes it

    @pytest.mark.parametrize(
        ("pre", "changes", "expected"),
        [
            ("smollm", {}, []),
            ("smollm", {"add_bos_token": True}, [1, -1]),
            ("smollm", {"add_bos_token": True, "add_eos_token": True}, [1, -1, 0]),
            ("gpt-2", {"add_eos_token": True}, [-1, 0]),
            ("llama-bpe", {}, [1, -1]),
            ("llama-bpe", {"add_bos_token": False}, []),
            ("qwen2", {"add_eos_token": True}, [-1, 0]),
        ],
    )
    def test_what_stands_around_a_text(self, pre: str, changes: dict[str, Any], expected: list[int]) -> None:
        tokenizer = embedded_tokenizer(byte_level(pre, **changes), "x.gguf")
        plain = tokenizer.encode("low")
        wrapped = [id_ for part in expected or [-1] for id_ in (plain if part < 0 else [part])]
        assert tokenizer.encode("low", wrap=True) == wrapped == [piece.id for piece in tokenizer.pieces("low", wrap=True)]

    @pytest.mark.parametrize("pre", ["smollm", "qwen2"])
    def test_control_tokens_are_text_unless_asked_for(self, pre: str) -> None:
        tokenizer = embedded_tokenizer(byte_level(pre), "x.gguf")
        assert list(tokenizer.specials) == SPECIALS
        assert 1 not in tokenizer.encode("<|im_start|>")
        assert tokenizer.encode("a<|im_start|>", allow_special=True) == [*tokenizer.encode("a"), 1]

    def test_user_defined_tokens_are_always_read(self) -> None:
        metadata = byte_level()
        metadata["tokenizer.ggml.token_type"][1] = 4
        tokenizer = embedded_tokenizer(metadata, "x.gguf")
        assert isinstance(tokenizer, ForeignTokenizer)
        assert tokenizer.encode("12<|im_start|><|endoftext|>")[2] == 1
        assert 0 not in tokenizer.encode("<|endoftext|>")

    @pytest.mark.parametrize("odd", ["Ġ", "low", "Ġlow"])
    def test_an_ordinary_token_that_is_said_to_be_control_is_still_ordinary_text(self, odd: str) -> None:
        metadata = byte_level()
        ids = embedded_tokenizer(metadata, "x.gguf").encode("low lower é")
        metadata["tokenizer.ggml.token_type"][metadata["tokenizer.ggml.tokens"].index(odd)] = 3
        tokenizer = embedded_tokenizer(metadata, "x.gguf")
        assert tokenizer.encode("low lower é") == ids == [piece.id for piece in tokenizer.pieces("low lower é")]

    def test_merges_that_our_own_cannot_follow_go_to_the_library(self) -> None:
        merges = [("b", "c"), ("a", "b"), ("ab", "c")]  # the third never happens
        metadata = byte_level(tokens=byte_tokens(merges), merges=["b c", "a b", "ab c"], token_type=None)
        tokenizer = embedded_tokenizer(metadata, "x.gguf")
        assert isinstance(tokenizer, ForeignTokenizer) and "x.gguf" in tokenizer.description
        assert [tokenizer.token(id_) for id_ in tokenizer.encode("abc 12")] == ["a", "bc", "Ġ", "1", "2"]

    def test_a_byte_without_a_token_is_left_out(self) -> None:
        tokens = [token for token in byte_tokens(MERGES) if token not in ("x", "Ĥ")]
        metadata = byte_level(tokens=tokens, token_type=None)
        ours, theirs = embedded_tokenizer(metadata, "x.gguf"), engine(metadata, smollm())
        assert "2 of the 256 bytes" in ours.description
        for text in ("axa", "x", "lxow", "\u0082b x1", "xx 12 x"):
            assert ours.encode(text) == theirs.encode(text).ids == [piece.id for piece in ours.pieces(text)]
        assert [piece.span for piece in ours.pieces("axa b")] == [(0, 3), (3, 4), (4, 5)]


@pytest.fixture(scope="module")
def tiny() -> dict[str, Any]:
    """A vocabulary that sentencepiece learned, and ids that it gave. The file says how."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("sentencepiece_tiny.json").read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def metadata(tiny: dict[str, Any]) -> dict[str, Any]:
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *tiny["pieces"]],
        "tokenizer.ggml.scores": [0.0] * 259 + [-float(i) for i in range(len(tiny["pieces"]))],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(tiny["pieces"]),
    }


class TestSentencePiece:
    def test_ids_are_those_of_sentencepiece(self, tiny: dict[str, Any], metadata: dict[str, Any]) -> None:
        tokenizer = embedded_tokenizer(metadata, "x.gguf")
        for text, ids in tiny["texts"]:
            assert tokenizer.encode(text) == ids, text
            assert tokenizer.encode(text, wrap=True) == [1, *ids]
            assert tokenizer.decode(ids) == text.replace("▁", " ")
            pieces = tokenizer.pieces(text)
            assert [piece.id for piece in pieces] == ids
            assert b"".join(piece.bytes for piece in pieces) == (text and f" {text}").replace("▁", " ").encode()

    def test_no_blank_is_put_in_front_where_the_file_says_so(self, metadata: dict[str, Any]) -> None:
        tokenizer = embedded_tokenizer(metadata | {"tokenizer.ggml.add_space_prefix": False}, "x.gguf")
        assert tokenizer.encode(" the") == embedded_tokenizer(metadata, "x.gguf").encode("the")
        assert tokenizer.decode(tokenizer.encode(" the")) == " the"

    def test_control_tokens(self, metadata: dict[str, Any]) -> None:
        tokenizer = embedded_tokenizer(metadata | {"tokenizer.ggml.add_eos_token": True}, "x.gguf")
        assert tokenizer.specials == {"<unk>": 0, "<s>": 1, "</s>": 2}
        assert not {0, 1, 2} & set(tokenizer.encode("<s> <unk></s>"))
        assert tokenizer.encode("</s>", wrap=True, allow_special=True) == [1, 2, 2]

    def test_merging_makes_ordinary_tokens_alone(self, metadata: dict[str, Any]) -> None:
        place = metadata["tokenizer.ggml.tokens"].index("he")
        kinds = [3 if id_ == place else kind for id_, kind in enumerate(metadata["tokenizer.ggml.token_type"])]
        tokenizer = embedded_tokenizer(metadata | {"tokenizer.ggml.token_type": kinds}, "x.gguf")
        assert place in embedded_tokenizer(metadata, "x.gguf").encode("aheaheb")
        assert place not in tokenizer.encode("aheaheb")

    def test_without_bytes_a_run_of_unknown_characters_is_one_token(self, tiny: dict[str, Any]) -> None:
        tokens = ["<unk>", "<s>", "</s>", *tiny["pieces"]]
        given = {"model": "llama", "tokens": tokens, "scores": [-float(i) for i in range(len(tokens))]}
        given["token_type"] = [2, 3, 3] + [1] * len(tiny["pieces"])
        tokenizer = embedded_tokenizer({f"tokenizer.ggml.{key}": value for key, value in given.items()}, "x.gguf")
        assert [tokens[id_] for id_ in tokenizer.encode("the中中 中a")] == ["▁the", "<unk>", "▁", "<unk>", "a"]  # as sentencepiece does

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"scores": None}, "scores is missing"),
            ({"scores": [0.0]}, "scores has 1 values, and there are"),
            ({"scores": [float("nan")] * 480}, "not a number"),
            ({"scores": [0] * 480}, "scores holds 0"),
            ({"remove_extra_whitespaces": True}, "remove_extra_whitespaces"),
            ({"precompiled_charsmap": [1, 2]}, "precompiled_charsmap"),
        ],
    )
    def test_refused(self, metadata: dict[str, Any], change: dict[str, Any], reason: str) -> None:
        changed = metadata | {f"tokenizer.ggml.{key}": value for key, value in change.items()}
        with pytest.raises(TokenizerError, match=reason):
            embedded_tokenizer({key: value for key, value in changed.items() if value is not None}, "x.gguf")

    def test_a_token_too_long_to_halve(self) -> None:
        tokens = ["<unk>", "<s>", "a" * 300]
        with pytest.raises(TokenizerError, match="one of 300 characters"):
            embedded_tokenizer(
                {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": [0.0] * 3}, "x.gguf"
            )


BERT = [*"[PAD] [UNK] [CLS] [SEP] [MASK] ##s ##ing ##er play low ##w 中".split(), *"abcdefghijklmnopqrstuvwxyz.,!?'#-"]


def wordpiece(vocabulary: list[str], **changes: Any) -> dict[str, Any]:
    """As a converter writes it: the word's beginning is marked, not its continuation; brackets are left alone."""

    def marked(token: str) -> str:
        if token.startswith("[") and token.endswith("]"):
            return token
        return token[2:] if token.startswith("##") else f"▁{token}"

    kinds = [3 if token in BERT[:5] else 1 for token in vocabulary]
    given = {"model": "bert", "tokens": list(map(marked, vocabulary)), "token_type": kinds} | changes
    return {f"tokenizer.ggml.{key}": value for key, value in given.items()}


class TestWordPiece:
    def test_ids(self) -> None:
        tokenizer = embedded_tokenizer(wordpiece(BERT), "x.gguf")
        ids = tokenizer.encode("Playing, lower!", wrap=True)
        assert [BERT[id_] for id_ in ids] == ["[CLS]", "play", "##ing", ",", "low", "##er", "!", "[SEP]"]
        assert [piece.span for piece in tokenizer.pieces("Playing")] == [(0, 4), (4, 7)]
        assert tokenizer.decode(ids, keep_special=False) == "playing, lower!"
        assert [tokenizer.token(id_) for id_ in tokenizer.encode("xyz low")] == ["[UNK]", "low"]  # z can begin a word, not go on with one
        assert tokenizer.specials == {token: id_ for id_, token in enumerate(BERT[:5])}
        assert tokenizer.encode("[MASK]", allow_special=True) == [4] != tokenizer.encode("[MASK]")

    def test_special_tokens_by_their_ids(self) -> None:
        changes = {"bos_token_id": 5, "seperator_token_id": 6, "unknown_token_id": 7}
        tokens = [*(f"[x{i}]" for i in range(5)), "[B]", "[S]", "[U]", *BERT[8:]]
        tokenizer = embedded_tokenizer(wordpiece(tokens, **changes), "x.gguf")
        assert tokenizer.encode("low ☃", wrap=True) == [5, tokens.index("low"), 7, 6]

    @pytest.mark.parametrize(
        ("tokens", "reason"),
        [(["▁a", "▁Low"], "capitals matter"), (["[UNK]", "▁a"], "bos_token_id is missing"), (["a", "▁##a"], "a token twice")],
    )
    def test_refused(self, tokens: list[str], reason: str) -> None:
        with pytest.raises(TokenizerError, match=reason):
            embedded_tokenizer({"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": tokens}, "x.gguf")

    @pytest.mark.parametrize("count", [100, pytest.param(5000, marks=pytest.mark.long)])
    def test_the_published_vocabulary(self, minilm: Path, count: int) -> None:
        folder = minilm
        ours = embedded_tokenizer(wordpiece((folder / "vocab.txt").read_text("utf-8").removesuffix("\n").split("\n")), "x.gguf")
        theirs = ForeignTokenizer(folder / "tokenizer.json")
        assert ours.vocab_size == theirs.vocab_size and ours.specials == theirs.specials

        def check(text: str) -> None:
            for special in (True, False):
                ids = theirs.encode(text, wrap=True, allow_special=special)
                assert ours.encode(text, wrap=True, allow_special=special) == ids
                assert ours.decode(ids) == theirs.decode(ids)

        on_texts(count, check)


class TestSmolLM2:
    """The real file, against HF's description of the same tokenizer."""

    @staticmethod
    @cache
    def both(path: Path) -> tuple[Tokenizer, tokenizers.Tokenizer]:
        metadata = read_gguf(path).metadata
        return embedded_tokenizer(metadata, path.name), engine(metadata, smollm())

    @pytest.mark.parametrize("count", [200, pytest.param(5000, marks=pytest.mark.long)])
    def test_ids(self, smollm2: Path, count: int) -> None:
        ours, theirs = self.both(smollm2)

        def check(text: str) -> None:
            ids = ours.encode(text)
            assert ids == theirs.encode(text).ids == [piece.id for piece in ours.pieces(text)]

        on_texts(count, check)

    def test_what_it_is(self, smollm2: Path) -> None:
        ours, _ = self.both(smollm2)
        assert (ours.vocab_size, len(ours.specials), ours.specials["<|im_end|>"]) == (49_152, 17, 2)
        assert ours.encode("low 12", wrap=True) == ours.encode("low 12")
        assert "21 of the 256 bytes" in ours.description
        last = [step.pieces for step in ours.steps("Hello")][-1]
        assert last == ("Hello",) and ours.encode("Hello") == [ours.id("Hello")]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": None}, "holds no tokenizer"),
        ({"model": "t5"}, "of the kind 't5'.*gpt2 or llama or bert"),
        ({"model": 7}, "of the kind 7"),
        ({"pre": "tekken"}, "pre is 'tekken'.*gpt-2 or.*smollm"),
        ({"pre": "default"}, "pre is 'default'"),
        ({"pre": None}, "pre is missing"),
        ({"pre": 3}, "pre is 3"),
        ({"tokens": None}, "tokens is missing"),
        ({"tokens": "abc"}, "tokens is 'abc'"),
        ({"tokens": [1, 2]}, "tokens holds 1"),
        ({"tokens": ["a", "", 0]}, "tokens holds 0"),
        ({"tokens": ["a", "a"], "token_type": None}, "tokens has 'a' twice"),
        ({"token_type": [1]}, "token_type has 1 values, and there are"),
        ({"token_type": ["1"]}, "token_type holds '1'"),
        ({"merges": None}, "merges is missing"),
        ({"merges": [["l", "o"]]}, "merges holds"),
        ({"merges": ["l o", "lo q"]}, "merges has 'lo q' in place 1"),
        ({"merges": ["l ø", "q"]}, "merges has 'l ø' in place 0"),
        ({"merges": ["lo"]}, "merges has 'lo' in place 0"),
        ({"merges": ["l o", "l o"]}, "merges has 'l o' twice"),
        ({"add_bos_token": 1}, "add_bos_token is 1"),
        ({"add_bos_token": True, "bos_token_id": None}, "bos_token_id is missing"),
        ({"add_bos_token": True, "bos_token_id": 10**6}, "bos_token_id is 1000000"),
        ({"add_eos_token": True, "eos_token_id": -1}, "eos_token_id is -1"),
    ],
)
def test_settings_that_contradict_themselves(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(TokenizerError, match=reason) as caught:
        embedded_tokenizer(byte_level(**changes), "x.gguf")
    assert "x.gguf" in str(caught.value)


def test_no_torch() -> None:
    code = "import sys, cutaway.text.embedded; print('torch' in sys.modules, 'gguf' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == ["False", "False"]
