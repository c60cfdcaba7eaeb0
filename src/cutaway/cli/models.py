"""`cutaway models`: which models there are, how large they are, where their files lie, and how one is taken away again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli import options, output

if TYPE_CHECKING:
    from cutaway.catalog import Catalog


def command(
    json: options.Json = False,
    out: options.Out = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a self-contained page.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw what the models are made of.")] = None,
    remove: Annotated[str | None, typer.Option("--remove", metavar="NAME", help="Delete a fetched model from the Hub's cache.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
) -> None:
    """The models that have a name here: published and shipped ones. Any other loads from a folder or as owner/name.

    \b
    Example: cutaway models --html models.html
    """
    if remove is not None:
        forget(remove, yes)
        return
    from cutaway.catalog import catalog

    result = catalog()
    if html:
        output.write(html, result.page())
    if svg:
        from cutaway import charts

        output.write(svg, charts.svg(result.chart()))
    if json or out:
        output.as_json(result.to_dict(), out)
    elif not (html or svg):
        show(result)


def forget(name: str, yes: bool) -> None:
    from cutaway import catalog
    from cutaway.weights.fetch import cached_size
    from cutaway.weights.hub.download import readable

    repo = catalog.fetched(name)
    size = cached_size(repo)
    if size and not yes:
        typer.confirm(f"Delete {repo} from the Hub's cache, {readable(size)}?", abort=True, err=True)
    output.note(f"Deleted {repo}: {readable(catalog.forget(name))} freed")


def show(result: "Catalog") -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("name", "family", "released"):
        table.add_column(name, no_wrap=True)
    for name in ("parameters", "layers", "heads", "width", "context"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("here?")
    for one in result.models:
        sizes = (f"{one.parameters:,}", *(str(size) for size in (one.layers, one.heads, one.width, one.context)))
        table.add_row(one.name, f"{one.family}{' nano' if one.nano else ''}", one.released or "–", *sizes, "yes" if one.folder else "no")
    screen = output.console()
    screen.print(table)
    screen.print()
    for line in remarks(result):
        screen.print(line, style="dim", overflow="fold")


def remarks(result: "Catalog") -> list[str]:
    aliases = ", ".join(f"{alias} is {one.name}" for one in result.models for alias in one.aliases)
    loose = sum(1 for one in result.models if one.repo and not one.revision)
    return [
        "Parameters are computed from the configurations; more of one model: cutaway about NAME.",
        f"Other names: {aliases}; names on the Hub work too. nano: trained by this project, on a small English world.",
        f"Not pinned: the revisions of {loose} published models; the Hub's main is taken.",
        *(
            f"{one.family} ({one.released[:4]}) has no name here: any loads from a folder (model_type {one.model_type} in config.json) "
            f"or a GGUF file ({one.architecture})."
            for one in result.relatives
        ),
        *(f"{one.name}: {one.folder}" for one in result.models if one.folder),
    ]
