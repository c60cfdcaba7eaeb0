"""`cutaway source`: one model as one plain file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from cutaway.cli import options, output


def command(
    name: Annotated[str, typer.Argument(show_default=False, help=options.NAMED)],
    json: options.Json = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write it to a file instead.")] = None,
) -> None:
    """One model as one plain Python file, which needs torch alone. Uses no network and no weights.

    The file is the code that runs here, with all that this model lacks left out.

    \b
    Example: cutaway source gpt2
    Example: cutaway source ./folder --out model.py
    """
    from cutaway.source import source

    result = source(name)
    if json:
        output.as_json(result.to_dict(), out)
    elif out:
        output.write(out, result.text)
    else:
        show(result.text)


def show(text: str) -> None:
    """As it is, to be piped into a file; in colours on a terminal."""
    if not sys.stdout.isatty():
        sys.stdout.write(text)
        return
    from rich.syntax import Syntax

    output.console().print(Syntax(text, "python", background_color="default").highlight(text), soft_wrap=True, end="")
