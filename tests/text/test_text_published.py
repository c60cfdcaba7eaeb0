"""Ids that the publishers' own vocabularies give, and agreement with other implementations."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutaway.errors import TokenizerError
from cutaway.text import Tokenizer, load_tokenizer
from cutaway.text.gpt1 import plain_words
from cutaway.text.gpt2 import ByteBPE
from cutaway.text.vocabulary import read_merges, whole

NASTY = [
    "", " ", "  ", "\n", "a \n b", " Hello", "y is ?", "their 'studio'", "a  b", "a    b", " \n x", "\n\n\nx",
    "a\r\nb", "naïve", "\x00", "##", "## Heading", "#version", "don't DON'T we've I'll you're he'd I'm it's",
    "'sup 's 'S", "1234567890 12 ½ Ⅷ ²", "你好,世界。", "👨‍👩‍👧‍👦 👍🏽", "e\u0301 é", "\u2028 \u00a0 \u3000x",
    "<|endoftext|>", "<s></s><mask><unk></w>", "tab\tand\x0bmore\x0c", "\ufffd \ufeff", "İstanbul ΑΣ ß ﬁ 한국어",
    "_a__b___", "a" * 500, "...!?", "if x:\n        return  y\n", "\U0001f600" * 5, "Ünïcödé Ã© â€™", "''''",
    "can''t", "🇩🇪🇵🇹", "\u200bzero\u200dwidth", "\ue000\uf074",
]  # fmt: skip

# Characters that all Unicode tables of recent years agree on; the libraries each bring their own.
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cn"], max_codepoint=0x2FFF) | st.sampled_from(" \n'sdt.#aé😀你"), max_size=40)
SMALL = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

GPT2_GOLDEN = [
    ("Jack and jill", [14295, 290, 474, 359]),
    ("y is ?", [88, 318, 5633]),
    ("their 'studio'", [24571, 705, 19149, 952, 6]),
    ("<|endoftext|>", [27, 91, 437, 1659, 5239, 91, 29]),
    ("a<|endoftext|>b", [64, 27, 91, 437, 1659, 5239, 91, 29, 65]),
    ("a  b", [64, 220, 275]),
    ("a    b", [64, 220, 220, 220, 275]),
    (" \n x", [220, 198, 2124]),
    ("\n\n\nx", [628, 198, 87]),
    ("a\r\nb", [64, 201, 198, 65]),
    ("naïve", [2616, 38776]),
    ("##", [2235]),
    ("####", [4242]),
    ("## Heading", [2235, 679, 4980]),
    ("#$", [29953]),
    ("#version", [2, 9641]),
    ("my", [1820]),
    (" my", [616]),
    ("mystery", [1820, 41991]),
    (" mystery", [10715]),
    ("Hello world", [15496, 995]),
    (" Hello world", [18435, 995]),
    ("\ud83d", [4210]),
    ("\ud83d\udc4d", [41840, 235]),
    ("\x00", [188]),
    ("", []),
]


@pytest.mark.parametrize(("text", "ids"), GPT2_GOLDEN)
def test_gpt2_ids(gpt2: Tokenizer, text: str, ids: list[int]) -> None:
    assert gpt2.encode(text) == gpt2.encode(text, wrap=True) == ids
    assert [piece.id for piece in gpt2.pieces(text)] == ids
    assert gpt2.decode(ids) == whole(text)


def test_gpt2_reads_its_control_token_only_when_asked(gpt2: Tokenizer) -> None:
    assert gpt2.encode("<|endoftext|>", allow_special=True) == [50256] == [gpt2.specials["<|endoftext|>"]]
    assert gpt2.encode("a<|endoftext|>b", allow_special=True) == [64, 50256, 65]
    assert gpt2.decode([64, 50256, 65]) == "a<|endoftext|>b"
    assert gpt2.decode([64, 50256, 65], keep_special=False) == "ab"


def test_gpt2_words_after_the_first_carry_a_space(gpt2: Tokenizer, roberta: Tokenizer) -> None:
    assert gpt2.encode_words(["Is", "this"]) == gpt2.encode("Is this") == [3792, 428]
    assert roberta.encode_words(["Is", "this"]) == roberta.encode("Is this")


def test_gpt2_characters_split_over_tokens(gpt2: Tokenizer) -> None:
    assert gpt2.decode([8582, 97, 245]) == "🤗"
    pieces = gpt2.pieces("a🤗")
    assert [(piece.text, piece.span) for piece in pieces] == [("a", (0, 1)), ("\ufffd", (1, 2)), ("\ufffd", (1, 2)), ("\ufffd", (1, 2))]
    assert len(gpt2.encode("👨‍👩‍👧‍👦")) > 7


@pytest.mark.parametrize(
    ("run", "tokens"), [("a" * 100_000, 25_000), ("^" * 1_000_000, 250_000), (" " * 100_000, 100_000), ("\n" * 50_000, 25_000)]
)
def test_gpt2_long_runs(gpt2: Tokenizer, run: str, tokens: int) -> None:
    start = time.process_time()
    assert len(gpt2.encode(run)) == tokens
    assert time.process_time() - start < 5


def test_gpt2_long_runs_step_by_step(gpt2: Any) -> None:
    assert len(gpt2.bpe("a" * 100_000)) == 25_000


def test_roberta_ids_are_not_gpt2_ids(roberta: Tokenizer) -> None:
    assert roberta.encode("Jack and jill", wrap=True) == [0, 20907, 8, 1236, 1873, 2]
    assert roberta.encode("Jack and jill") == [20907, 8, 1236, 1873]
    assert roberta.encode("Hello world", wrap=True) == [0, 31414, 232, 2]


def test_mask_takes_the_blank_on_its_left(roberta: Tokenizer) -> None:
    pieces = roberta.pieces("She likes  <mask> cats.", wrap=True, allow_special=True)
    assert [roberta.token(piece.id) for piece in pieces] == ["<s>", "She", "Ġlikes", "<mask>", "Ġcats", ".", "</s>"]
    assert [piece.span for piece in pieces] == [(0, 0), (0, 3), (3, 9), (9, 17), (17, 22), (22, 23), (23, 23)]
    assert roberta.id("<mask>") not in roberta.encode("a <mask> b")


def test_roberta_pairs(roberta: Tokenizer, gpt2: Tokenizer) -> None:
    a, b = roberta.encode("Hello"), roberta.encode(" world")
    assert roberta.encode_pair("Hello", " world") == [0, *a, 2, 2, *b, 2]
    with pytest.raises(TokenizerError, match="pair of texts"):
        gpt2.encode_pair("Hello", "world")


def test_fairseq_files_give_the_same_vocabulary(published: Path, roberta: Tokenizer, tmp_path: Path) -> None:
    for name, source in (("encoder.json", "gpt2"), ("vocab.bpe", "gpt2"), ("dict.txt", "roberta")):
        (tmp_path / name).write_bytes((published / source / name).read_bytes())
    ours = load_tokenizer(tmp_path)
    assert [ours.token(id_) for id_ in range(ours.vocab_size)] == [roberta.token(id_) for id_ in range(roberta.vocab_size)]
    assert ours.encode("Jack and jill", wrap=True) == [0, 20907, 8, 1236, 1873, 2]
    (tmp_path / "dict.txt").unlink()
    with pytest.raises(TokenizerError, match=r"no dict\.txt"):
        load_tokenizer(tmp_path, kinds=("roberta",))


@pytest.mark.parametrize(("text", "ids"), [("Hello world", [3570, 1276]), ("don't", [2310, 256, 241]), ("...", [239, 239, 239])])
def test_gpt1_plain_ids(gpt1: Tokenizer, text: str, ids: list[int]) -> None:
    assert gpt1.encode(text) == ids
    assert "blanks and signs" in gpt1.description


@pytest.mark.parametrize(
    ("text", "ids"),
    [("Hello world", [3570, 1276]), ("don't", [587, 538]), ("it's", [507, 535]), ("...", [749]), ("a \n\n b", [246, 40477, 259]), ("", [])],
)
def test_gpt1_publishers_ids(gpt1_spacy: Tokenizer, text: str, ids: list[int]) -> None:
    assert gpt1_spacy.encode(text) == ids
    assert "spaCy" in gpt1_spacy.description


def test_gpt1_publishers_spans_lead_back_to_the_text(gpt1_spacy: Tokenizer) -> None:
    text = "Hello—“Don’t”  \n\n  ï»¿ schÃ¶n… İx &amp; ok"
    pieces = gpt1_spacy.pieces(text)
    assert [piece.id for piece in pieces] == gpt1_spacy.encode(text)
    shown = {piece.text: text[slice(*piece.span)] for piece in pieces}
    assert shown == shown | {
        "hello": "Hello",
        "-": "—",
        "do": "Do",
        "n't": "n’t",
        "ö": "Ã¶",
        "...": "…",
        "i": "İ",
        "x": "x",
        "&": "&",
        "ok": "ok",
    }
    assert "\n\n" in shown["\n"]


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("name", ["gpt1", "gpt1_spacy"])
def test_gpt1_pieces_are_in_order_and_have_the_ids_of_encode(request: pytest.FixtureRequest, text: str, name: str) -> None:
    tokenizer = request.getfixturevalue(name)
    pieces = tokenizer.pieces(text)
    assert [piece.id for piece in pieces] == tokenizer.encode(text)
    assert all(0 <= piece.span[0] <= piece.span[1] <= len(text) for piece in pieces)
    assert [piece.span[0] for piece in pieces] == sorted(piece.span[0] for piece in pieces)


@pytest.mark.parametrize("name", ["gpt2", "roberta"])
@pytest.mark.parametrize("text", NASTY)
def test_byte_level_nasty_texts(request: pytest.FixtureRequest, name: str, text: str) -> None:
    check_byte_level(request.getfixturevalue(name), text)


@SMALL
@given(TEXT)
def test_byte_level_any_text(gpt2: Any, roberta: Any, text: str) -> None:
    check_byte_level(gpt2, text)
    check_byte_level(roberta, text)


def check_byte_level(tokenizer: Any, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert [tokenizer.id(piece) for word in tokenizer._words(text) for piece in tokenizer.bpe(word)] == ids  # step by step = fast
    pieces = tokenizer.pieces(text)
    assert [piece.id for piece in pieces] == ids
    assert b"".join(piece.bytes for piece in pieces) == text.encode()
    assert {i for piece in pieces for i in range(*piece.span)} == set(range(len(text)))
    assert all(piece.text == text[slice(*piece.span)] or "\ufffd" in piece.text for piece in pieces)


@SMALL
@given(st.text(max_size=40))
def test_decode_gives_back_any_text(gpt2: Tokenizer, roberta: Tokenizer, text: str) -> None:
    assert gpt2.decode(gpt2.encode(text)) == roberta.decode(roberta.encode(text)) == text


@pytest.fixture(scope="session")
def library(published: Path) -> dict[str, Any]:
    """The same three tokenizers, built from the same files by transformers."""
    transformers = pytest.importorskip("transformers")
    files = {
        "gpt1": (transformers.OpenAIGPTTokenizer, "encoder_bpe_40000.json", "vocab_40000.bpe"),
        "gpt2": (transformers.GPT2Tokenizer, "encoder.json", "vocab.bpe"),
        "roberta": (transformers.RobertaTokenizer, "vocab.json", "merges.txt"),
    }
    return {
        kind: build(vocab=json.loads((published / kind / vocab).read_text("utf-8")), merges=read_merges(published / kind / merges))
        for kind, (build, vocab, merges) in files.items()
    }


@pytest.mark.parametrize("name", ["gpt1", "gpt2", "roberta"])
def test_same_as_transformers(request: pytest.FixtureRequest, library: dict[str, Any], name: str) -> None:
    ours, theirs = request.getfixturevalue(name), library[name]._tokenizer
    theirs.encode_special_tokens = True
    for text in NASTY:
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False).ids, text
        assert ours.encode(text, wrap=True) == theirs.encode(text).ids, text


# The library's tables of accents and signs are years older than Python's, hence only characters that are older still.
@SMALL
@given(st.text(st.characters(max_codepoint=0x24F) | st.sampled_from(" \n'-.αΣя你。—…“’€İ한"), max_size=40))
def test_gpt1_same_as_transformers_for_any_text(gpt1: Tokenizer, library: dict[str, Any], text: str) -> None:
    library["gpt1"]._tokenizer.encode_special_tokens = True
    assert gpt1.encode(text) == library["gpt1"]._tokenizer.encode(text).ids


def test_roberta_pairs_same_as_transformers(roberta: Tokenizer, library: dict[str, Any]) -> None:
    assert roberta.encode_pair("A b", "c d") == library["roberta"]("A b", "c d")["input_ids"]


@pytest.mark.parametrize("name", ["gpt1", "gpt2", "roberta"])
def test_a_tokenizer_json_of_transformers_opens_as_what_it_is(request: Any, library: dict[str, Any], name: str, tmp_path: Path) -> None:
    library[name].save_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path, kinds=(name,))
    expected = request.getfixturevalue(name)
    assert ours.specials == expected.specials
    assert ours.encode("The trophy didn't fit.", wrap=True) == expected.encode("The trophy didn't fit.", wrap=True)


def test_gpt1_unknown_characters_and_case(gpt1: Tokenizer) -> None:
    assert gpt1.encode("漢") == [0]
    assert gpt1.encode("HELLO") == gpt1.encode("hello") == [3570]
    text = "İİ Hello"
    assert [text[slice(*piece.span)] for piece in gpt1.pieces(text)] == ["İİ", "Hello"]
    assert gpt1.decode([3570, 1276, 40477]) == "hello world \n"
    assert plain_words("Zoë…") == ["zoe", "…"]


@pytest.mark.parametrize("kind", ["gpt1", "gpt2", "roberta"])
@pytest.mark.parametrize("change", ["crlf", "no final newline", "bom"])
def test_merge_files_as_editors_leave_them(published: Path, tmp_path: Path, kind: str, change: str) -> None:
    for path in (published / kind).iterdir():
        content = path.read_bytes()
        if path.suffix in (".bpe", ".txt"):
            content = {
                "crlf": content.replace(b"\n", b"\r\n"),
                "no final newline": content.rstrip(b"\n"),
                "bom": b"\xef\xbb\xbf" + content,
            }[change]
        elif change == "bom":
            content = b"\xef\xbb\xbf" + content
        (tmp_path / path.name).write_bytes(content)
    merges = next(tmp_path / name for name in ("merges.txt", "vocab.bpe", "vocab_40000.bpe") if (tmp_path / name).exists())
    assert len(read_merges(merges)) == (40_000 if kind == "gpt1" else 50_000)
    assert load_tokenizer(tmp_path).encode("## Heading") == load_tokenizer(published / kind).encode("## Heading")


def test_files_are_utf8_whatever_the_locale(published: Path) -> None:
    code = """if True:
        import sys, pathlib
        from cutaway.text import load_tokenizer
        for kind in ("gpt1", "gpt2", "roberta"):
            tokenizer = load_tokenizer(pathlib.Path(sys.argv[1], kind))
            assert tokenizer.encode(chr(0x2015) + chr(0x1F600))
        heavy = {"torch", "tokenizers", "transformers", "huggingface_hub", "ftfy", "spacy", "numpy"} & set(sys.modules)
        assert not heavy, heavy
    """
    environment = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    subprocess.run([sys.executable, "-c", code, str(published)], env=environment, check=True, timeout=120)


def test_tiktoken_does_the_published_merging(gpt2: Tokenizer, roberta: Tokenizer) -> None:
    assert isinstance(gpt2, ByteBPE) and gpt2.fast
    assert isinstance(roberta, ByteBPE) and roberta.fast
