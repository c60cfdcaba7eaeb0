"""What results look like: as HTML for notebooks and pages, and the words and signs that a terminal shares with them.

Nothing is computed here, and nothing drawn that is not a value of a result. A page needs no script and no other file.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

    from cutaway.diff_models import ModelDifference
    from cutaway.fill import Fill
    from cutaway.invariance import Invariance
    from cutaway.patterns import Heads, Links, Rows, Thumbnails
    from cutaway.predict import NextToken
    from cutaway.shapes import Shapes
    from cutaway.source import Source
    from cutaway.trace.attribute import Attribution
    from cutaway.trace.compare import Diff
    from cutaway.trace.files import SavedTrace
    from cutaway.trace.lens import Lens
    from cutaway.trace.patch import PatchSweep
    from cutaway.trace.record import Attention, Trace
    from cutaway.trace.summary import Summary
    from cutaway.trophy import Reading, Trophy

MOST_CELLS = 24_000  # of one picture: beyond that a browser stalls, so a part is drawn and the rest is said
MOST_PARTS = 40  # of one table of contributions
MOST_TOKENS = 64  # columns of one picture

SIGNS = {" ": "␣", "\n": "⏎", "\t": "⇥"}


def visible(text: str) -> str:
    """The text with its blanks visible, and control codes written out, so that none reaches a terminal.

    >>> visible(" a\\n\\x1b")
    '␣a⏎\\\\x1b'
    """
    return "".join(SIGNS.get(c) or (c if c.isprintable() else repr(c)[1:-1]) for c in text)


def number(value: float | None, *, signed: bool = False) -> str:
    """Four places; exactly 0 is "0", so that nobody takes a small number for none.

    >>> number(0.0), number(0.12345), number(1e-7), number(0.5, signed=True), number(None)
    ('0', '0.1235', '1e-07', '+0.5000', '–')
    """
    if value is None:
        return "–"
    if value == 0:
        return "0"
    plus = "+" if signed else ""
    return format(value, f"{plus}.4f" if abs(value) >= 5e-5 else f"{plus}.0e")


def facts(given: Mapping[str, Any]) -> str:
    """What shaped the numbers, in one line."""
    sha = given.get("weights_sha256")
    nano = " (nano: a small model of this project)" if Path(given["model"]).name.startswith("nano-") else ""
    threads = f"{given['threads']} thread{'s' * (given['threads'] != 1)}"
    weights = f"weights sha256 {sha[:12]}" if sha else "weights in memory"
    return " · ".join([f"{given['model']}{nano}", weights, given["dtype"], given["device"], threads, f"{given['kernel']} attention"])


def facts_of(reading: "Reading") -> dict[str, Any]:
    return {name: getattr(reading, name) for name in ("model", "weights_sha256", "dtype", "device", "threads", "kernel")}


def deciding(a: str, b: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where two sentences differ, as spans of whole words.

    >>> deciding("too big.", "too small.")
    ((4, 7), (4, 9))
    """
    x, y = (re.findall(r"\w+|\W", text) for text in (a, b))
    start = shared(x, y)
    end = shared(x[start:][::-1], y[start:][::-1])
    one, other = ((len("".join(words[:start])), len("".join(words[: len(words) - end]))) for words in (x, y))
    return one, other


def shared(x: Sequence[str], y: Sequence[str]) -> int:
    return next((n for n, (p, q) in enumerate(zip(x, y, strict=False)) if p != q), min(len(x), len(y)))


def page(result: "Trophy") -> str:
    """One self-contained page."""
    return render("page.html", body=trophy(result), title=f"The attention of “{result.query}”")


def trophy(result: "Trophy") -> str:
    sentences = [(text, *span) for text, span in zip(result.sentences, deciding(*result.sentences), strict=True)]
    pictures = [(reading, picture(reading)) for reading in (result.causal, result.bidirectional)]
    return render("trophy.html", result=result, sentences=sentences, pictures=pictures)


def next_token(result: "NextToken") -> str:
    return render("next.html", result=result)


def fill(result: "Fill") -> str:
    return render("fill.html", result=result)


def invariance(result: "Invariance") -> str:
    return render("invariance.html", result=result, largest={d.tap: result.at(d.tap) for d in result.differences})


def attention(result: "Attention") -> str:
    rows = zip(result.pieces, result.weights.tolist(), result.lengths.tolist(), strict=True)
    return render("attention.html", result=result, rows=list(rows))


def trace(result: "Trace") -> str:
    return render("trace.html", result=result, taps=list(result.shapes.items()))


def render(template: str, **values: Any) -> str:
    return environment().get_template(template).render(**values)


