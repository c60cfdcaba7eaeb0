"""A text's tokens on a terminal, at most 100 columns wide: the tokenizers side by side, then each token in full."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from cutaway.text import Piece
    from cutaway.text.cleaning import Cleaning
    from cutaway.tokens import Tokenized, Tokens, WordSteps

COLOURS = ("black on bright_cyan", "black on bright_yellow", "black on bright_green", "black on bright_magenta")
ROWS = 100
EXAMPLES = 8


def show(screen: "Console", result: "Tokens", every: bool = False) -> None:
    """Everything of a short text; of a long one the first tokens, which is said."""
    from rich.text import Text

    from cutaway.tokens import labels

    rows = None if every else ROWS
    short = labels([one.tokenizer for one in result.tokenizers])
    screen.print(side_by_side(result, short))
    for one in result.tokenizers:
        screen.print()
        screen.print(Text(short[one.tokenizer], "bold").append(f"  {one.kind}; {one.description}", "not bold dim"))
        screen.print(coloured(one, rows, colours=screen.color_system is not None and not screen.no_color))
    for name, cleaning in result.cleanings.items():
        screen.print()
        show_cleaning(screen, name, cleaning)
    for one in result.tokenizers:
        screen.print()
        screen.rule(one.tokenizer, align="left")
        for word in one.steps or ():
            show_steps(screen, word, alone=len(one.steps or ()) == 1)
        screen.print(table(one, rows))
        if rows is not None and len(one.pieces) > rows:
            more = len(one.pieces) - rows
            screen.print(f"The first {rows} of {len(one.pieces):,} tokens; {more:,} more with --all, and all with --json.", style="bold")


def side_by_side(result: "Tokens", short: "Mapping[str, str]") -> "Table":
    found = plain_table(("tokenizer",), ("vocabulary", "tokens", "of them added", "tokens/word", "characters/token", "unknown"))
    for one in result.tokenizers:
        rates = (f"{rate:.2f}" if rate is not None else "–" for rate in (one.tokens_per_word, one.characters_per_token))
        found.add_row(short[one.tokenizer], f"{one.vocab_size:,}", f"{len(one.pieces):,}", str(one.added), *rates, f"{one.unknown:,}")
    return found


def plain_table(left: tuple[str, ...], right: tuple[str, ...]) -> "Table":
    """A table without lines. A cell that is too long is folded, never cut."""
    from rich.table import Table

    found = Table(box=None, pad_edge=False, header_style="bold")
    for name in left:
        found.add_column(name, overflow="fold")
    for name in right:
        found.add_column(name, justify="right", overflow="fold")
    return found


def coloured(one: "Tokenized", rows: int | None, colours: bool) -> "Text":
    """The pieces in the text's order, neighbours in different colours, or with a line between them where there are none."""
    from rich.text import Text

    from cutaway.render import visible

    line = Text("" if colours else "|").join(
        Text(visible(piece.text), style=COLOURS[n % len(COLOURS)]) for n, piece in enumerate(one.pieces[:rows])
    )
    return line.append(" …" if rows is not None and len(one.pieces) > rows else "")


def table(one: "Tokenized", rows: int | None) -> "Table":
    from cutaway.render import visible

    found = plain_table((), ("place", "id"))
    for name in ("token", "text", "bytes", "characters"):
        found.add_column(name, overflow="fold")
    for place, (piece, token) in enumerate(zip(one.pieces[:rows], one.tokens[:rows], strict=True)):
        found.add_row(str(place), str(piece.id), visible(token), visible(piece.text), piece.bytes.hex(" "), characters(piece))
    return found


def characters(piece: "Piece") -> str:
    start, end = piece.span
    return f"{start}–{end}" if start < end else "added by the format"


def show_steps(screen: "Console", word: "WordSteps", *, alone: bool) -> None:
    """One spelling of a word, merge by merge; `alone` if a blank before it makes no difference."""
    from rich.text import Text

    from cutaway.render import visible

    blank = "" if alone else " with the blank before it" if word.word.startswith(" ") else " without a blank before it"
    times = f"{word.occurs:,} × in this text" if word.occurs else "not so in this text"
    screen.print(f"{visible(word.word)}{blank} ({times})", style="bold")
    width = max(len(" ".join(map(visible, step.pieces))) for step in word.steps)
    for step in word.steps:
        pieces = " ".join(map(visible, step.pieces))
        line = Text(f"  {pieces}")
        if step.pair is not None:
            line.append(f"{' ' * (min(width, 50) - len(pieces))}   {' + '.join(map(visible, step.pair))}, merge {step.rank:,}", "dim")
        screen.print(line)
    screen.print()


def show_cleaning(screen: "Console", name: str, cleaning: "Cleaning") -> None:
    """How much GPT-1's two ways differ on this text, and where first."""
    from cutaway.render import visible

    plain, spacy = cleaning.plain, cleaning.spacy
    screen.print(f"{name}: the plain cleaning against the publisher's (ftfy and spaCy)", style="bold")
    screen.print(
        f"{len(plain.ids):,} against {len(spacy.ids):,} tokens; {plain.alone:,} and {spacy.alone:,} of them have no equal in the other: "
        f"{cleaning.share:.1%} differ, in {len(cleaning.differences):,} places."
    )
    found = plain_table(("text", "plain", "ftfy and spaCy"), ())
    for one in cleaning.differences[:EXAMPLES]:
        found.add_row(visible(one.text), *(" ".join(map(visible, way)) or "nothing" for way in (one.plain, one.spacy)))
    if cleaning.differences:
        screen.print(found)
    if len(cleaning.differences) > EXAMPLES:
        screen.print(f"The first {EXAMPLES} places; --json has all.", style="dim")
