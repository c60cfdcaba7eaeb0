"""`cutaway tokens --cost`: what a language costs, in tokens, on a terminal of 100 columns and as a chart."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cutaway.cli import output
from cutaway.cli.progress import downloads
from cutaway.cli.reading import decoded, file_bytes
from cutaway.cli.tokens_view import plain_table
from cutaway.errors import CutawayError, TextError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from cutaway.lab.e01_articles import Translation
    from cutaway.lab.e01_cost import Cost, Priced, Row, Value

FACTORS = ("translation_part", "tokenizer_part", "tokens_ratio")


def run(
    given: Sequence[str],
    models: Sequence[str],
    splitter: str | None,
    reference: str,
    seed: int,
    *,
    offline: bool,
    json: bool,
    out: Path | None,
    charts: Sequence[Path | None],
) -> None:
    """Measure, draw, print."""
    from cutaway.lab.e01_cost import cost
    from cutaway.tokens import open_tokenizers

    wanted = [path for path in charts if path]
    for path in wanted:
        check_chart(path)
    texts = list(read(given))
    with downloads() as progress:
        tokenizers, notes = open_tokenizers(models, splitter=splitter, offline=offline, progress=progress)
    with output.busy("counting every article under every tokenizer"):
        result = cost(texts, tokenizers, reference=reference, seed=seed)
    output.note(*notes, *(NANO.format(one.name) for one in tokenizers if one.name.startswith("nano-")))
    draw(result, wanted)
    if json or out:
        output.as_json(result.to_dict(), out)
    else:
        show(output.console(), result)


NANO = "{}'s vocabulary was learned from a small English world; for a published model's figures: --model gpt2"


def read(given: Sequence[str]) -> "Iterator[Translation]":
    """The texts, named for their languages; without a name the data set that CUTAWAY_DATA has."""
    from cutaway.lab.e01_articles import translation

    for path in [path for name in given or ["udhr"] for path in files(name)]:
        text = decoded(file_bytes(path), str(path))
        if not text.strip():
            raise TextError(f"{path} is empty", expected="a text in the language that its name says")
        yield translation(path.stem, text)


def files(name: str) -> list[Path]:
    """A file; the .txt files of a folder; or those of a data set, where there is no file of that name."""
    from cutaway.lab import data

    path = Path(name)
    if path.is_dir():
        if found := sorted(path.glob("*.txt")):
            return found
        raise TextError(f"{path} holds no .txt files", expected="one for each language, named for it: eng.txt, por_PT.txt …")
    if path.exists():
        return [path]
    if name in data.KNOWN:
        return data.find(name)
    raise TextError(f"There is no file {name}", expected=f"a text file, a folder of them, or a data set: {', '.join(data.KNOWN)}")


def check_chart(path: Path) -> None:
    """Before anything is computed."""
    if path.suffix.lower() not in (".html", ".svg"):
        raise CutawayError(f"{path} is no kind of chart that is drawn here", expected="a name that ends in .html or .svg")


def draw(result: "Cost", wanted: Sequence[Path]) -> None:
    if not wanted:
        return
    from cutaway.charts import write_chart
    from cutaway.lab.e01_chart import chart

    with output.busy("drawing"):
        drawn = chart(result)
        for path in wanted:
            write_chart(drawn, path, "What a language costs")
    output.note(*(f"Wrote {path}" for path in wanted))


def show(screen: "Console", result: "Cost") -> None:
    from cutaway.tokens import labels

    short = labels([one.tokenizer for one in result.tokenizers])
    for one in result.tokenizers:
        screen.rule(short[one.tokenizer], align="left")
        screen.print(f"{one.vocab_size:,} in the vocabulary; {one.description}", style="dim")
        screen.print(factors(one, result.reference))
        screen.print()
        screen.print(rates(one, result))
        for line in pairs(one):
            screen.print(f"\n{line}")
        screen.print()
    for note in result.notes:
        screen.print(note, style="dim")


def factors(one: "Priced", reference: str) -> "Table":
    """The two factors and their product, against the reference."""
    parts = ("bytes: the\ntranslation's part", "× tokens a byte:\nthe tokenizer's", f"= tokens,\n{reference} = 1")
    table = plain_table(("language",), ("n", "tokens", "tokens\nper byte", *parts))
    for row in one.rows:
        counted = (str(row.n), f"{row.counts['tokens']:,}", f"{row.values['tokens_per_byte'].value:.3f}")
        table.add_row(row.language, *counted, *(ranged(row.values[key]) for key in FACTORS), style=style(row, reference))
    return table


def rates(one: "Priced", result: "Cost") -> "Table":
    """What follows from it: per character and word, and what a context holds."""
    unknown = any(row.counts["unknown"] for row in one.rows)
    context, same = f"{result.context:,}", f"{result.reference} = 1"
    columns = ["bytes\n/char.", "tokens\n/char.", "tokens\n/word", "one-token\nwords"]
    columns += [f"chars. in\n{context}", f"words in\n{context}", f"context,\n{same}", f"price,\n{same}"]
    table = plain_table(("language",), (*columns, *["unknown\ntokens"] * unknown))
    for row in one.rows:
        cells = [number(row, key, form) for key, form in RATES] + [number(row, "unknown_tokens", ".1%")] * unknown
        table.add_row(row.language, *cells, style=style(row, result.reference))
    return table


RATES = (
    ("bytes_per_character", ".2f"),
    ("tokens_per_character", ".2f"),
    ("tokens_per_word", ".2f"),
    ("one_token_words", ".0%"),
    ("context_characters", ",.0f"),
    ("context_words", ",.0f"),
    ("context_ratio", ".2f"),
    ("price_ratio", ".2f"),
)


def number(row: "Row", key: str, form: str) -> str:
    return format(row.values[key].value, form) if key in row.values else "–"


def ranged(value: "Value") -> str:
    if value.low is None or value.high is None:
        return f"{value.value:.2f} no interval"
    if value.low == value.value == value.high:
        return f"{value.value:g}"  # the reference against itself
    return f"{value.value:.2f} [{value.low:.2f}–{value.high:.2f}]"


def style(row: "Row", reference: str) -> str:
    return "dim" if row.language == reference else "bold cyan" if row.language.startswith(("por", "pt")) else ""


def pairs(one: "Priced") -> Iterator[str]:
    """Two texts of one language: what lies between them is the translators'."""
    for pair in one.pairs:
        bytes_, tokens = (ranged(pair.values[key]) for key in ("translation_part", "tokens_ratio"))
        yield (
            f"{pair.other} against {pair.one}: bytes × {bytes_}, tokens × {tokens}. Two texts of one "
            "language: a difference of this size can be the translators', or the script's, alone."
        )
