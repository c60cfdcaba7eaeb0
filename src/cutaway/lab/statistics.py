"""How sure is a number? Intervals for shares and for means over groups; every one is at a stated confidence level."""

from collections.abc import Hashable, Sequence
from math import inf, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
RESAMPLES = 10_000


def share_interval(k: float, n: int, level: float) -> tuple[float, float]:
    """The score interval of a share k of n (Wilson 1927, "Probable Inference", equation 5); right at 0 and n too.

    >>> [round(end, 3) for end in share_interval(0, 90, 0.95)]
    [0.0, 0.041]
    """
    z = NormalDist().inv_cdf(0.5 + level / 2)
    middle = (k + z * z / 2) / (n + z * z)
    reach = z / (n + z * z) * sqrt(k * (n - k) / n + z * z / 4)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def mean_interval(
    values: Sequence[float] | Numbers,
    level: float,
    rng: np.random.Generator,
    groups: Sequence[Hashable] | None = None,
    within: tuple[float, float] | None = None,
) -> tuple[float, float]:
    """Student's interval of independent values, which serves few and is cheap for many; where they come in groups, `bootstrap`.

    within: the least and most that a value can be; no end is beyond them. Where all values agree neither interval sees a spread;
    the reach is then that of a share that so many, or so many groups, speak for and none against.
    """
    mean, (least, most) = float(np.mean(values)), within or (-inf, inf)
    if within and np.ptp(values) == 0:
        reach = (most - least) * share_interval(0, len(values if groups is None else set(groups)), level)[1]
    elif groups is None:
        from scipy.stats import t

        reach = float(t.ppf(0.5 + level / 2, len(values) - 1)) * float(np.std(values, ddof=1)) / sqrt(len(values))
    else:
        low, high = bootstrap(values, level, rng, groups)
        return max(least, low), min(most, high)
    return max(least, mean - reach), min(most, mean + reach)


def bootstrap(
    values: Sequence[float] | Numbers, level: float, rng: np.random.Generator, groups: Sequence[Hashable] | None = None
) -> tuple[float, float]:
    """Percentile interval of the mean, resampled by group: what is not independent (twins of one pair) stays together."""
    each = np.asarray(values, dtype=np.float64)
    named = {group: place for place, group in enumerate(dict.fromkeys(groups))} if groups is not None else {}
    place = np.array([named[group] for group in groups]) if groups is not None else np.arange(len(each))
    totals, counts = np.bincount(place, weights=each), np.bincount(place)  # of each group, (G)
    count = len(totals)
    drawn = rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES)  # how often each group was drawn, (R, G)
    low, high = np.quantile((drawn @ totals) / (drawn @ counts), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def median_interval(
    values: Sequence[float] | Numbers, level: float, rng: np.random.Generator, groups: Sequence[Hashable]
) -> tuple[float, float]:
    """Percentile interval of the median, resampled by group. Of an even number the lower of the two in the middle is the median."""
    each = np.asarray(values, dtype=np.float64)
    order = np.argsort(each, kind="stable")
    named = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    place = np.array([named[group] for group in groups])[order]
    drawn = rng.multinomial(len(named), np.full(len(named), 1 / len(named)), size=RESAMPLES // 5)  # (R, G)
    reached = drawn[:, place].cumsum(axis=1)  # how many of the resampled values are no larger, (R, N)
    medians = each[order][(2 * reached >= reached[:, -1:]).argmax(axis=1)]
    low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
