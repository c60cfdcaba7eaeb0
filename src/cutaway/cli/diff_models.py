"""`cutaway diff-models`: what separates two models."""

from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli import options, output

if TYPE_CHECKING:
    from rich.table import Table

    from cutaway.diff_models import ModelDifference

STYLES = {"+": "green", "-": "red", "@": "cyan"}


def command(
    a: Annotated[str, typer.Argument(show_default=False, help=options.NAMED)],
    b: Annotated[str, typer.Argument(show_default=False, help="Another one.")],
    fields: Annotated[bool, typer.Option("--fields", help="Only the fields and the sizes, not the code.")] = False,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """What separates two models: the fields that differ, the size of each part, and the lines of code.

    Uses no network and no weights. The code is that of `cutaway source`.

    \b
    Example: cutaway diff-models gpt1 roberta
    Example: cutaway diff-models gpt2 gpt2-xl --fields
    """
    from cutaway.diff_models import diff_models

    result = diff_models(a, b)
    if json or out:
        output.as_json(result.to_dict(), out)
    else:
        show(result, code=not fields)


def show(result: "ModelDifference", *, code: bool) -> None:
    screen = output.console()
    screen.print(result.verdict, style="bold")
    if result.fields:
        screen.print()
        screen.print(fields_of(result))
        screen.print()
        screen.print(parts_of(result))
    if code and result.code:
        screen.print()
        for line in result.code.splitlines():
            screen.print(line, style=STYLES.get(line[:1], ""), soft_wrap=True)


def fields_of(result: "ModelDifference") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("field", no_wrap=True, style="bold")
    table.add_column(result.a, overflow="fold")
    table.add_column(result.b, overflow="fold")
    table.add_column("what it means", style="dim")
    for field in result.fields:
        table.add_row(field.name, said(field.a), said(field.b), field.means)
    return table


def parts_of(result: "ModelDifference") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("parameters", no_wrap=True, style="bold")
    for name in (result.a, result.b):
        table.add_column(name, justify="right", overflow="fold")
    for part in result.parts:
        table.add_row(part.name, f"{part.a:,}", f"{part.b:,}")
    table.add_row("all", f"{sum(part.a for part in result.parts):,}", f"{sum(part.b for part in result.parts):,}")
    return table


def said(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else f"{value:,}" if isinstance(value, int) else str(value)
