"""BERT takes from each word the longest piece that its vocabulary knows, then the longest that continues it (`##ing`), to the end.

Not here: the matching itself, which is the tokenizers library's, and learning such a vocabulary.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cutaway.errors import TokenizerError
from cutaway.text.foreign import ForeignTokenizer
from cutaway.text.vocabulary import read_json, read_text

SPECIALS = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
NEEDED = ("unk_token", "cls_token", "sep_token")
_CAPITAL = re.compile("[A-Z]")


def read_wordpiece(folder: Path) -> ForeignTokenizer:
    """BERT's tokenizer from `vocab.txt`, whose line n (from 0) is the token n, and `tokenizer_config.json` where there is one.

    `[CLS] A [SEP]`, pairs as `[CLS] A [SEP] B [SEP]`. Without `do_lower_case` in the configuration a vocabulary that has no capitals
    reads lower case; one that has some is refused, for the ids depend on it. Raises TokenizerError.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    path, config = folder / "vocab.txt", _Config(folder / "tokenizer_config.json")
    ids = read_lines(path)
    names = {key: config.token(key, name) for key, name in SPECIALS.items()}
    if missing := [names[key] for key in NEEDED if names[key] not in ids]:
        raise TokenizerError(f"{path} lacks {' '.join(missing)}", expected="BERT's control tokens, each on a line")
    unknown, first, last = (names[key] for key in NEEDED)
    lower = config.flag("do_lower_case")
    if lower is None:
        lower = not any(_CAPITAL.search(token) for token in ids if token not in names.values() and not token.startswith("["))
        if not lower:
            raise TokenizerError(
                f"{path} has tokens with capitals, and nothing says whether a text is put into lower case",
                expected="do_lower_case in tokenizer_config.json",
                then="get that file from where vocab.txt came from",
            )
    engine = Tokenizer(models.WordPiece(ids, unk_token=unknown))
    engine.normalizer = normalizers.BertNormalizer(
        lowercase=lower,
        strip_accents=config.flag("strip_accents"),
        handle_chinese_chars=config.flag("tokenize_chinese_chars") is not False,
    )
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.post_processor = processors.BertProcessing((last, ids[last]), (first, ids[first]))
    engine.decoder = decoders.WordPiece()
    engine.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names.values() if name in ids])
    return ForeignTokenizer(path, engine.to_str())


def read_lines(path: Path) -> dict[str, int]:
    """Ids by token, from a file with a token on each line."""
    # Not splitlines(): it would also cut at characters that a token may be.
    lines = [line.removesuffix("\r") for line in read_text(path).removesuffix("\n").split("\n")]
    ids: dict[str, int] = {}
    for id_, token in enumerate(lines):
        if ids.setdefault(token, id_) != id_:
            raise TokenizerError(f"{path} has {token!r} on lines {ids[token] + 1} and {id_ + 1}", expected="each token once")
    return ids


class _Config:
    """What a tokenizer_config.json says; one that is not there says nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.given: Mapping[str, Any] = read_json(path) if path.exists() else {}

    def flag(self, key: str) -> bool | None:
        value = self.given.get(key)
        if value is not None and not isinstance(value, bool):
            raise TokenizerError(f"{self.path} has {key} = {value!r}", expected="true, false or null")
        return value

    def token(self, key: str, default: str) -> str:
        value = self.given.get(key) or default
        name = value.get("content") if isinstance(value, dict) else value
        if not isinstance(name, str):
            raise TokenizerError(f"{self.path} has {key} = {value!r}", expected="a token")
        return name
