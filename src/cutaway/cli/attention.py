"""`cutaway attention`: who reads whom in a text, as pictures on a terminal or in a file, and the shapes of each step."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli import options, output
from cutaway.cli.progress import load
from cutaway.cli.reading import read_text, repaired
from cutaway.errors import CutawayError

if TYPE_CHECKING:
    from cutaway.attend import Window
    from cutaway.model import Model
    from cutaway.patterns import Heads, Links, Rows, Thumbnails
    from cutaway.shapes import Shapes

    Result = Thumbnails | Heads | Rows | Links | Shapes

Number = int | None
Layer = Annotated[Number, typer.Option("--layer", metavar="L", help="The heads of this layer, counted from 0, with the tokens named.")]
Head = Annotated[Number, typer.Option("--head", metavar="H", help="This head of the layer alone.")]
Query = Annotated[str | None, typer.Option("--query", metavar="WORD", help="Where this word looks: one row for every head.")]
Occurrence = Annotated[Number, typer.Option("--occurrence", metavar="N", help="Which one, if there are several.")]
Span = Annotated[str | None, typer.Option("--window", metavar="START:END", help="These tokens alone, counted from 0; END is left out.")]
Top = Annotated[Number, typer.Option("--top", metavar="N", help="The N tokens at which each token looks most, in one head.")]
Steps = Annotated[bool, typer.Option("--shapes", help="The dimensions step by step, with real numbers.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a self-contained page.")]
Svg = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw the patterns.")]
Png = Annotated[Path | None, typer.Option("--png", metavar="FILE", help="The same, in dots.")]


def command(
    text: options.Text = None,
    file: options.File = None,
    model: options.Model = "nano-gpt2",
    layer: Layer = None,
    head: Head = None,
    query: Query = None,
    occurrence: Occurrence = None,
    window: Span = None,
    top: Top = None,
    shapes: Steps = False,
    tokenizer: options.Tokenizer = None,
    dtype: options.Dtype = None,
    device: options.Device = "cpu",
    offline: options.Offline = False,
    json: options.Json = False,
    out: options.Out = None,
    html: Html = None,
    svg: Svg = None,
    png: Png = None,
) -> None:
    """Who reads whom in a text: every head small, or a layer's heads with the tokens named.

    \b
    Example: cutaway attention "The trophy didn't fit in the suitcase because it was too big."
             cutaway attention "The trophy is big." --layer 1 --head 3 --html head.html --png head.png
             cutaway attention "The trophy is big." --query trophy
             cutaway attention "The trophy is big." --shapes
    """
    refuse(layer, head, query, occurrence, window, top, shapes)
    drawn = checked({".html": html, ".svg": svg, ".png": png}, "--shapes" if shapes else "--top" if top is not None else None)
    span, words = parsed(window), read_text(text, file)
    loaded = load(model, tokenizer=tokenizer, dtype=dtype, device=device, offline=offline)
    with output.busy(f"reading with {model}"):
        result = seen(loaded, words, layer, head, query, occurrence, span, top, shapes)
    present(result, drawn, json, out)


def refuse(layer: Number, head: Number, query: str | None, occurrence: Number, window: str | None, top: Number, shapes: bool) -> None:
    """Raise CutawayError for options that say nothing together."""
    if head is not None and layer is None:
        raise CutawayError(f"--head {head} without --layer", expected="both: a head is one of a layer's")
    if top is not None and head is None:
        raise CutawayError(f"--top {top} of no head", expected="--layer L --head H with it")
    if occurrence is not None and query is None:
        raise CutawayError(f"--occurrence {occurrence} of no word", expected="--query WORD with it")
    ways = {"--top": top is not None, "--query": query is not None and not shapes, "--shapes": shapes}
    chosen = [name for name, given in ways.items() if given]
    if len(chosen) > 1:
        raise CutawayError(f"{' and '.join(chosen)} were both given", expected="one of them")
    if shapes and window:
        raise CutawayError("--shapes and --window were both given", expected="one of them: each step is of the whole text")


def checked(files: Mapping[str, Path | None], table: str | None) -> list[Path]:
    """The files that are wanted. Raises CutawayError for one of another kind than its option's, or a picture of what is a table."""
    for suffix, path in files.items():
        option = "--" + suffix[1:]
        if path and path.suffix.lower() != suffix:
            raise CutawayError(f"{option} {path}", expected=f"a name that ends in {suffix}")
        if path and table and suffix != ".html":
            raise CutawayError(f"{option} draws patterns, and {table} makes a table", expected=f"--html with {table}")
    return [path for path in files.values() if path]


def parsed(window: str | None) -> "Window":
    if window is None:
        return None, None
    if not (found := re.fullmatch(r"(\d*):(\d*)", window.strip())):
        raise CutawayError(f"--window {window}", expected="START:END in tokens, 0:40 for instance; one of them may be left out")
    start, end = (int(place) if place else None for place in found.groups())
    return start, end


def seen(
    model: "Model",
    text: str,
    layer: Number,
    head: Number,
    query: str | None,
    occurrence: Number,
    window: "Window",
    top: Number,
    shapes: bool,
) -> "Result":
    from cutaway import attend
    from cutaway.shapes import shapes as steps

    query = None if query is None else repaired(query)
    if shapes:
        return steps(model, text, layer=layer or 0, head=head or 0, query=query, occurrence=occurrence)
    if query is not None:
        return attend.rows(model, text, query, occurrence=occurrence, layer=layer, head=head, window=window)
    if layer is None:
        return attend.thumbnails(model, text, window=window)
    if top is None or head is None:
        return attend.heads(model, text, layer, head, window=window)
    return attend.links(model, text, layer, head, top, window=window)


def present(result: "Result", drawn: Sequence[Path], json: bool, out: Path | None) -> None:
    output.note(*result.notes)
    for path in drawn:
        with output.busy(f"drawing {path}"):
            draw(result, path)
    if json or out:
        if left_out := getattr(result, "left_out", ""):
            output.note(left_out)
        output.as_json(result.to_dict(), out)
    elif not drawn:
        from cutaway.cli.attention_view import show

        show(output.console(), result)


def draw(result: "Result", path: Path) -> None:
    if path.suffix.lower() == ".html":
        output.write(path, result.page())
    else:
        from cutaway.charts import write_chart

        write_chart(result.chart(), path)  # type: ignore[union-attr]  # tables were refused
        output.note(f"Wrote {path}")
