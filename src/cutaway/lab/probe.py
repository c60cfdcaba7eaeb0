"""A linear probe: can a straight cut through the residual stream tell which noun is meant?

Asked of twins, two sentences each, which mean different nouns. Both stand in one fold, so labels are balanced in every
fold, and a probe that gives both the same output is right about exactly one of them. Not here: where the vectors come from.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]
INNER = 3  # folds, to choose the penalty
# Chosen on pilot seeds 11 and 12, as the number of folds.
STRENGTHS = (1e-2, 1.0, 100.0)  # inverse strength of the L2 penalty; of those equally good the strongest penalty is taken


@dataclass(frozen=True)
class Groups:
    """What twins have in common, a value each: a probe is never tested on a frame or a pair of nouns that it was fitted to."""

    frames: Sequence[Hashable]
    nouns: Sequence[Hashable]

    def folds(self, among: Places, count: int, rng: np.random.Generator) -> Iterator[tuple[Places, Places]]:
        """Places (train, test) of `among`: frames are dealt to the folds, and training drops twins whose nouns the test has.

        So every twin is tested once, and the test sets stay balanced whatever training loses.
        """
        frames = sorted({self.frames[n] for n in among}, key=str)
        fold_of = {frame: place % count for place, frame in enumerate(rng.permutation(np.array(frames, dtype=object)))}
        for fold in range(count):
            test = [n for n in among if fold_of[self.frames[n]] == fold]
            seen = {self.nouns[n] for n in test}
            train = [n for n in among if fold_of[self.frames[n]] != fold and self.nouns[n] not in seen]
            yield np.array(train), np.array(test)


def outputs(x: Numbers, y: Places, groups: Groups, count: int, rng: np.random.Generator) -> Numbers:
    """What the probe says of each sentence (N, 2) when its twin is in the test fold: above 0 means label 1.

    x (N, 2, D): a vector of each sentence of each twin; y (N, 2): its label, 0 or 1. The penalty is chosen inside the
    training folds, by the same scheme.
    """
    said = np.zeros(y.shape)
    for train, test in groups.folds(np.arange(len(x)), count, rng):
        inner = list(groups.folds(train, INNER, rng))
        scores = [sum(right(fitted(x, y, a, b, strength), y[b]).sum() for a, b in inner) for strength in STRENGTHS]
        said[test] = fitted(x, y, train, test, STRENGTHS[int(np.argmax(scores))])
    return said


def right(said: Numbers, y: Places) -> NDArray[np.bool_]:
    hit: NDArray[np.bool_] = (said > 0) == (y == 1)
    return hit


def fitted(x: Numbers, y: Places, train: Places, test: Places, strength: float) -> Numbers:
    """Fit to the training twins, standardised by their own mean and spread; the outputs (n, 2) for the test twins."""
    from sklearn.linear_model import LogisticRegression

    flat = x[train].reshape(-1, x.shape[-1])
    mean, spread = flat.mean(axis=0), flat.std(axis=0)
    spread[spread == 0] = 1.0
    probe = LogisticRegression(C=strength, solver="newton-cholesky")
    probe.fit((flat - mean) / spread, y[train].ravel())
    # One sentence of each twin at a time: the same vectors in the same shape, so that equal ones give bit-equal outputs.
    sides = [((x[test, side] - mean) / spread) @ probe.coef_[0] + probe.intercept_[0] for side in (0, 1)]
    return np.stack(sides, axis=1)
