"""Which tokenizer a folder holds, and what is refused; with vocabularies made by hand."""

import json
import pickle
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from handmade import MERGES, byte_tokens, write

from cutaway.errors import TokenizerError
from cutaway.text import Step, Tokenizer, load_tokenizer
from cutaway.text.foreign import ForeignTokenizer
from cutaway.text.vocabulary import read_merges, whole

TEXTS = ["", "lower", " lower low\n", "é😀ðŁ", "## a#", "a" * 9, "<|endoftext|> <mask>", "x\x00y"]


@pytest.mark.parametrize("kind", ["gpt1", "gpt2", "roberta"])
def test_the_kind_is_read_from_the_vocabulary(small: dict[str, Tokenizer], kind: str) -> None:
    assert small[kind].kind == kind
    assert kind in repr(small[kind])
    assert small[kind].description


@pytest.mark.parametrize("kind", ["gpt2", "roberta"])
@pytest.mark.parametrize("text", TEXTS)
def test_small_byte_level(small: dict[str, Any], kind: str, text: str) -> None:
    tokenizer = small[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.fast
    assert tokenizer.decode(ids) == text
    assert [tokenizer.id(piece) for word in tokenizer._words(text) for piece in tokenizer.bpe(word)] == ids
    assert b"".join(piece.bytes for piece in tokenizer.pieces(text)) == text.encode()
    assert [tokenizer.id(piece) for step in last_steps(tokenizer.steps(text)) for piece in step.pieces] == ids


def last_steps(steps: Iterable[Step]) -> list[Step]:
    """The last step of each word."""
    words: list[Step] = []
    for step in steps:
        words[len(words) - (step.pair is not None) :] = [step]
    return words


def test_tokens_and_ids(small: dict[str, Tokenizer]) -> None:
    gpt2 = small["gpt2"]
    assert [gpt2.token(id_) for id_ in gpt2.encode("low lower")] == ["low", "Ġlow", "er"]
    assert gpt2.id("Ġlow") == gpt2.encode(" low")[0]
    assert gpt2.id("Ġnowhere") is None
    assert gpt2.vocab_size == 256 + len(MERGES) + 1


def test_roberta_ids_follow_the_table_not_the_ranks(small: dict[str, Tokenizer]) -> None:
    roberta, gpt2 = small["roberta"], small["gpt2"]
    assert [roberta.token(id_) for id_ in roberta.encode("low lower")] == [gpt2.token(id_) for id_ in gpt2.encode("low lower")]
    assert roberta.encode("low") != gpt2.encode("low")
    assert roberta.encode("low", wrap=True)[0::2] == [0, 2]
    assert list(roberta.specials) == ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


@pytest.mark.parametrize("kind", ["gpt1", "gpt2", "roberta"])
@pytest.mark.parametrize("bad", [-1, 10**9])
def test_ids_out_of_range(small: dict[str, Tokenizer], kind: str, bad: int) -> None:
    with pytest.raises(TokenizerError, match="an id from 0 to"):
        small[kind].decode([1, bad])
    with pytest.raises(TokenizerError, match="an id from 0 to"):
        small[kind].token(bad)


def test_gpt1_words(small: dict[str, Tokenizer]) -> None:
    gpt1 = small["gpt1"]
    assert [gpt1.token(id_) for id_ in gpt1.encode("LOWER, low!")] == ["lower</w>", ",</w>", "low</w>", "<unk>"]
    assert gpt1.decode(gpt1.encode("LOWER, low")) == "lower , low"
    assert [piece.span for piece in gpt1.pieces("  LOWER, lox")] == [(2, 7), (7, 8), (9, 11), (11, 12)]
    assert gpt1.encode_words(["Low", "er"]) == gpt1.encode("low er")
    assert [step.rank for step in gpt1.steps("low")] == [None, 0, 1]


def test_gpt1_reads_unk_only_when_asked(small: dict[str, Tokenizer]) -> None:
    assert small["gpt1"].encode("<unk>", allow_special=True) == [0]
    assert len(small["gpt1"].encode("<unk>")) > 1


@pytest.mark.parametrize("missing", ["ftfy", "spacy"])
def test_gpt1_says_what_the_publishers_splitter_needs(gpt1_folder: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for module in {"ftfy": ["ftfy"], "spacy": ["spacy", "spacy.lang.en"]}[missing]:  # the second may have been loaded by another test
        monkeypatch.setitem(sys.modules, module, None)
    assert load_tokenizer(gpt1_folder)
    with pytest.raises(TokenizerError, match=r"cutaway\[gpt1\]"):
        load_tokenizer(gpt1_folder, splitter="spacy")


@pytest.mark.parametrize(
    ("given", "expected"),
    [("a\ud83d\udc4db", "a👍b"), ("\ud83d", "\ufffd"), ("\udc4d\ud83d", "\ufffd\ufffd"), ("\ud83dx", "\ufffdx"), ("plain", "plain")],
)
def test_surrogates(small: dict[str, Tokenizer], given: str, expected: str) -> None:
    assert whole(given) == expected
    for tokenizer in small.values():
        assert tokenizer.encode(given) == tokenizer.encode(expected) == [piece.id for piece in tokenizer.pieces(given)]
    assert small["gpt2"].pieces(given)[-1].span[1] == len(given)


def test_a_joined_pair_spans_two_characters(small: dict[str, Tokenizer]) -> None:
    spans = [piece.span for piece in small["gpt2"].pieces("a\ud83d\udc4db")]
    assert spans[0] == (0, 1) and spans[-1] == (3, 4) and set(spans[1:-1]) == {(1, 3)}


def test_a_list_that_tiktoken_cannot_follow_goes_step_by_step(tmp_path: Path) -> None:
    merges = [("b", "c"), ("a", "b"), ("ab", "c")]  # tiktoken would join a and bc, which is no pair
    tokenizer: Any = load_tokenizer(write(tmp_path, [*byte_tokens(merges), "<|endoftext|>"], merges))
    assert not tokenizer.fast
    assert [tokenizer.token(id_) for id_ in tokenizer.encode("abc ab")] == ["a", "bc", "Ġ", "ab"]


def test_a_tokenizer_survives_pickling(small: dict[str, Any]) -> None:
    for tokenizer in small.values():
        ids = tokenizer.encode("lower low")
        assert pickle.loads(pickle.dumps(tokenizer)).encode("lower low") == ids


@pytest.mark.parametrize(
    "names", [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"), ("encoder_bpe_40000.json", "vocab_40000.bpe")]
)
def test_file_names_of_every_publisher(tmp_path: Path, names: tuple[str, str]) -> None:
    folder = write(tmp_path, [*byte_tokens(MERGES), "<|endoftext|>"], MERGES, names)
    assert load_tokenizer(folder).kind == "gpt2"
    (folder / names[1]).unlink()
    with pytest.raises(TokenizerError, match=f"{names[0]} without {names[1]}"):
        load_tokenizer(folder)


def test_another_kind_than_the_model_needs_is_refused(gpt2_folder: Path) -> None:
    with pytest.raises(TokenizerError, match="holds a gpt2 tokenizer"):
        load_tokenizer(gpt2_folder, kinds=("roberta",))


def test_fairseq_without_its_dictionary_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, [*byte_tokens(MERGES), "<|endoftext|>"], MERGES, ("encoder.json", "vocab.bpe"))
    with pytest.raises(TokenizerError, match=r"no dict\.txt"):
        load_tokenizer(folder, kinds=("roberta",))
    (folder / "dict.txt").write_text("".join(f"{id_} 7\n" for id_ in reversed(range(257 + len(MERGES)))) + "madeupword0000 0\n", "utf-8")
    tokenizer = load_tokenizer(folder, kinds=("roberta",))
    assert tokenizer.token(4) == "<|endoftext|>"
    assert [tokenizer.token(id_) for id_ in tokenizer.encode("low")] == ["low"]
    assert tokenizer.id("<mask>") == tokenizer.vocab_size - 1
    for line, message in (("99999 1", "names the id 99999"), ("17", "a GPT-2 id and how often")):
        (folder / "dict.txt").write_text(line + "\n", "utf-8")
        with pytest.raises(TokenizerError, match=message):
            load_tokenizer(folder)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("vocab.json", "{", "not JSON"),
        ("vocab.json", "[1]", "holds a list"),
        ("vocab.json", '{"a": "0"}', "the id '0'"),
        ("vocab.json", '{"a": 0, "b": 2}', "without gaps"),
        ("vocab.json", '{"a": 0, "b": 0}', "without gaps"),
        ("vocab.json", b"\xff\xfe{\x00", "not UTF-8"),
        ("vocab.json", '{"l": 0, "o": 1}', "Merge 1, 'l o', does not fit"),
        ("merges.txt", "#version: 0.2\nl o w\n", "Line 2"),
        ("merges.txt", "#version: 0.2\nl o\nlo\n", "Line 3"),
        ("merges.txt", "l o\nlo w\nl o\n", "lines 1 and 3"),
        ("merges.txt", "lo w\nl o\n", "Merge 1, 'lo w', does not fit"),
    ],
)
def test_files_that_contradict_themselves(gpt2_folder: Path, file: str, content: str | bytes, message: str) -> None:
    (gpt2_folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TokenizerError, match=message):
        load_tokenizer(gpt2_folder)


