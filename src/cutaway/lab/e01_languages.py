"""Chapter 1: what a language costs under a model's tokenizer, with claims. The counting is `e01_cost`, as in `cutaway tokens --cost`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cutaway.lab import data
from cutaway.lab.claims import ANY, Claim
from cutaway.lab.e01_articles import translation
from cutaway.lab.e01_cost import LEVEL, cost
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.tokens import Opened

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

FACTORS = ("translation_part", "tokenizer_part", "tokens_ratio")


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    title = "Tokens of the same articles, against English"
    rows = [row for record in records for row in record.rows("tokens_ratio")]
    value = {"type": "quantitative", "title": "× English, tokens", "scale": {"type": "log"}}
    return {
        title: {
            "title": title,
            "data": {"values": rows},
            "width": 460,
            "height": {"step": 6, "for": "offset"},
            "encoding": {
                "y": {"field": "language", "type": "nominal", "sort": None, "title": None},
                "yOffset": {"field": "model", "type": "nominal"},
                "color": {"field": "model", "type": "nominal", "sort": None},
                "tooltip": [{"field": name} for name in ("model", "language", "value", "low", "high", "n")],
            },
            "layer": [
                {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {"x": value | {"field": "low"}, "x2": {"field": "high"}}},
                {"mark": {"type": "point", "filled": True, "size": 22}, "encoding": {"x": value | {"field": "value"}}},
            ],
        }
    }


@experiment(
    "e01_languages",
    chapter="01",
    version=1,
    question="What does a language cost, in tokens, and how much of that is the tokenizer's doing?",
    needs=ANY,
    data=("udhr",),
    charts=charts,
    not_shown="what a language costs in texts of another kind, or whether a model understands it",
    claims=(
        Claim(
            sentence="Portuguese takes more tokens than English for the same articles",
            measurement="tokens_ratio[language=por_PT]",
            compare=">",
            bound=1,
            reason="the tokenizers were made on English text mostly, so fewer of its words are whole; so in all pilots",
            fails_if="the tokenizer cut both languages alike, or the articles were not the same",
        ),
        Claim(
            sentence="More bytes are a part of it: the translation is longer",
            measurement="translation_part[language=por_PT]",
            compare=">",
            bound=1,
            reason="of these articles; it is the same under every tokenizer",
            fails_if="the texts were exchanged",
        ),
        Claim(
            sentence="The tokenizer's part is more than that",
            measurement="tokenizer_part[language=por_PT]",
            compare=">",
            bound=1.1,
            reason="tokens a byte; the pilots had 1.2 and more",
            fails_if="a byte of Portuguese took no more tokens than one of English",
        ),
        Claim(
            sentence="The two factors multiply to the whole",
            measurement="factors.apart",
            compare="<",
            bound=1e-9,
            reason="tokens a byte times bytes are tokens",
            fails_if="the factors were counted on different texts",
        ),
    ),
)
def languages(run: Run) -> Iterator[Measurement]:
    """The Universal Declaration of Human Rights, article by article. Raises TextError without the data set."""
    texts = [translation(path.stem, path.read_text(encoding="utf-8")) for path in data.find("udhr", run.data)]
    (one,) = cost(texts, [Opened(run.model.name, run.model.tokenizer, Path())], seed=run.seed).tokenizers
    apart = []
    for row in one.rows:
        for key in (*FACTORS, "tokens_per_byte", "context_ratio"):
            found = row.values[key]
            ends = None if found.low is None or found.high is None else (found.low, found.high)
            kind = "exact" if ends is None else "statistic"
            at = {"language": row.language}
            yield Measurement(key, found.value, found.unit, kind, ends, LEVEL if ends else None, row.n, at)  # type: ignore[arg-type]
        product, whole = row.values[FACTORS[0]].value * row.values[FACTORS[1]].value, row.values[FACTORS[2]].value
        apart.append(abs(product / whole - 1))
    yield run.exact("factors.apart", max(apart), n=len(apart))
