"""`cutaway lens`: what the model's own head reads in the residual stream, floor by floor."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli import options, output
from cutaway.cli.progress import load
from cutaway.cli.reading import read_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from cutaway.trace.lens import Column, Lens, Reading

MOST_ROWS = 48  # positions of one grid
MOST_FLOORS = 9  # columns of one grid: what 100 columns hold
CELL = 8  # signs of a token in it

Position = Annotated[str | None, typer.Option("--position", metavar="WORD|N", help="Where to read: a word's last token, or a number.")]
Answer = Annotated[str | None, typer.Option("--answer", metavar="WORD", help="A word of one piece; default: what the model says there.")]
Every = Annotated[bool, typer.Option("--all", help="Every position: the likeliest token at each floor.")]
Most = Annotated[int, typer.Option("-k", help="How many tokens of each floor.")]
Seed = Annotated[int, typer.Option("--seed", help="Of the control's shuffle.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page as well.")]


def command(
    text: options.Text = None,
    file: options.File = None,
    model: options.Model = "nano-gpt2",
    position: Position = None,
    answer: Answer = None,
    every: Every = False,
    k: Most = 3,
    seed: Seed = 1,
    html: Html = None,
    tokenizer: options.Tokenizer = None,
    dtype: options.Dtype = None,
    device: options.Device = "cpu",
    offline: options.Offline = False,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """What the model's own remaining head reads in the residual stream after each floor.

    Readable by the head is not the same as decided. A masked-word model is read at its mask.

    \b
    Example: cutaway lens "The trophy didn't fit in the suitcase because it was too big. The"
             cutaway lens "The <mask> was too big." --model nano-roberta --answer trophy
    """
    words = read_text(text, file)
    loaded = load(model, tokenizer=tokenizer, dtype=dtype, device=device, offline=offline)
    with output.busy(f"reading with {model}"):
        from cutaway.trace.lens import lens

        places = asked(position, len(loaded.pieces(words)), every)
        result = lens(loaded, words, positions=places, answer=answer, k=k, seed=seed)
    output.note(*result.notes)
    if html:
        output.page(html, result._repr_html_(), "Lens")
    if json or out:
        output.as_json(result.to_dict(), out)
    else:
        (grid if every else show)(output.console(), result)


def asked(position: str | None, length: int, every: bool) -> int | str | range | None:
    if every:
        if length > MOST_ROWS:
            output.note(f"The last {MOST_ROWS} of {length} positions are read; --position N reads another.")
        return range(max(0, length - MOST_ROWS), length)
    return int(position) if position and position.lstrip("-").isdigit() else position


def show(screen: "Console", result: "Lens") -> None:
    from cutaway.render import facts, number, visible

    for column in result.columns:
        copying = "; no mask stands there, so the head has but to copy" if column.copying else ""
        screen.print(f"token {column.position}, {visible(column.token)}: readable by the {result.head}{copying}", style="bold")
        screen.print(table(column))
        answer = f"{visible(column.answer.text)} (probability {number(column.answer.probability)})"
        screen.print(f"The answer is {answer}: its rank and probability p. KL: of the last floor to this one, in nats.")
        screen.print(f"Shuffled: the head's rows shuffled {result.shuffles} times (seed {result.seed}): middle rank, mean p, mean KL.")
    if result.edits:
        screen.print("Edits in force: " + "; ".join(result.edits))
    screen.print(facts(result.facts), style="dim")


def table(column: "Column") -> "Table":
    from rich.table import Table

    from cutaway.render import visible

    found = Table(box=None, pad_edge=False)
    found.add_column("after", no_wrap=True)
    found.add_column("likeliest", no_wrap=True, overflow="ellipsis", max_width=44)
    for name in ("rank", "p", "KL", "shuffled: rank", "p", "KL"):
        found.add_column(name, justify="right")
    for floor in column.floors:
        top = "  ".join(f"{visible(one.text)} {rounded(one.probability)}" for one in floor.top)
        found.add_row(floor.name, top, *cells(floor.answer), *cells(floor.shuffled))
    return found


def cells(reading: "Reading") -> list[str]:
    return [f"{reading.rank:,}", rounded(reading.probability), f"{reading.kl:.2f}"]


def rounded(p: float) -> str:
    return f"{p:.2f}" if p >= 0.01 else "<0.01"


def grid(screen: "Console", result: "Lens") -> None:
    """A row a position, a column a floor: the likeliest token; bold where it is the last floor's."""
    from rich.table import Table
    from rich.text import Text

    from cutaway.render import facts, visible

    names = [floor.name for floor in result.columns[0].floors]
    shown = sorted({round(n * (len(names) - 1) / (min(MOST_FLOORS, len(names)) - 1)) for n in range(min(MOST_FLOORS, len(names)))})
    found = Table(box=None, pad_edge=False)
    found.add_column("token", style="dim", no_wrap=True)
    for n in shown:
        found.add_column(names[n].replace("block ", ""), no_wrap=True)
    for column in result.columns:
        last = column.floors[-1].top[0].id
        row = [Text(visible(top.text)[:CELL], "bold" if top.id == last else "") for top in (column.floors[n].top[0] for n in shown)]
        found.add_row(f"{column.position} {visible(column.token)[:10]}", *row)
    copying = ", which has but to copy where no mask stands" if any(column.copying for column in result.columns) else ""
    screen.print(f"The token that the {result.head} reads first after each floor{copying}; bold: as after the last", style="bold")
    screen.print(found)
    if len(shown) < len(names):
        screen.print(f"{len(shown)} of {len(names)} floors are shown; --json has all.")
    screen.print(facts(result.facts), style="dim")
