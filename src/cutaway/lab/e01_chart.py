"""Chapter 1: what a language costs, as a chart: the two factors and their product, a bar each with its interval.

Nothing is computed here; every bar and line is a value of the result.
"""

from typing import TYPE_CHECKING, Any

from cutaway.lab.e01_cost import Cost, Priced
from cutaway.tokens import labels

if TYPE_CHECKING:
    import altair

PANELS = {
    "translation_part": ("bytes: the translation's part", "#56B4E9"),
    "tokenizer_part": ("tokens a byte: the tokenizer's part", "#E69F00"),
    "tokens_ratio": ("tokens: their product", "#0072B2"),
}
INK, SOFT = "#1c1e22", "#63666d"


def chart(result: Cost) -> "altair.VConcatChart":
    """A row of three panels for each tokenizer; a panel's scale is the same in all rows."""
    import altair as alt

    intervals = f"Lines: {result.level:.0%} intervals by article." if result.articles else "There are no intervals."
    about = f"{intervals} Dashed: {result.reference}. The first two, multiplied, are the third. One document, one register."
    short = labels([one.tokenizer for one in result.tokenizers])
    lost = [short[one.tokenizer] for one in result.tokenizers if any(row.counts["unknown"] for row in one.rows)]
    warning = [f"{', '.join(lost)} cannot write every text: an unknown sign is one token, however cheap that looks."] if lost else []
    title = alt.TitleParams(f"What a language costs, against {result.reference}", subtitle=[about, *warning])
    return alt.vconcat(*(_row(one, short[one.tokenizer], result) for one in result.tokenizers), spacing=28).properties(title=title)


def _row(one: Priced, name: str, result: Cost) -> Any:
    import altair as alt

    panels = [_panel(one, key, result) for key in PANELS]
    return alt.hconcat(*panels, spacing=16).properties(title=alt.TitleParams(name, fontSize=14))


def _panel(one: Priced, key: str, result: Cost) -> Any:
    import altair as alt

    title, colour = PANELS[key]
    values = [(row.language, row.values[key]) for row in one.rows]
    data = [{"language": language, "value": value.value, "low": value.low, "high": value.high} for language, value in values]
    far = max(value.high or value.value for priced in result.tokenizers for row in priced.rows if (value := row.values[key]))
    x = alt.X("value:Q", title=f"× {result.reference}", axis=alt.Axis(tickCount=5), scale=alt.Scale(domain=[0, far]))
    names = alt.Axis(ticks=False) if key == next(iter(PANELS)) else None
    told = [alt.Tooltip("language:N"), *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("value", "low", "high"))]
    base = alt.Chart(alt.InlineData(data)).encode(y=alt.Y("language:N", sort=None, title=None, axis=names))
    bars = base.mark_bar(color=colour, height=alt.RelativeBandSize(band=0.7)).encode(x=x, tooltip=told)
    lines = base.mark_rule(strokeWidth=2, color=INK).encode(x="low:Q", x2="high:Q").transform_filter("isValid(datum.low)")
    same = alt.Chart(alt.InlineData([{"at": 1}])).mark_rule(strokeDash=[4, 3], color=SOFT).encode(x="at:Q")
    return (bars + lines + same).properties(title=alt.TitleParams(title, fontSize=12), width=230, height=alt.Step(17))
