"""BERT's tokenizer from a vocab.txt, against transformers' and by hand."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutaway.errors import TokenizerError
from cutaway.text import load_tokenizer
from cutaway.text.wordpiece import read_lines

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able", "##a", "want", "##ed", ",", "é", "e", "##é"]
SMALL = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NASTY = [
    "", " ", "Hello, WORLD!", "unaffable", "[MASK] [CLS]", "Zoë naïve", "你好 世界", "a" * 101, "\x00\ufffd tab\t", "don't…", "😀 e\u0301",
]  # fmt: skip


def folder(place: Path, tokens: list[str] = TOKENS, config: dict[str, Any] | None = None, ending: str = "\n") -> Path:
    place.mkdir(exist_ok=True)
    (place / "vocab.txt").write_bytes((ending.join(tokens) + ending).encode())
    if config is not None:
        (place / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    return place


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_the_longest_piece_first(tmp_path: Path, ending: str) -> None:
    tokenizer = load_tokenizer(folder(tmp_path, ending=ending), kinds=("wordpiece",))
    assert [tokenizer.token(id_) for id_ in tokenizer.encode("UNAFFABLE, wanted")] == ["un", "##aff", "##able", ",", "want", "##ed"]
    assert tokenizer.encode("wants", wrap=True) == [2, 1, 3]
    assert tokenizer.encode_pair("un", "want,") == [2, 5, 3, 9, 11, 3]
    assert [(piece.text, piece.span) for piece in tokenizer.pieces(" Wanted", wrap=True)][1:3] == [("want", (1, 5)), ("##ed", (5, 7))]
    assert list(tokenizer.specials) == TOKENS[:5] and tokenizer.vocab_size == len(TOKENS)


def test_control_tokens_are_read_only_when_asked(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(folder(tmp_path))
    assert 4 not in tokenizer.encode("un [MASK]")
    assert tokenizer.encode("un [MASK]", allow_special=True) == [5, 4]
    assert 3 not in tokenizer.encode_pair("[SEP]", "un")[1:-3]


def test_there_are_no_merges_to_show(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="WordPiece merges nothing"):
        load_tokenizer(folder(tmp_path)).steps("un")


def test_case_and_accents_are_the_configurations_to_say(tmp_path: Path) -> None:
    def ids(**config: Any) -> list[int]:
        return load_tokenizer(folder(tmp_path, config=config)).encode("É")

    assert ids() == ids(do_lower_case=True) == [13]  # lower case drops accents, unless told otherwise
    assert ids(do_lower_case=True, strip_accents=False) == [12]
    assert ids(do_lower_case=False) == [1]


@pytest.mark.parametrize(
    ("tokens", "config", "message"),
    [
        (TOKENS[5:], None, r"lacks \[UNK\] \[CLS\] \[SEP\]"),
        ([*TOKENS, "un"], None, "'un' on lines 6 and 16"),
        ([*TOKENS, "Want"], None, "do_lower_case in tokenizer_config.json"),
        (TOKENS, {"do_lower_case": "yes"}, "do_lower_case = 'yes'"),
        (TOKENS, {"cls_token": 7}, "cls_token = 7"),
        (TOKENS, {"cls_token": "<s>"}, "lacks <s>"),
    ],
)
def test_refused(tmp_path: Path, tokens: list[str], config: dict[str, Any] | None, message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        load_tokenizer(folder(tmp_path, tokens, config))


def test_a_cased_vocabulary_with_its_configuration(tmp_path: Path) -> None:
    config = {"do_lower_case": False, "mask_token": {"content": "[MASK]", "special": True}}
    tokenizer = load_tokenizer(folder(tmp_path, [*TOKENS, "Want"], config))
    assert tokenizer.encode("Want want") == [len(TOKENS), 9]


def test_a_line_is_a_token(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes("\ufeffa\n\u2028\n#b\n".encode())
    assert read_lines(tmp_path / "vocab.txt") == {"a": 0, "\u2028": 1, "#b": 2}


@pytest.fixture(scope="session")
def bert(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """MiniLM's tokenizer: from vocab.txt, from tokenizer.json, and by transformers."""
    from transformers import BertTokenizer

    place = tmp_path_factory.mktemp("minilm")
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(minilm / name, place)
    theirs = BertTokenizer.from_pretrained(place)
    return {"lines": load_tokenizer(place), "json": load_tokenizer(minilm), "theirs": theirs}


@pytest.mark.parametrize("source", ["lines", "json"])
def test_same_as_transformers(bert: dict[str, Any], source: str) -> None:
    ours, theirs = bert[source], bert["theirs"]
    assert ours.kind == "wordpiece" and ours.vocab_size == 30_522
    for text in NASTY:
        assert ours.encode(text, wrap=True, allow_special=True) == theirs(text)["input_ids"], text
        assert [piece.id for piece in ours.pieces(text, wrap=True, allow_special=True)] == theirs(text)["input_ids"]
    assert ours.encode_pair("The trophy", "didn't fit.") == theirs("The trophy", "didn't fit.")["input_ids"]
    assert ours.encode("Unaffable embeddings") == [14477, 20961, 3468, 7861, 8270, 4667, 2015]


@SMALL
@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n'ingé你"), max_size=40))
def test_any_text_gives_the_same_ids_from_both_files(bert: dict[str, Any], text: str) -> None:
    theirs = bert["theirs"]._tokenizer
    theirs.encode_special_tokens = True
    expected = theirs.encode(text).ids
    theirs.encode_special_tokens = False
    assert bert["lines"].encode(text, wrap=True) == bert["json"].encode(text, wrap=True) == expected


def test_real_texts(bert: dict[str, Any], data: Path) -> None:
    for path in [data / "text/alice.txt", *sorted((data / "multilingual/udhr").glob("*.txt"))]:
        text = path.read_text("utf-8")
        expected = bert["theirs"]._tokenizer.encode(text, add_special_tokens=False).ids
        assert bert["lines"].encode(text) == bert["json"].encode(text) == expected
