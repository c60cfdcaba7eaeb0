"""RoBERTa cuts text exactly as GPT-2 does, but numbers the pieces by how often they occur and puts `<s>` … `</s>` around a text.

Not here: another set of merges, because there is none.
"""

from pathlib import Path

from cutaway.errors import TokenizerError
from cutaway.text.gpt2 import ByteBPE
from cutaway.text.vocabulary import Format, Vocabulary, read_merges, read_table, read_text

FORMAT = Format(
    specials=("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
    before=("<s>",),
    between=("</s>", "</s>"),
    after=("</s>",),
    # The word that <mask> stands for brings its own space: "She likes <mask> cats" is She, Ġlikes, <mask>, Ġcats.
    swallowing=("<mask>",),
)


def roberta(vocabulary: Vocabulary) -> ByteBPE:
    """RoBERTa: `<s> A </s>`, pairs as `<s> A </s></s> B </s>`; `<mask>` takes the blanks on its left."""
    return ByteBPE(vocabulary, FORMAT, kind="roberta", note="<s> … </s> stand around a text, <mask> takes the blank on its left")


def read_fairseq(folder: Path) -> Vocabulary:
    """The publisher's own three files: GPT-2's two, and `dict.txt`, whose line n (from 0) names the GPT-2 id of RoBERTa's n + 4."""
    by_number = {str(id_): token for token, id_ in read_table(folder / "encoder.json").items()}
    path = folder / "dict.txt"
    first, last = FORMAT.specials[:4], FORMAT.specials[4]
    tokens = list(first)
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        name, _, count = line.partition(" ")
        if not count.isdigit():
            raise TokenizerError(f"Line {number} of {path} is {line!r}", expected="a GPT-2 id and how often it was seen")
        if name.isdigit() and name not in by_number:
            raise TokenizerError(f"Line {number} of {path} names the id {name}, which encoder.json lacks", then="get all three together")
        tokens.append(by_number.get(name, name))
    return Vocabulary({token: id_ for id_, token in enumerate([*tokens, last])}, read_merges(folder / "vocab.bpe"))
