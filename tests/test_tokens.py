"""The pieces of a text under several tokenizers: what is counted, how words are told, and a word merge by merge."""

from pathlib import Path

import pytest

from cutaway.errors import CutawayError, ModelError, TextError, TokenizerError
from cutaway.text import Step
from cutaway.tokens import Tokens, open_tokenizers, spellings, tokens, words_of
from tests.conftest import tokenizer_folder

TEXT = "The big cat was in the box, the box was big."


def cut(text: str = TEXT, *kinds: str, **options: object) -> Tokens:
    return tokens(text, [str(tokenizer_folder(kind)) for kind in kinds or ("gpt2",)], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ("gpt2", "roberta"))
def test_the_pieces_are_the_text(kind: str) -> None:
    (one,) = cut(TEXT, kind).tokenizers
    own = [piece for piece in one.pieces if piece.span[0] < piece.span[1]]
    assert b"".join(piece.bytes for piece in own).decode() == TEXT
    assert one.added == {"gpt2": 0, "roberta": 2}[kind] == len(one.pieces) - len(own)
    assert one.tokens_per_word == len(own) / 11
    assert one.characters_per_token == len(TEXT) / len(own)
    assert one.unknown == 0


def test_what_a_vocabulary_cannot_write_is_counted() -> None:
    result = cut("The box, 你好", "gpt1", "gpt2")
    assert [one.unknown for one in result.tokenizers] == [2, 0]
    assert sum(one.tokens.count("<unk>") for one in result.tokenizers) == 2
    assert "plain way" in " ".join(result.notes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("« L’homme », 2 fois – naïve.", ["L’homme", "2", "fois", "naïve"]),
        ("direitos; (actos) “fé”", ["direitos", "actos", "fé"]),
        ("모든 인간은", ["모든", "인간은"]),
        ("प्राप्त है ।", ["प्राप्त", "है"]),
        ("self-evident isn't", ["self-evident", "isn't"]),
        ("", []),
        ("人人生而自由", None),
        ("すべての人間は", None),
        ("มนุษย์ทั้งหลาย", None),
        ("the 人", ["the", "人"]),  # more Latin letters than Chinese
    ],
)
def test_words(text: str, words: list[str] | None) -> None:
    assert words_of(text) == words


def test_no_rate_by_word_without_blanks() -> None:
    result = cut("人人生而自由")
    assert result.words is None
    assert result.tokenizers[0].tokens_per_word is None
    assert "without blanks" in " ".join(result.notes)


def test_a_word_merge_by_merge_in_both_spellings() -> None:
    """Where the blank belongs to the word, the text's spelling and the other; the last step is the text's own pieces."""
    result = cut("box? The box, the box", steps="box")
    bare, blank = result.tokenizers[0].steps or ()
    assert [(bare.word, bare.occurs), (blank.word, blank.occurs)] == [("box", 1), (" box", 2)]
    for word in (bare, blank):
        assert word.steps[0] == Step(None, None, tuple(word.word.replace(" ", "Ġ")))
        for before, after in zip(word.steps, word.steps[1:], strict=False):  # each is one merge of the one before
            assert after.pair is not None
            assert "".join(after.pair) in after.pieces
            assert "".join(before.pieces) == "".join(after.pieces)
            assert len(after.pieces) < len(before.pieces)
    assert blank.steps[-1].pieces == ("Ġbox",)
    assert result.tokenizers[0].tokens[-1] == "Ġbox"
    (only,) = cut("box? The box, the box", "gpt1", steps=" box").tokenizers[0].steps or ()
    assert (only.word, only.occurs) == ("box", 3)


def test_a_word_is_matched_whole() -> None:
    assert spellings("a box, boxes, boxbox box", "box") == [("box", 0), (" box", 2)]
    assert spellings("a.b a", "a") == [("a", 1), (" a", 1)]
    for word in ("cup", "bo", " ", ""):
        with pytest.raises(TextError, match="is not in the text"):
            spellings("a box", word)
    with pytest.raises(TextError, match="w11 and 88 more"):
        spellings(" ".join(f"w{n}" for n in range(100)), "x")


def test_both_cleanings_of_gpt_1() -> None:
    result = cut("The box isn’t big…", "gpt1", splitter="both")
    assert [one.tokenizer.rpartition(" ")[2] for one in result.tokenizers] == ["(plain)", "(spacy)"]
    (cleaning,) = result.cleanings.values()
    assert cleaning.plain.ids != cleaning.spacy.ids
    assert [tuple(piece.id for piece in one.pieces) for one in result.tokenizers] == [cleaning.plain.ids, cleaning.spacy.ids]
    assert cleaning.share > 0
    assert "ftfy" in result.tokenizers[1].description
    (spacy,) = cut("The box isn’t big…", "gpt1", splitter="spacy").tokenizers
    assert spacy.pieces == result.tokenizers[1].pieces
    assert cut("The box isn’t big…", "gpt1", splitter="plain").notes == ()


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"text": ""}, TextError, "empty"),
        ({"steps": "cup"}, TextError, "not in the text"),
        ({"splitter": "spacy"}, TokenizerError, "none of the tokenizers is GPT-1's"),
        ({"splitter": "spacey"}, ModelError, "did you mean spacy"),
    ],
)
def test_refused(options: dict[str, str], error: type[CutawayError], said: str) -> None:
    with pytest.raises(error, match=said):
        cut(**options)  # type: ignore[arg-type]


def test_a_folder_without_a_tokenizer_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="no tokenizer files"):
        open_tokenizers([str(tmp_path)])


def test_a_gguf_file_brings_its_own(tmp_path: Path) -> None:
    """Written by the gguf library, with GPT-2's kind of vocabulary; the ids are the folder's."""
    import gguf
    import numpy as np

    from cutaway.text.vocabulary import read_merges, read_table

    folder = tokenizer_folder("gpt2")
    ids = read_table(folder / "vocab.json")
    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "gpt2")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(sorted(ids, key=ids.__getitem__))
    writer.add_token_types([3 if token.startswith("<|") else 1 for token in sorted(ids, key=ids.__getitem__)])
    writer.add_token_merges([" ".join(pair) for pair in read_merges(folder / "merges.txt")])
    writer.add_tensor("token_embd.weight", np.zeros((len(ids), 4), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    one, other = tokens(TEXT, [str(tmp_path / "tiny.gguf"), str(folder)]).tokenizers
    assert [piece.id for piece in one.pieces] == [piece.id for piece in other.pieces]
