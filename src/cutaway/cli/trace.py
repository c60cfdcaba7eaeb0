"""`cutaway trace`: every tap of one run, as a table of what each holds, or written to a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli import options, output
from cutaway.cli.progress import load
from cutaway.cli.reading import read_text

if TYPE_CHECKING:
    from cutaway.model import Model
    from cutaway.trace.files import SavedTrace
    from cutaway.trace.summary import Summary

Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="TAP", help='Only these taps; "*" stands for anything. May be repeated. Default: every tap.'),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write a trace file (safetensors) instead; see cutaway diff.")]


def command(
    text: options.Text = None,
    file: options.File = None,
    model: options.Model = "nano-gpt2",
    keep: Keep = None,
    out: Out = None,
    tokenizer: options.Tokenizer = None,
    dtype: options.Dtype = None,
    device: options.Device = "cpu",
    offline: options.Offline = False,
    json: options.Json = False,
) -> None:
    """Every tap of one run: its shape and what it holds in a few numbers; or all of it, in a file.

    \b
    Example: cutaway trace "The trophy didn't fit in the suitcase because it was too big."
             cutaway trace "The trophy" --keep "blocks.*.attn.pattern" --out patterns.safetensors
    """
    words = read_text(text, file)
    loaded = load(model, tokenizer=tokenizer, dtype=dtype, device=device, offline=offline)
    output.note(*loaded.notes_on(words))
    result = saved(loaded, words, keep or ["*"], out) if out else summed_up(loaded, words, keep or ["*"])
    if json:
        output.as_json(result.to_dict())
    else:
        show(result)


def saved(model: "Model", text: str, keep: list[str], out: Path) -> "SavedTrace":
    from cutaway.trace.files import chosen, save, size_of

    with output.busy(f"reading with {model.name}") as hush:
        trace = model.trace(text)
        hush()
        output.note(f"{len(chosen(trace, keep))} taps take {size_of(trace, keep) / 1e6:,.1f} MB.")
    with output.busy(f"writing {out}"):
        return save(trace, out, keep)


def summed_up(model: "Model", text: str, keep: list[str]) -> "Summary":
    with output.busy(f"reading with {model.name}"):
        from cutaway.trace.summary import summary

        return summary(model.trace(text), keep)


def show(result: "SavedTrace | Summary") -> None:
    from rich.table import Table

    from cutaway.render import facts, number
    from cutaway.trace.summary import Summary

    screen = output.console()
    if not isinstance(result, Summary):
        screen.print(f"{result.path}: {len(result)} taps, {sum(result.lengths)} tokens, {result.size / 1e6:,.1f} MB", soft_wrap=True)
        screen.print(facts(result.about.facts), style="dim")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("tap", style="bold", overflow="fold")
    table.add_column("shape")
    for name in ("mean", "std", "largest |x|"):
        table.add_column(name, justify="right")
    for row in result.taps:
        shape = " × ".join(map(str, row.shape))
        table.add_row(row.tap, shape, number(row.mean, signed=True), number(row.std), number(row.largest))
    screen.print(table)
    screen.print("Scores are counted where the query may read the key.", style="dim")
    screen.print(facts(result.facts), style="dim")
