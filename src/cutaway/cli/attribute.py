"""`cutaway attribute`: who contributed to an answer."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli import options, output
from cutaway.cli.progress import counted, load
from cutaway.cli.reading import read_text

if TYPE_CHECKING:
    from rich.console import Console

    from cutaway.trace.attribute import Attribution, Term

BAR = 24  # columns of the largest term

Answer = Annotated[str, typer.Option("--answer", metavar="WORD", help="The answer: a word of one piece.", show_default=False)]
Against = Annotated[str | None, typer.Option("--against", metavar="WORD", help="The other answer; default: the likeliest other token.")]
Method = Annotated[str, typer.Option("--method", help="direct, ablation, occlusion, gradient or integrated.")]
Position = Annotated[int | None, typer.Option("--position", metavar="N", help="Where the answer is read; default: the mask, or the end.")]
Most = Annotated[int, typer.Option("--top", help="How many parts are shown, the largest first; tokens are all shown.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page as well.")]


def command(
    text: options.Text = None,
    file: options.File = None,
    answer: Answer = ...,  # type: ignore[assignment]
    against: Against = None,
    method: Method = "direct",
    model: options.Model = "nano-gpt2",
    position: Position = None,
    top: Most = 20,
    html: Html = None,
    tokenizer: options.Tokenizer = None,
    dtype: options.Dtype = None,
    device: options.Device = "cpu",
    offline: options.Offline = False,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Who contributed to an answer, logit(answer) − logit(other), in nats?

    direct: what each head, MLP, embedding and bias wrote, as the head reads it (pre-norm models). ablation: what is lost when one writes
    nothing. occlusion, gradient, integrated: what each token does. They answer different questions.

    \b
    Example: cutaway attribute "The trophy didn't fit in the suitcase because it was too big. The" --answer trophy --against suitcase
             cutaway attribute "The <mask> was too big." --model nano-roberta --answer trophy --against suitcase --method occlusion
    """
    words = read_text(text, file)
    loaded = load(model, tokenizer=tokenizer, dtype=dtype, device=device, offline=offline)
    with counted(f"{method} with {model}") as tell:
        from cutaway.trace.attribute import attribute

        result = attribute(loaded, words, answer, against, method=method, position=position, progress=tell)
    output.note(*result.notes)
    if html:
        output.page(html, result._repr_html_(), "Attribution")
    if json or out:
        output.as_json(result.to_dict(), out)
    else:
        show(output.console(), result, top)


def show(screen: "Console", result: "Attribution", top: int) -> None:
    from rich.table import Table

    from cutaway.render import facts, number, visible

    what = f"logit({visible(result.first)}) − logit({visible(result.second)})"
    screen.print(f"{what} at token {result.position}: {number(result.whole, signed=True)} nats", style="bold")
    screen.print(f"{result.method}: {result.how}.")
    shown = ordered(result.terms, top)
    largest = max((abs(term.value) for term in shown), default=0) or 1
    table = Table(box=None, pad_edge=False)
    table.add_column("token" if shown[0].position is not None else "part", no_wrap=True)
    table.add_column("nats", justify="right")
    table.add_column("", no_wrap=True)
    for term in shown:
        bar = "█" * round(BAR * abs(term.value) / largest)
        name = f"{term.position} {visible(term.name)}" if term.position is not None else term.name
        table.add_row(name, number(term.value, signed=True), bar, style="" if term.value >= 0 else "dim")
    screen.print(table)
    if len(shown) < len(result.terms):
        rest = sum(term.value for term in result.terms) - sum(term.value for term in shown)
        screen.print(f"{len(result.terms) - len(shown)} smaller parts together: {number(rest, signed=True)}; --top shows more.")
    if result.left is not None:
        screen.print(f"What the terms leave of what they add up to: {number(result.left, signed=True)} nats.")
    if result.edits:
        screen.print("Edits in force: " + "; ".join(result.edits))
    screen.print(facts(result.facts), style="dim")


def ordered(terms: "tuple[Term, ...]", top: int) -> "list[Term]":
    """Tokens in their order; parts by size."""
    if terms[0].position is not None:
        return list(terms)
    return sorted(terms, key=lambda term: -abs(term.value))[:top]
