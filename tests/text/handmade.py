"""Vocabularies small enough to follow by hand, and how to write them as a publisher would."""

import json
from collections.abc import Sequence
from pathlib import Path

from cutaway.text.bpe import SYMBOL_TO_BYTE

MERGES = [("l", "o"), ("lo", "w"), ("e", "r"), ("Ġ", "low"), ("#", "#"), ("Ã", "©"), ("ð", "Ł"), ("a", "a"), ("aa", "aa")]
ROBERTA_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]
GPT1_MERGES = [("l", "o"), ("lo", "w</w>"), ("lo", "w"), ("e", "r</w>"), ("low", "er</w>"), ("#", "#</w>")]
GPT1_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,'#-\n"


def write(
    folder: Path, tokens: Sequence[str], merges: Sequence[tuple[str, str]], names: tuple[str, str] = ("vocab.json", "merges.txt")
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(json.dumps({token: i for i, token in enumerate(tokens)}), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / names[1]).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    return folder


def byte_tokens(merges: Sequence[tuple[str, str]]) -> list[str]:
    return [*SYMBOL_TO_BYTE, *dict.fromkeys(left + right for left, right in merges)]
