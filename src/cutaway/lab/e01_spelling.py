"""Chapter 1: what the input hides, and the embedding still knows. A token is a number: nothing in it says how its word is spelt.

A linear probe reads the first letter and the length of a word off the word's row. Forms of one word stay in one fold, so that it
cannot read them off a sister; beside it the same probe on shuffled answers, and on rows of independent Gaussians.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import LabError
from cutaway.lab.claims import ANY, Claim, Needs
from cutaway.lab.curves import dots
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement
from cutaway.lab.vocabulary import Numbers, Vocabulary

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record

ORDINARY = Needs(own_world=False)
LEAST = 10  # words with a first letter, below which they are left out
SHORTEST = 3  # letters of a word
FOLDS, INNER = 5, 3
PENALTIES = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
ENDINGS = ("ing", "ed", "es", "er", "est", "ly", "s", "d")
Places = NDArray[np.int64]


def charts(records: Sequence["Record"]) -> "Mapping[str, Chart]":
    letter, length = "First letters right, read off a word's row", "Length of a word, read off its row: the share of its variance"
    rows = {name: [row for record in records for row in record.rows(name)] for name in ("letter", "length")}
    return {
        letter: dots(rows["letter"], letter, x="read", y="share right", colour="model"),
        length: dots(rows["length"], length, x="read", y="R² on words of other stems", colour="model"),
    }


@experiment(
    "e01_spelling",
    chapter="01",
    version=1,
    question="Does the row of a word still know how the word is spelt, although the model never saw a letter?",
    needs=ANY,
    charts=charts,
    not_shown="that the model uses what a straight cut can read off a row",
    claims=(
        Claim(
            sentence="A word's first letter can be read off its row, beyond what the same probe reads of shuffled answers",
            measurement="letter.above[control=shuffled]",
            compare=">",
            bound=0.05,
            reason="Kaushal and Mahowald 2022, section 4: GPT-J's embeddings know characters; pilots had 0.13 and more",
            fails_if="a row held nothing of how its word is spelt",
            of=ORDINARY,
        ),
        Claim(
            sentence="It could not be read off rows of independent Gaussians",
            measurement="letter.above[control=gaussian]",
            compare=">",
            bound=0.05,
            reason="such rows say which word it is, and nothing that another word has in common with it",
            fails_if="the probe could learn letters from any rows, forms of one word in training and test for one",
            of=ORDINARY,
        ),
        Claim(
            sentence="So can some of its length",
            measurement="length.above[control=shuffled]",
            compare=">",
            bound=0,
            reason="long words are rarer, and rows follow frequency; pilots had half of the variance and more",
            fails_if="a row held nothing of how long its word is",
            of=ORDINARY,
        ),
    ),
)
def spelling(run: Run, *, words: int = 4000) -> Iterator[Measurement]:
    """So many words at random of those that are one token, small ASCII letters alone; or all of them."""
    if words < 50:
        raise LabError(f"words={words}", expected="at least 50")
    table = Vocabulary(run.model)
    every = sorted(word for word in table.words if word.islower() and len(word) >= SHORTEST)
    drawn = [every[n] for n in sorted(run.rng("words").permutation(len(every))[:words])]
    common = {letter for letter, count in Counter(word[0] for word in drawn).items() if count >= LEAST}
    kept = [word for word in drawn if word[0] in common]
    yield run.exact("words", len(kept), n=len(drawn))
    stems = [stem(word) for word in kept]
    if len(set(stems)) < 10 * FOLDS:
        yield run.absent("letter", f"{run.model.name} has {len(set(stems))} words of one token that can be told apart, too few for a probe")
        return
    rows = table.rows[[table.words[word] for word in kept]]
    shuffle, gaussian = run.rng("shuffle"), run.rng("gaussian").normal(size=rows.shape)
    order = shuffle.permutation(len(kept))
    letters = np.array([sorted(common).index(word[0]) for word in kept])
    lengths = np.array([float(len(word)) for word in kept])
    given = {"row": (rows, np.arange(len(kept))), "shuffled": (rows, order), "gaussian": (gaussian, np.arange(len(kept)))}
    for name, answers, judge in (("letter", np.eye(len(common))[letters], letters_right), ("length", lengths[:, None], explained)):
        measure = partial(read, run, stems, answers, judge, given)
        found = dict(zip(given, run.units(name, list(given), measure), strict=True))
        for kind, values in found.items():
            yield run.mean(name, values, "share", groups=stems, at={"read": kind})
            if kind != "row":
                yield run.mean(f"{name}.above", np.subtract(found["row"], values), "share", groups=stems, at={"control": kind})
    yield run.exact("letter.most_frequent", Counter(letters.tolist()).most_common(1)[0][1] / len(kept), "share", n=len(kept))


Given = Mapping[str, tuple[Numbers, Places]]  # by kind: rows (N, D), and whose answer each gets
Judge = Callable[[Numbers, Numbers], Numbers]


def read(run: Run, stems: Sequence[str], answers: Numbers, judge: Judge, given: Given, kind: str) -> list[float]:
    """Of each word how well the probe did when it was in the test fold."""
    rows, whose = given[kind]
    return [float(one) for one in judge(probed(rows, answers[whose], stems, FOLDS, run.rng("folds")), answers[whose])]


def letters_right(said: Numbers, answers: Numbers) -> Numbers:
    return np.asarray(said.argmax(axis=1) == answers.argmax(axis=1), dtype=np.float64)


def explained(said: Numbers, answers: Numbers) -> Numbers:
    """The mean of these is R²: 1 for all of the variance, 0 for none; less where the probe does worse than the mean."""
    spread = answers.var()
    return np.asarray(1 - ((said - answers) ** 2)[:, 0] / spread)


def stem(word: str) -> str:
    """A word without its ending, a doubled last letter once: what forms of one word have in common.

    >>> stem("running"), stem("runs"), stem("hoped"), stem("hope"), stem("tallest")
    ('run', 'run', 'hop', 'hop', 'tal')
    """
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST:
            word = word.removesuffix(ending)
            break
    word = word.removesuffix("e") if len(word) > SHORTEST else word
    return word[:-1] if len(word) > SHORTEST and word[-1] == word[-2] else word


def dealt(stems: Sequence[str], among: Places, count: int, rng: np.random.Generator) -> Iterator[tuple[Places, Places]]:
    """Places (train, test): no stem is in both."""
    names = sorted({stems[n] for n in among})
    fold_of = {name: place % count for place, name in enumerate(rng.permutation(names))}
    folds = np.array([fold_of[stems[n]] for n in among])
    for fold in range(count):
        yield among[folds != fold], among[folds == fold]


def probed(x: Numbers, y: Numbers, stems: Sequence[str], count: int, rng: np.random.Generator) -> Numbers:
    """What ridge regression says of each answer (N, C) in its test fold; the penalty is chosen inside the training folds."""
    said = np.zeros(y.shape)
    for train, test in dealt(stems, np.arange(len(x)), count, rng):
        errors = np.zeros(len(PENALTIES))
        for a, b in dealt(stems, train, INNER, rng):
            errors += [((one - y[b]) ** 2).sum() for one in ridge(x[a], y[a], x[b], PENALTIES)]
        (said[test],) = ridge(x[train], y[train], x[test], [PENALTIES[int(errors.argmin())]])
    return said


def ridge(x: Numbers, y: Numbers, new: Numbers, penalties: Sequence[float]) -> Iterator[Any]:
    """Fit with each penalty to x (N, D), standardised by its own mean and spread, and y (N, C); what is said of `new` (M, D)."""
    mean, spread = x.mean(axis=0), x.std(axis=0)
    spread[spread == 0] = 1.0
    x, new, middle = (x - mean) / spread, (new - mean) / spread, y.mean(axis=0)
    values, vectors = np.linalg.eigh(x.T @ x)
    turned, target = new @ vectors, vectors.T @ (x.T @ (y - middle))
    for penalty in penalties:
        yield turned @ (target / (values + penalty)[:, None]) + middle
