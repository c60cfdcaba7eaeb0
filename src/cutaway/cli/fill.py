"""`cutaway fill`: the likeliest tokens behind each mask in a text."""

from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli import options, output
from cutaway.cli.next import table_of
from cutaway.cli.progress import load
from cutaway.cli.reading import read_text

if TYPE_CHECKING:
    from cutaway.fill import Fill


def command(
    text: options.Text = None,
    file: options.File = None,
    model: options.Model = "nano-roberta",
    k: Annotated[int, typer.Option("-k", help="How many.")] = 5,
    tokenizer: options.Tokenizer = None,
    dtype: options.Dtype = None,
    device: options.Device = "cpu",
    offline: options.Offline = False,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """The likeliest tokens behind each mask in a text: <mask> for RoBERTa, [MASK] for BERT.

    \b
    Example: cutaway fill "The trophy didn't fit in the suitcase because the <mask> was too big."
    """
    words = read_text(text, file)
    loaded = load(model, tokenizer=tokenizer, dtype=dtype, device=device, offline=offline)
    with output.busy(f"reading with {model}"):
        from cutaway.fill import fill

        result = fill(loaded, words, k)
    output.note(*result.notes)
    if json or out:
        output.as_json(result.to_dict(), out)
    else:
        show(result)


def show(result: "Fill") -> None:
    from cutaway.render import facts

    screen = output.console()
    for mask in result.masks:
        before = "".join(result.tokens[max(0, mask.position - 4) : mask.position])
        screen.print(f"token {mask.position}, after {before!r}", style="bold")
        screen.print(table_of(mask.candidates))
    screen.print(facts(result.facts), style="dim")