def test_a_byte_is_missing(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="lacks 1 of the 256 bytes"):
        load_tokenizer(write(tmp_path, [token for token in byte_tokens([]) if token != "Ġ"], []))


def test_an_empty_folder_and_none(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(TokenizerError, match="no tokenizer files"):
            load_tokenizer(folder)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("final", [True, False])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("header", [[], ["#version: 0.2"]])
def test_merges_are_read_to_the_letter(tmp_path: Path, newline: str, final: bool, mark: str, header: list[str]) -> None:
    lines = [*header, "# #", "#v ersion", "é \u2028"]
    path = tmp_path / "merges.txt"
    path.write_bytes((mark + newline.join(lines) + newline * final).encode())
    assert read_merges(path) == [("#", "#"), ("#v", "ersion"), ("é", "\u2028")]


def tokenizer_json(folder: Path, change: dict[str, Any] | None = None, merges: list[tuple[str, str]] = MERGES) -> Path:
    tokens = [*byte_tokens(merges), "<|endoftext|>"]
    end = {"id": len(tokens) - 1, "content": "<|endoftext|>", "special": True}
    end |= {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": [" ".join(pair) for pair in merges]}
    file = {"version": "1.0", "added_tokens": [end], "normalizer": None, "pre_tokenizer": level, "post_processor": None}
    file |= {"decoder": level, "model": model} | (change or {})
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(file), "utf-8")
    return folder


def test_a_plain_tokenizer_json_is_gpt2(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(tokenizer_json(tmp_path))
    assert tokenizer.kind == "gpt2"
    assert [tokenizer.token(id_) for id_ in tokenizer.encode("low lower")] == ["low", "Ġlow", "er"]


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "Lowercase"}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}},
        {"pre_tokenizer": {"type": "Whitespace"}},
    ],
)
def test_a_tokenizer_json_that_does_more_goes_to_the_library(tmp_path: Path, change: dict[str, Any]) -> None:
    assert load_tokenizer(tokenizer_json(tmp_path, change)).kind == "tokenizers"


