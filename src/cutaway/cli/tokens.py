"""`cutaway tokens`: the pieces in which a model reads a text."""

from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli import options, output
from cutaway.cli.reading import read_text

if TYPE_CHECKING:
    from rich.console import Console

    from cutaway.text import Piece
    from cutaway.tokens import Tokenized

COLOURS = ("black on bright_cyan", "black on bright_yellow", "black on bright_green", "black on bright_magenta")


def command(
    text: options.Text = None,
    file: options.File = None,
    model: Annotated[str, typer.Option("--model", metavar="A,B,…", help="Known names, or folders of tokenizer files.")] = "nano-gpt2",
    steps: Annotated[bool, typer.Option("--steps", help="Show every merge of every word.")] = False,
    offline: options.Offline = False,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """The pieces in which a model reads a text, under one or several tokenizers. Needs no weights in a folder.

    \b
    Example: cutaway tokens "The trophy didn't fit." --model nano-gpt1,nano-gpt2,nano-roberta
    """
    from cutaway.tokens import tokens

    result = tokens(read_text(text, file), [name.strip() for name in model.split(",")], steps=steps, offline=offline)
    output.note(*result.notes)
    if json or out:
        output.as_json(result.to_dict(), out)
        return
    screen = output.console()
    for n, one in enumerate(result.tokenizers):
        if n:
            screen.print()
        show(screen, one)


def show(screen: "Console", one: "Tokenized") -> None:
    from rich.table import Table
    from rich.text import Text

    from cutaway.render import visible

    screen.print(f"{one.tokenizer}: {len(one.pieces)} tokens", style="bold")
    screen.print(f"{one.vocab_size:,} in the vocabulary; {one.description}", style="dim")
    colours = (COLOURS[n % len(COLOURS)] for n in range(len(one.pieces)))
    between = "" if screen.is_terminal else "|"
    screen.print(Text(between).join(Text(visible(piece.text), style=colour) for piece, colour in zip(one.pieces, colours, strict=True)))
    table = Table(box=None, pad_edge=False)
    for name in ("place", "id"):
        table.add_column(name, justify="right")
    for name in ("token", "text", "bytes", "characters"):
        table.add_column(name, overflow="fold")
    for place, (piece, token) in enumerate(zip(one.pieces, one.tokens, strict=True)):
        table.add_row(str(place), str(piece.id), visible(token), visible(piece.text), piece.bytes.hex(" "), characters(piece))
    screen.print(table)
    for step in one.steps or ():
        pieces = " ".join(map(visible, step.pieces))
        if step.pair is None:
            screen.print(pieces, style="bold")
        else:
            screen.print(Text(f"  {pieces}").append(f"   {' + '.join(step.pair)}, merge {step.rank}", "dim"))


def characters(piece: "Piece") -> str:
    start, end = piece.span
    return f"{start}–{end}" if start < end else "added by the format"
