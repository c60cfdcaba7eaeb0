"""A chart becomes a file or a picture in a page: one Vega-Lite specification, drawn on this machine, without network or browser.

What charts have in common is said here. What a chart shows is said by the verb whose result it draws, and computed there.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutaway.errors import CutawayError
from cutaway.writing import unwritable, write_bytes, write_text

if TYPE_CHECKING:
    import altair as alt
    from altair import TopLevelMixin

    Chart = TopLevelMixin | Mapping[str, Any]  # what altair makes, or the specification itself

INK, SOFT, LINE, PAPER = "#1c1e22", "#63666d", "#dcd9d1", "#fdfcf9"  # the light half of templates/style.html
# Told apart by the colour-blind too: Okabe & Ito 2008, "Color Universal Design".
COLOURS = ("#0072B2", "#56B4E9", "#CC79A7", "#D55E00", "#E69F00", "#63666d", "#009E73")

_TEXT = {"labelColor": INK, "titleColor": SOFT, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
THEME: dict[str, Any] = {
    "background": PAPER,
    "font": "Arial, 'Liberation Sans', Helvetica, sans-serif",  # of equal widths: what is measured here fits elsewhere
    "view": {"stroke": None},
    "title": {"color": INK, "subtitleColor": SOFT, "anchor": "start", "fontSize": 16, "subtitleFontSize": 12, "offset": 12},
    "axis": {**_TEXT, "gridColor": LINE, "domainColor": LINE, "tickColor": LINE, "labelLimit": 260},
    "header": _TEXT,
    "legend": _TEXT,
    "range": {"category": list(COLOURS)},
    "padding": {"left": 44, "right": 24, "top": 16, "bottom": 16},
}


def svg(chart: "Chart") -> str:
    """The chart as an SVG picture, for a page or a file of its own."""
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(_spec(chart), config=THEME)
    return drawn


def png(chart: "Chart") -> bytes:
    """The chart as a PNG picture, two dots to each of its units."""
    import vl_convert

    drawn: bytes = vl_convert.vegalite_to_png(_spec(chart), config=THEME, scale=2)
    return drawn


def html(chart: "Chart", title: str = "Chart") -> str:
    """The chart as a page of its own that answers to the mouse: the scripts (about 1 MB) are in it. Takes some seconds."""
    import vl_convert

    page: str = vl_convert.vegalite_to_html(_spec(chart), bundle=True, config=THEME)
    return page.replace("<html>", '<html lang="en">', 1).replace("<title>Chart</title>", f"<title>{escape(title)} · cutaway</title>", 1)


def write_chart(chart: "Chart", path: Path, title: str = "Chart") -> None:
    """Write the chart to a .html, .svg or .png file, whole or not at all. `title` is the page's.

    Raises CutawayError for another suffix, or a file that cannot be written.
    """
    kind = path.suffix.lower()
    if kind not in (".html", ".svg", ".png"):
        raise CutawayError(f"{path} is no kind of chart that is drawn here", expected="a name that ends in .png, .html or .svg")
    drawn = png(chart) if kind == ".png" else html(chart, title) if kind == ".html" else svg(chart)
    try:
        write_bytes(path, drawn) if isinstance(drawn, bytes) else write_text(path, drawn)
    except (OSError, ValueError) as error:
        raise unwritable(path, error) from None


def bars(values: Mapping[str, int], title: str, unit: str) -> "TopLevelMixin":
    """One bar a name, with its number and its share of the whole beside it. A name without any has no bar, and keeps its colour."""
    import altair as alt

    whole = sum(values.values())
    rows = [{"name": name, unit: value, "said": f"{value:,} · {share(value / whole)}"} for name, value in values.items() if value]
    base = alt.Chart(alt.InlineData(rows), title=title, width=560, height=alt.Step(26)).encode(
        y=alt.Y("name:N", sort=None, title=None), x=alt.X(f"{unit}:Q", axis=_counted(tickCount=5))
    )
    colour = alt.Color("name:N", scale=alt.Scale(domain=list(values)), legend=None)
    text = base.mark_text(align="left", dx=5, color=INK).encode(text="said:N")
    return alt.layer(base.mark_bar().encode(color=colour, tooltip=["name:N", "said:N"]), text)


def made_of(wholes: Mapping[str, Mapping[str, int]], title: str, unit: str) -> "TopLevelMixin":
    """Wholes of very different sizes: on the left the shares of their parts, on the right their sizes, on a logarithmic scale."""
    import altair as alt

    sums = {name: sum(whole.values()) for name, whole in wholes.items()}
    parts = [
        {"whole": name, "part": part, unit: value, "share": value / sums[name], "place": place}
        for name, whole in wholes.items()
        for place, (part, value) in enumerate(whole.items())
        if value
    ]
    names = list(dict.fromkeys(part for whole in wholes.values() for part in whole))
    y = alt.Y("whole:N", sort=list(wholes), title=None)
    legend = alt.Legend(orient="top", columns=len(names), symbolType="square", columnPadding=26)
    shares = alt.Chart(alt.InlineData(parts), width=430, height=alt.Step(24)).mark_bar()
    shares = shares.encode(
        y=y,
        x=alt.X("share:Q", title=f"share of the {unit}", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=5)),
        color=alt.Color("part:N", scale=alt.Scale(domain=names), title=None, legend=legend),
        order="place:Q",
        tooltip=["whole:N", "part:N", alt.Tooltip(f"{unit}:Q", format=","), alt.Tooltip("share:Q", format=".1%")],
    )
    rows = alt.InlineData([{"whole": name, unit: value, "said": f"{value:,}"} for name, value in sums.items()])
    tens = [10**digits for digits in range(len(str(min(sums.values()))) - 1, len(str(max(sums.values()))))]
    x = alt.X(f"{unit}:Q", title=f"{unit}, logarithmic", scale=alt.Scale(type="log", padding=20, nice=False), axis=_counted(values=tens))
    sized = alt.Chart(rows, width=330, height=alt.Step(24)).encode(y=y.axis(None), x=x)
    said = sized.mark_text(align="left", dx=9, color=INK).encode(text="said:N")
    return alt.hconcat(shares, alt.layer(sized.mark_circle(size=90, color=SOFT, opacity=1), said), title=title, spacing=18)


def heat(
    pictures: Mapping[str, Sequence[Sequence[float | None]]],
    *,
    title: str,
    subtitle: Sequence[str] = (),
    across: int = 1,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> "TopLevelMixin":
    """Weights from 0 to 1, a picture for each name, so many `across`. None is drawn as a dot: there is no weight.

    rows, columns: what each is called; without names the pictures are small. The colour is the square root of the weight.
    """
    import altair as alt

    every = [
        {"picture": name, "row": rows[t] if rows else t, "column": columns[s] if columns else s, "weight": weight}
        for name, picture in pictures.items()
        for t, row in enumerate(picture)
        for s, weight in enumerate(row)
    ]
    height, width = (len(max(lines, key=len)) for lines in (list(pictures.values()), next(iter(pictures.values()))))
    cell = max(14, min(40, 560 // (across * width))) if columns else 5
    x = alt.X("column:N", sort=None, title=None, axis=alt.Axis(labelAngle=-90, ticks=False, domain=False) if columns else None)
    y = alt.Y("row:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False) if rows else None)
    scale = alt.Scale(type="sqrt", domain=[0, 1], range=["#eef1f4", COLOURS[0]])
    base = alt.Chart(width=cell * width, height=cell * height).encode(x=x, y=y)
    squares = base.mark_rect().encode(
        color=alt.Color("weight:Q", scale=scale, legend=alt.Legend(title="weight", orient="bottom", values=[0, 0.1, 0.5, 1], format="~g"))
    )
    dots = base.mark_circle(size=3, color=SOFT, opacity=0.5)
    layers = alt.layer(
        squares.transform_filter("datum.weight !== null"), dots.transform_filter("datum.weight === null"), data=alt.InlineData(every)
    )
    facet = alt.Facet("picture:N", sort=list(pictures), title=None, header=alt.Header(labelAnchor="start", labelPadding=2))
    said = alt.TitleParams(title, subtitle=list(subtitle))
    return layers.facet(facet=facet, columns=across, spacing=14 if columns else 6, title=said)


def share(value: float) -> str:
    """In percent; little is never written as nothing.

    >>> share(0.631), share(0.0002), share(0)
    ('63.1 %', '< 0.1 %', '0 %')
    """
    return "0 %" if value == 0 else "< 0.1 %" if value < 0.001 else f"{value:.1%}".replace("%", " %")


def _counted(**ticks: Any) -> "alt.Axis":
    """Thousands, millions and billions; Vega says G."""
    import altair as alt

    return alt.Axis(**ticks, labelExpr="replace(format(datum.value, '~s'), 'G', 'B')")


def rows_of(chart: "Chart") -> list[dict[str, Any]]:
    """Every row of data that a chart is drawn from."""

    def within(part: Any) -> Iterator[dict[str, Any]]:
        if isinstance(part, Mapping):
            if isinstance(values := part.get("values"), list):
                yield from (row for row in values if isinstance(row, dict))
            for other in part.values():
                yield from within(other)
        elif isinstance(part, list):
            for other in part:
                yield from within(other)

    return list(within(_spec(chart)))


def _spec(chart: "Chart") -> dict[str, Any]:
    spec: dict[str, Any] = dict(chart) if isinstance(chart, Mapping) else chart.to_dict()
    return spec
