"""`cutaway about`: what is known of one model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli import options, output

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.tree import Tree

    from cutaway.about import About

BAR = 24  # columns of the whole


def command(
    name: Annotated[str, typer.Argument(show_default=False, help=options.NAMED)],
    context: Annotated[
        int | None, typer.Option("--context", metavar="N", help="Count the FLOPs of a token that reads N positions; default: all.")
    ] = None,
    json: options.Json = False,
    out: options.Out = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a self-contained page.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw the parameters of each part.")] = None,
) -> None:
    """What is known of one model: the size of each part, what a token costs, where it came from. Uses no network.

    Sizes are computed from the configuration; where the files are here, their tensors are counted too.

    \b
    Example: cutaway about gpt2-xl
    """
    from cutaway.about import about

    result = about(name, context=context)
    output.note(*result.notes)
    if html:
        output.write(html, result.page())
    if svg:
        from cutaway import charts

        output.write(svg, charts.svg(result.chart()))
    if json or out:
        output.as_json(result.to_dict(), out)
    elif not (html or svg):
        show(output.console(), result)


def show(screen: "Console", result: "About") -> None:
    from rich.table import Table
    from rich.text import Text

    from cutaway.about import costs, place, verdict

    nano = ", nano: a small model of this project" if result.nano else ""
    released = f", released {result.released.says}" if result.released else ""
    also = f" (also {', '.join(result.aliases)})" if result.aliases else ""
    screen.print(Text(result.name, "bold").append(f"{also}: {result.family}{nano}{released}", "not bold"))
    screen.print(place(result) + ".", style="dim")
    screen.print()
    show_parts(screen, result)
    if said := verdict(result):
        screen.print(said, style="" if result.here and result.here.check.equal else "bold red")
    screen.print()
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, words in costs(result):
        table.add_row(Text(name, "bold"), words)
    screen.print(table)
    section(screen, "where it came from", tree(result))
    if result.trained_on:
        section(screen, "trained on", listed([result.trained_on.says], ""))
    section(screen, "what surprises", listed([quirk.says for quirk in result.quirks], "·"))
    screen.print("\nsources", style="bold")
    for source in dict.fromkeys(sources(result)):
        screen.print(f"  {source}", style="dim", soft_wrap=True)  # whole, to be opened


def section(screen: "Console", title: str, body: "RenderableType") -> None:
    from rich.padding import Padding

    screen.print(f"\n{title}", style="bold")
    screen.print(Padding(body, (0, 0, 0, 2), expand=False))


def listed(lines: list[str], sign: str) -> "Table":
    from rich.table import Table

    table = Table.grid(padding=(0, 1, 0, 0))
    for line in lines:
        table.add_row(*([sign] if sign else []), line)
    return table


def show_parts(screen: "Console", result: "About") -> None:
    from rich.table import Table

    from cutaway.about import stated
    from cutaway.charts import share

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for part in result.parts:
        if part.parameters or part.note:
            bar = "█" * round(BAR * part.share)
            table.add_row(part.name, f"{part.parameters:,}", share(part.share), f"{bar} {part.note}".strip())
    table.add_row("parameters", f"{result.parameters:,}", "", "computed from the configuration", style="bold")
    for said, count in result.variants.items():
        table.add_row(said, f"{count:,}", "", style="dim")
    screen.print(table)
    if said := stated(result):
        screen.print(said[0].upper() + said[1:] + ".")


def tree(result: "About") -> "Tree":
    """The oldest at the top; each line says how it was made from the one above."""
    from rich.text import Text
    from rich.tree import Tree

    first, *others = result.lineage
    root = branch = Tree(Text(f"{first.name} ({first.released})"))
    for one in others:
        line = Text(one.name, "bold" if one is others[-1] else "")
        line.append(f" ({one.released})" if one.released else "", "not bold")
        branch = branch.add(line.append(f"  {one.how.says}" if one.how else "", "not bold dim"))
    for name in result.made_with_it:
        branch.add(Text(name))
    return root


def sources(result: "About") -> list[str]:
    facts = (result.released, result.trained_on, result.stated)
    return [*(fact.source for fact in facts if fact and "://" in fact.source), *result.sources]
