"""`cutaway next`: the likeliest tokens after a text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli import options, output
from cutaway.cli.progress import load
from cutaway.cli.reading import read_text

if TYPE_CHECKING:
    from rich.table import Table

    from cutaway.predict import NextToken
    from cutaway.sample import Candidate

BAR = 40  # columns of a probability of 1


def command(
    text: options.Text = None,
    file: options.File = None,
    model: options.Model = "nano-gpt2",
    k: Annotated[int, typer.Option("-k", help="How many.")] = 10,
    tokenizer: options.Tokenizer = None,
    dtype: options.Dtype = None,
    device: options.Device = "cpu",
    offline: options.Offline = False,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """The likeliest next tokens after a text.

    \b
    Example: cutaway next "The trophy didn't fit in the suitcase because the trophy was too"
    """
    words = read_text(text, file)
    loaded = load(model, tokenizer=tokenizer, dtype=dtype, device=device, offline=offline)
    with output.busy(f"reading with {model}"):
        result = loaded.next_token(words, k)
    output.note(*result.notes)
    if json or out:
        output.as_json(result.to_dict(), out)
    else:
        show(result)


def show(result: "NextToken") -> None:
    from cutaway.render import facts

    screen = output.console()
    screen.print(table_of(result.candidates))
    screen.print(facts(result.facts), style="dim")


def table_of(candidates: Sequence["Candidate"]) -> "Table":
    from rich.table import Table

    from cutaway.render import number, visible

    table = Table(box=None, pad_edge=False)
    table.add_column("token", style="bold", no_wrap=True)
    for name in ("id", "probability", "logit"):
        table.add_column(name, justify="right")
    table.add_column("", width=BAR, no_wrap=True)
    for one in candidates:
        bar = "█" * round(BAR * one.probability)
        table.add_row(visible(one.text), str(one.id), number(one.probability), f"{one.logit:.3f}", bar)
    return table