@cache
def environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    templates = FileSystemLoader(Path(__file__).parent / "templates")
    found = Environment(
        loader=templates, autoescape=select_autoescape(["html"]), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.filters |= {"visible": visible, "number": number, "shade": shade, "facts_of": facts_of}
    found.globals |= {"facts": facts}
    return found


def shade(value: float) -> int:
    """How strong a cell's colour is, in percent: the square root of the weight, so that small ones can be seen."""
    return round(100 * sqrt(min(1.0, max(0.0, value))))


def picture(reading: "Reading") -> dict[str, Any]:
    """What the pictures of one reading are drawn from: numbers of `pattern`, and a notice for each part left out."""
    a, b = reading.pattern
    at = reading.query_position
    columns = min(MOST_TOKENS, max(map(len, reading.tokens)))
    first = max(0, min(at - MOST_TOKENS * 3 // 4, max(map(len, reading.tokens)) - columns))
    seen = slice(first, first + columns)
    heads = len(reading.heads)
    strips = min(heads, MOST_CELLS // (3 * columns))
    maps = min(heads, MOST_CELLS // (2 * columns * columns))
    left_out = [
        (columns < max(map(len, reading.tokens)), f"Tokens {first} to {first + columns - 1} of {max(map(len, reading.tokens))} are drawn."),
        (strips < heads, f"The strips of {strips} of {heads} heads are drawn; the table below has all."),
        (maps < heads, f"The whole maps of {maps} of {heads} heads are drawn."),
    ]
    return {
        "first": first,
        "tokens": [row[seen] for row in reading.tokens],
        "strips": list(islice(strip_rows(a[:, :, at, seen].tolist(), b[:, :, at, seen].tolist()), strips)),
        "maps": list(islice(whole_maps(a[:, :, seen, seen], b[:, :, seen, seen]), maps)),
        "notices": [notice for needed, notice in left_out if needed],
    }


def strip_rows(a: list[Any], b: list[Any]) -> Iterator[dict[str, Any]]:
    """Each head's row of the query in both sentences, and how far they are apart."""
    for layer, (one, other) in enumerate(zip(a, b, strict=True)):
        for head, (x, y) in enumerate(zip(one, other, strict=True)):
            yield {"layer": layer, "head": head, "a": x, "b": y, "apart": [abs(p - q) for p, q in zip(x, y, strict=False)]}


def whole_maps(a: Any, b: Any) -> Iterator[dict[str, Any]]:
    for layer in range(len(a)):
        for head in range(len(a[layer])):
            yield {"layer": layer, "head": head, "a": a[layer, head].tolist(), "b": b[layer, head].tolist()}


def patch(result: "PatchSweep") -> str:
    """A row for each tap (and head), a column for each place; the cells are means over the pairs."""
    columns = list(dict.fromkeys(site.positions for site in result.sites))
    names = list(dict.fromkeys((site.tap, site.heads) for site in result.sites))
    drawn = names[: MOST_CELLS // len(columns)]
    tables = []
    for direction in ("denoising", "noising", "neutral"):
        of_site = dict(zip(result.sites, result.effects(direction).nanmean(dim=0).tolist(), strict=True))
        by_place = {(site.tap, site.heads, site.positions): value for site, value in of_site.items()}
        rows = [(dotted(tap, heads), [by_place[tap, heads, column] for column in columns]) for tap, heads in drawn]
        if not any(value != value for value in of_site.values()):  # NaN: not measured in any pair
            tables.append((direction, [" ".join(map(str, column)) for column in columns], rows))
    return render("patch.html", result=result, tables=tables, left=len(names) - len(drawn))


def dotted(tap: str, heads: Sequence[int] | None) -> str:
    return tap if heads is None else f"{tap}[{', '.join(map(str, heads))}]"


def saved_trace(result: "SavedTrace") -> str:
    of = {"texts": result.texts, "edits": result.edits, "model": {"name": result.about.facts["model"]}}
    return render("trace.html", result=of, taps=[(tap, result.tensors.shapes[tap]) for tap in result])


def trace_summary(result: "Summary") -> str:
    return render("trace_summary.html", result=result)


def trace_diff(result: "Diff") -> str:
    return render("trace_diff.html", result=result)


def source(result: "Source") -> str:
    return render("source.html", result=result)


def model_difference(result: "ModelDifference") -> str:
    kinds = {"+": "a", "-": "b", "@": "soft"}
    lines = [(line, kinds.get(line[:1], "")) for line in result.code.splitlines()]
    return render("diff_models.html", result=result, lines=lines)


def lens(result: "Lens") -> str:
    return render("lens.html", result=result, read=[column.position for column in result.columns])


def attribution(result: "Attribution") -> str:
    """Tokens in their order; parts by size, no more than MOST_PARTS."""
    of_tokens = result.terms[0].position is not None
    terms = list(result.terms) if of_tokens else sorted(result.terms, key=lambda term: -abs(term.value))[:MOST_PARTS]
    largest = max(abs(term.value) for term in terms) or 1
    return render("attribution.html", result=result, terms=terms, largest=largest, left=len(result.terms) - len(terms))


def attention_page(body: str) -> str:
    """One self-contained page."""
    return render("page.html", body=body, title="Attention")


def thumbnails(result: "Thumbnails") -> str:
    small = result.picture()
    return render("heads.html", kind="thumbnails", result=small, cells=small.to_dict()["cells"])


def heads(result: "Heads") -> str:
    small = result.picture()
    maps = list(zip(small.heads, small.to_dict()["weights"], small.elsewhere.tolist(), strict=True))
    return render("heads.html", kind="heads", result=small, maps=maps)


def rows(result: "Rows") -> str:
    small = result.picture()
    said = small.to_dict()
    strips = list(zip(small.heads, said["weights"], said["lengths"], said["elsewhere"], strict=True))
    return render("heads.html", kind="rows", result=small, strips=strips, longest=small.lengths.max().item())


def links(result: "Links") -> str:
    most = MOST_CELLS // (4 * max(map(len, result.links)))
    return render("heads.html", kind="links", result=result, links=result.links[:most], left=max(0, len(result.links) - most))


def shapes(result: "Shapes") -> str:
    return render("shapes.html", result=result)
