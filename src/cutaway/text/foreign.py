"""Other models come with one `tokenizer.json` that describes the whole path from text to ids; the `tokenizers` library follows it.

Not here: a merge-by-merge view, because the file may describe something other than merges.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutaway.errors import TokenizerError
from cutaway.text.bpe import Step, token_bytes
from cutaway.text.vocabulary import Piece, Vocabulary, is_control, placed, read_json, read_text, whole

if TYPE_CHECKING:
    from tokenizers import Encoding


_BYTE = re.compile("<0x([0-9A-F]{2})>")  # how SentencePiece writes a byte of a character that it has no token for


class ForeignTokenizer:
    """Any `tokenizer.json`, followed to the letter.

    `source` is its content, where it does not come from a file of its own; `path` then says where it does come from.
    """

    kind: str

    def __init__(self, path: Path, source: str | None = None) -> None:
        from tokenizers import Tokenizer

        source = read_text(path) if source is None else source
        try:
            self._engine, self._strict = Tokenizer.from_str(source), Tokenizer.from_str(source)
        except Exception as error:  # the library raises nothing more exact
            raise TokenizerError(f"{path} is not a tokenizer that the tokenizers library can read: {error}") from error
        self._strict.encode_special_tokens = True  # takes a control token's name for the text that it is
        for engine in (self._engine, self._strict):
            engine.no_padding()
            engine.no_truncation()  # a text that does not fit is for the model to refuse, not for the tokenizer to cut
        self.vocab_size: int = 1 + max(self._engine.get_vocab(with_added_tokens=True).values())
        added = self._engine.get_added_tokens_decoder()
        self.specials: Mapping[str, int] = {token.content: id_ for id_, token in sorted(added.items()) if token.special}
        self._byte_level = type(self._engine.decoder).__name__ == "ByteLevel"
        self._sentencepiece = bool(getattr(self._engine.model, "byte_fallback", False))  # no other engine has bytes to fall back on
        model = type(self._engine.model).__name__
        self.kind = "wordpiece" if model == "WordPiece" else "tokenizers"
        self.description = f"{model} as {path.name} describes it, run by the tokenizers library"

    def __repr__(self) -> str:
        return f"<{self.kind} tokenizer, {self.vocab_size:,} tokens>"

    def encode(self, text: str, *, wrap: bool = False, allow_special: bool = False) -> list[int]:
        return self._encoding(whole(text), wrap, allow_special).ids

    def encode_pair(self, a: str, b: str) -> list[int]:
        """BERT's `[CLS] A [SEP] B [SEP]`, as the file has it; other models' files describe a format that they were not trained on."""
        if self.kind != "wordpiece":
            raise TokenizerError("A foreign tokenizer has no format for a pair of texts here", then="use RoBERTa or BERT")
        return self._strict.encode(whole(a), whole(b)).ids

    def encode_words(self, words: Sequence[str]) -> list[int]:
        return [id_ for i, word in enumerate(words) for id_ in self.encode(f" {word}" if i else word)]

    def decode(self, ids: Sequence[int], *, keep_special: bool = True) -> str:
        return self._engine.decode([self._checked(id_) for id_ in ids], skip_special_tokens=not keep_special)

    def token(self, id: int) -> str:  # noqa: A002
        if (token := self._engine.id_to_token(self._checked(id))) is None:
            raise TokenizerError(f"The vocabulary has a gap at {id}")
        return token

    def id(self, token: str) -> int | None:
        return self._engine.token_to_id(token)

    def pieces(self, text: str, *, wrap: bool = False, allow_special: bool = False) -> list[Piece]:
        joined = whole(text)
        encoding = self._encoding(joined, wrap, allow_special)
        found: list[Piece] = []
        border = 0
        for id_, span, added in zip(encoding.ids, encoding.offsets, encoding.special_tokens_mask, strict=True):
            start, end = (border, border) if added and span == (0, 0) else span
            border = end if not added else len(joined)
            raw = self._bytes(id_, encoding.tokens[len(found)])
            found.append(Piece(id_, raw.decode("utf-8", "replace"), raw, (start, end)))
        return placed(found, text)

    def steps(self, text: str) -> Iterator[Step]:
        if self.kind == "wordpiece":
            why = "WordPiece merges nothing: it takes the longest piece that fits, again and again"
        else:
            why = "A foreign tokenizer shows no merges"
        raise TokenizerError(why, then="use a tokenizer of GPT-1, GPT-2 or RoBERTa")

    def _encoding(self, text: str, wrap: bool, allow_special: bool) -> "Encoding":
        return (self._engine if allow_special else self._strict).encode(text, add_special_tokens=wrap)

    def _bytes(self, id_: int, token: str) -> bytes:
        if self._byte_level and token not in self.specials:
            return token_bytes(token)
        if not self._sentencepiece or token in self.specials:
            return self._engine.decode([id_], skip_special_tokens=False).encode()
        byte = _BYTE.fullmatch(token)
        return bytes.fromhex(byte[1]) if byte else token.replace("▁", " ").encode()

    def _checked(self, id_: int) -> int:
        if not 0 <= id_ < self.vocab_size:
            raise TokenizerError(f"The tokenizer has no token {id_}", expected=f"an id from 0 to {self.vocab_size - 1}")
        return id_


def known_vocabulary(path: Path) -> tuple[Vocabulary, bool] | None:
    """If a `tokenizer.json` says no more than GPT-1, GPT-2 or RoBERTa do: its vocabulary, and whether it wraps a text as RoBERTa does."""
    file = read_json(path)
    if _says_more(file):
        return None
    model: dict[str, Any] = file["model"]  # type: ignore[assignment]
    try:
        merges = [(left, right) for left, right in (merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"])]
        return Vocabulary(model["vocab"] | _added(file), merges), _part(file, "post_processor").get("type") == "RobertaProcessing"
    except TokenizerError:
        return None  # gaps between ids, say: the library does not mind them


def says_more(path: Path) -> bool:
    """Does a `tokenizer.json` describe what a vocabulary and merges alone do not: another split, another normalizing, other tokens?"""
    return _says_more(read_json(path))


def _says_more(file: Mapping[str, Any]) -> bool:
    norm, split, wrap, model = (_part(file, name) for name in ("normalizer", "pre_tokenizer", "post_processor", "model"))
    shape = (model.get("type"), norm.get("type"), split.get("type"), model.get("end_of_word_suffix") or "")
    if shape not in (("BPE", None, "ByteLevel", ""), ("BPE", "BertNormalizer", "BertPreTokenizer", "</w>")):
        return True
    own_ways = (
        model.get("dropout") or model.get("continuing_subword_prefix") or wrap.get("special_tokens"),
        split.get("add_prefix_space") or not split.get("use_regex", True),
        not norm.get("lowercase", True),
    )
    return any(own_ways) or not all(map(is_control, _added(file)))


def _part(file: Mapping[str, Any], name: str) -> dict[str, Any]:
    return file.get(name) or {}


def _added(file: Mapping[str, Any]) -> dict[str, int]:
    return {token["content"]: token["id"] for token in file.get("added_tokens") or []}
