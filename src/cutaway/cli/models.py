"""`cutaway models`: which models there are, how large they are, and where their files lie."""

from typing import TYPE_CHECKING

from cutaway.cli import options, output

if TYPE_CHECKING:
    from cutaway.catalog import Catalog


def command(json: options.Json = False, out: options.Out = None) -> None:
    """The models that have a name here: shipped and published ones. Any other loads from a folder or as owner/name.

    \b
    Example: cutaway models --json
    """
    from cutaway.catalog import catalog

    result = catalog()
    if json or out:
        output.as_json(result.to_dict(), out)
    else:
        show(result)


def show(result: "Catalog") -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("name", "family", "from"):
        table.add_column(name, no_wrap=True)
    for name in ("parameters", "layers", "heads", "context"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("here?")
    for one in result.models:
        source = "this project: nano" if one.nano else (one.repo or "").partition("/")[0]
        sizes = (f"{one.parameters:,}", str(one.layers), str(one.heads), str(one.context))
        table.add_row(one.name, one.family, source, *sizes, "yes" if one.folder else "no")
    screen = output.console()
    screen.print(table)
    aliases = ", ".join(f"{alias} is {one.name}" for one in result.models for alias in one.aliases)
    loose = sum(1 for one in result.models if one.repo and not one.revision)
    screen.print(f"\nOther names: {aliases}; names on the Hub work too.", style="dim")
    screen.print(f"Not pinned: the revisions of {loose} published models; the Hub's main is taken.", style="dim")
    for one in result.models:
        if one.folder:
            screen.print(f"{one.name}: {one.folder}", style="dim", overflow="fold")