def test_a_tokenizer_json_that_tiktoken_cannot_follow_goes_to_the_library(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(tokenizer_json(tmp_path, merges=[("b", "c"), ("a", "b"), ("ab", "c")]))
    assert isinstance(tokenizer, ForeignTokenizer)
    assert [tokenizer.token(id_) for id_ in tokenizer.encode("abc")] == ["a", "bc"]


def test_any_other_tokenizer(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(tokenizer_json(tmp_path, {"normalizer": {"type": "NFC"}}))
    text = "low 😀\ud83d\udc4d"
    pieces = tokenizer.pieces(text)
    assert [piece.id for piece in pieces] == tokenizer.encode(text)
    assert b"".join(piece.bytes for piece in pieces) == whole(text).encode()
    assert pieces[-1].span == (5, 7)
    assert tokenizer.decode(tokenizer.encode(text)) == whole(text)
    end = tokenizer.specials["<|endoftext|>"]
    assert end not in tokenizer.encode("<|endoftext|>")
    assert tokenizer.encode("<|endoftext|>", allow_special=True) == [end]
    assert tokenizer.decode([end]) == "<|endoftext|>" and tokenizer.decode([end], keep_special=False) == ""
    assert tokenizer.encode_words(["a", "low"]) == tokenizer.encode("a low")
    assert tokenizer.id("low") == tokenizer.encode("low")[0]
    assert tokenizer.kind == "tokenizers"
    for refused in (lambda: tokenizer.encode_pair("a", "b"), lambda: tokenizer.decode([-1]), lambda: tokenizer.steps("a")):
        with pytest.raises(TokenizerError):
            refused()


def test_a_broken_tokenizer_json(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "Nonsense"}}', "utf-8")
    with pytest.raises(TokenizerError, match="can read"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_json_that_says_more_than_the_pair_beside_it_is_followed(gpt2_folder: Path, tmp_path: Path) -> None:
    """SmolLM2's folder has vocab.json and merges.txt too, and cuts every digit apart, which they do not say."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    digits = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, level]}
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(gpt2_folder / name, tmp_path)
    assert load_tokenizer(tokenizer_json(tmp_path, {"pre_tokenizer": digits})).kind == "tokenizers"
    assert load_tokenizer(tokenizer_json(tmp_path)).kind == "gpt2"
