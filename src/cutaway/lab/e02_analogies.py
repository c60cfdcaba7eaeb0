"""Chapter 2: analogies. Is the row nearest to b − a + c that of d, as in king − man + woman = queen?

Asked with the question's own words among the answers and without them, which is how analogies are mostly reported; beside what is
found without any arithmetic, nearest to b alone and nearest to c alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.lab import data
from cutaway.lab.claims import Claim, Needs
from cutaway.lab.curves import dots
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.lab.vocabulary import Numbers, Vocabulary, unit

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

Question = tuple[str, str, str, str]
LEAST = 20  # questions of a section that can be asked, below which it is left out
WAYS = ("b − a + c", "b", "c")


def sections(path: Path) -> dict[str, list[Question]]:
    """The questions by section, as the file has them: a line each, a section's name behind a colon."""
    found: dict[str, list[Question]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(":"):
            current = found.setdefault(line[1:].strip(), [])
        elif line.strip():
            a, b, c, d = line.split()
            current.append((a, b, c, d))
    return found


def asked(words: Vocabulary, questions: Sequence[Question]) -> list[tuple[int, ...]]:
    """Those whose four words are one token each, and four tokens."""
    ids = [tuple(words.of(word) for word in question) for question in questions]
    return [one for one in ids if None not in one and len(set(one)) == 4]  # type: ignore[misc]


def answers(rows: Numbers, candidates: NDArray[np.int64], questions: Sequence[tuple[int, ...]]) -> list[dict[str, float]]:
    """Of each question, by way and whether the inputs may answer: is d the nearest? And is an input the nearest to b − a + c?

    rows (V, D) of length 1; candidates: the ids that may answer.
    """
    place = {int(n): at for at, n in enumerate(candidates)}
    inputs = np.array([[place[n] for n in question[:3]] for question in questions])  # (Q, 3)
    right = np.array([place[question[3]] for question in questions])
    a, b, c = (rows[[question[n] for question in questions]] for n in range(3))  # (Q, D) each
    found: dict[str, NDArray[np.bool_]] = {}
    for way, sought in zip(WAYS, (b - a + c, b, c), strict=True):
        near = sought @ rows[candidates].T  # (Q, C)
        first = near.argmax(axis=1)
        found[f"{way} allowed"] = first == right
        if way == WAYS[0]:
            found["input"] = (first[:, None] == inputs).any(axis=1)
        np.put_along_axis(near, inputs, -np.inf, axis=1)
        found[way] = near.argmax(axis=1) == right
    return [{name: float(hit[n]) for name, hit in found.items()} for n in range(len(questions))]


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    title = "Analogies right, macro average over sections"
    every = [row for record in records for row in record.rows("right") if row["inputs"] == "excluded"]
    rows = [row | {"what": f"{row['way']}, {row['rows']}"} for row in every]
    return {title: dots(rows, title, x="what", y="share right, the question's own words excluded", colour="model")}


@experiment(
    "e02_analogies",
    chapter="02",
    version=1,
    question="Does arithmetic on embeddings solve analogies, and how much of that is nearness alone?",
    needs=Needs(own_world=False),
    data=("analogies",),
    charts=charts,
    not_shown="that a model reasons by analogy: these are rows of its table, before any block",
    claims=(
        Claim(
            sentence="With the question's own words among the answers one of them is nearly always the nearest",
            measurement="input.nearest[rows=raw]",
            compare=">",
            bound=0.5,
            reason="b − a + c is b or c plus a short difference (Linzen 2016, section 3); so in the pilot",
            fails_if="the difference of two rows were as long as the rows",
        ),
        Claim(
            sentence="Excluding them makes analogies right that are wrong with them",
            measurement="right.by_exclusion",
            compare=">",
            bound=0,
            reason="d is often the next nearest; so in the pilot",
            fails_if="the answers were right or wrong whatever may answer",
        ),
        Claim(
            sentence="Arithmetic does better than the nearest to c alone, which is right more often than the nearest to b",
            measurement="right.above_c",
            compare=">",
            bound=0,
            reason="Linzen 2016: nearness explains part of it, not all; the pilot had 0.2 and more",
            fails_if="the difference between a and c said nothing of that between b and d",
        ),
    ),
)
def analogies(run: Run, *, most: int = 200) -> Iterator[Measurement]:
    """At most so many questions of each section, drawn at random. Raises TextError without the data set."""
    words = Vocabulary(run.model)
    told = sections(data.find("analogies", run.data)[0])
    kept: dict[str, list[tuple[int, ...]]] = {}
    for name, questions in told.items():
        covered = asked(words, questions)
        yield run.exact("coverage", len(covered) / len(questions), "share", at={"section": name}, n=len(questions))
        if len(covered) >= LEAST:
            kept[name] = [covered[n] for n in sorted(run.rng(name).permutation(len(covered))[:most])]
    yield run.exact("sections", len(kept), n=len(told))
    if not kept:
        yield run.absent("right", f"no section has {LEAST} questions of one-token words in this vocabulary")
        return
    candidates = np.array(sorted(set(words.words.values())))
    tables = {"raw": unit(words.rows), "centred": unit(words.rows - words.rows.mean(axis=0))}
    for kind, rows in tables.items():
        found = dict(zip(kept, run.units(kind, list(kept.values()), partial(answers, rows, candidates)), strict=True))
        yield from shares(run, kind, found, kept)


def shares(run: Run, kind: str, found: Mapping[str, Any], kept: Mapping[str, Any]) -> Iterator[Measurement]:
    """Macro averages: every section counts the same. What shares its first pair of words is resampled together."""
    groups = [(name, question[:2]) for name, questions in kept.items() for question in questions]

    def macro(values: Mapping[str, Sequence[float]]) -> list[float]:
        """Scaled so that their mean is the mean of the sections' means."""
        count = sum(map(len, values.values()))
        return [value * count / len(values) / len(section) for section in values.values() for value in section]

    def of(key: str) -> dict[str, list[float]]:
        return {name: [one[key] for one in section] for name, section in found.items()}

    share = partial(run.mean, unit="share", groups=groups, within=(0, 1))
    for way in WAYS:
        for inputs, key in (("excluded", way), ("allowed", f"{way} allowed")):
            yield share("right", macro(of(key)), at={"rows": kind, "way": way, "inputs": inputs})
    yield share("input.nearest", macro(of("input")), at={"rows": kind})
    if kind == "raw":
        for name, section in found.items():
            yield run.share("right.section", sum(one[WAYS[0]] for one in section), len(section), at={"section": name})
        sums = macro(of(WAYS[0]))
        for name, other in (("by_exclusion", f"{WAYS[0]} allowed"), ("above_b", "b"), ("above_c", "c")):
            yield run.mean(f"right.{name}", np.subtract(sums, macro(of(other))), "share", groups=groups, within=(-1, 1))
