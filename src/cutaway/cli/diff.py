"""`cutaway diff`: two trace files compared, tap by tap."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli import options, output

if TYPE_CHECKING:
    from cutaway.trace.compare import Diff


def command(
    a: Annotated[Path, typer.Argument(metavar="A", show_default=False, help="A trace file: cutaway trace TEXT --out FILE.")],
    b: Annotated[Path, typer.Argument(metavar="B", show_default=False, help="Another.")],
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """How far two recorded runs are apart, tap by tap, and where they first part. Exits with 0 in either case.

    \b
    Example: cutaway diff big.safetensors small.safetensors
    """
    from cutaway.trace.compare import diff
    from cutaway.trace.files import load

    with output.busy("comparing"):
        result = diff(load(a), load(b))
    if json or out:
        output.as_json(result.to_dict(), out)
    else:
        show(result)


def show(result: "Diff") -> None:
    from rich.table import Table

    from cutaway.render import facts, number

    screen = output.console()
    table = Table(box=None, pad_edge=False)
    table.add_column("tap", style="bold", overflow="fold")
    for name in ("largest diff.", "mean diff.", "values", "that differ"):
        table.add_column(name, justify="right")
    for row in result.taps:
        style = "dim" if not row.unequal else ""
        differences = (number(row.max_abs_diff), number(row.mean_abs_diff), f"{row.values:,}", f"{row.unequal:,}")
        table.add_row(row.tap, *differences, style=style)
    screen.print(table)
    for line in result.lines:
        screen.print(line, style="yellow")
    for which, name, said in zip(("one", "the other"), result.names, result.facts, strict=True):
        screen.print(f"{which}: {name}: {facts(said)}", style="dim")
    screen.print(result.verdict, style="bold")
