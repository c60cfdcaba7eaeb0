"""An experiment: a function that measures, with a name, a chapter, a version and the kind of model that it needs.

    @experiment("e03_lookup", chapter="03", version=1, question="…", needs=None, claims=(Claim(…),))
    def lookup(run: Run, *, widths: tuple[int, ...] = (8, 64)) -> Iterator[Measurement]:
        for d in widths:
            yield run.mean("recall", run.units(f"d={d}", range(100), partial(recall, d)), at={"d": d})

Its keyword arguments are its parameters, typed and with defaults. Its claims and charts stand beside it. What it measured
becomes a record elsewhere: an experiment writes nothing.
"""

import inspect
import json
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from cutaway.errors import LabError, ModelError
from cutaway.lab.claims import Claim, Needs
from cutaway.lab.measurement import Measurement, Value
from cutaway.lab.statistics import Numbers, mean_interval, median_interval, share_interval
from cutaway.progress import Progress, silent

if TYPE_CHECKING:
    from cutaway.charts import Chart
    from cutaway.lab.record import Record
    from cutaway.model import Model

T = TypeVar("T")
Function = Callable[..., Iterable[Measurement]]
Charts = Callable[[Sequence["Record"]], Mapping[str, "Chart"]]  # by title, of the records of all models


class NotTrainedError(ModelError):
    """A measurement needs a model that would have to be trained first, and this run may not."""


@dataclass
class Run:
    """One run of an experiment: what it is given, where it reports, and how its numbers become measurements.

    `done` holds the results of units of work that an earlier, stopped run finished; the lab keeps it in the ledger.
    """

    _model: "Model | None" = None
    seed: int = 1
    level: float = 0.95  # confidence of every interval
    data: Path | None = None  # where the data sets lie; see `cutaway.lab.data`
    models: Path | None = None  # where models that experiments train are kept; None: they are not
    may_train: bool = True
    progress: Progress = silent
    done: MutableMapping[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> "Model":
        if self._model is None:
            raise ModelError("This experiment was started without a model", then="give one: --model NAME")
        return self._model

    def rng(self, purpose: str) -> np.random.Generator:
        """Random numbers for one purpose: those for another do not move them."""
        return np.random.default_rng([self.seed, zlib.crc32(purpose.encode())])

    def units(self, label: str, items: Sequence[T], measure: Callable[[T], Any]) -> list[Any]:
        """`measure` each item, from where a stopped run left off. What it returns must be JSON, and comes back as such."""
        found = []
        for place, item in enumerate(items):
            self.progress(label, place, len(items))
            key = f"{label}/{place}"
            if key not in self.done:
                self.done[key] = json.loads(json.dumps(measure(item)))  # a resumed run gets just what this one gets
            found.append(self.done[key])
        self.progress(label, len(items), len(items))
        return found

    def train_once(self, key: str, train: Callable[[Path], None]) -> Path:
        """The folder that `train` filled: now, or in an earlier run with the same key.

        It is there whole or not at all, and of two processes that train the same the first one's stays. `key` must hold all
        that shapes the training: the configuration, the seed, a hash of the code. Raises NotTrainedError where it may not
        train, LabError where the folder cannot be written.
        """
        home = self.models or Path(mkdtemp(prefix="cutaway-"))
        folder = home / key
        if folder.is_dir():
            return folder
        if not self.may_train:
            raise NotTrainedError("a model that this needs was not trained here", then="cutaway verify --full trains it")
        try:
            home.mkdir(parents=True, exist_ok=True)
            unfinished = Path(mkdtemp(prefix=f".{key}.", dir=home))
        except OSError as error:
            given = f"What is trained cannot be kept in {home}: {error.strerror}"
            raise LabError(given, then="set CUTAWAY_CACHE to a folder that can be written") from None
        try:
            train(unfinished)
            with suppress(OSError) if folder.is_dir() else nullcontext():  # another process may have been first
                unfinished.replace(folder)
        finally:
            rmtree(unfinished, ignore_errors=True)
        return folder

    def exact(self, name: str, value: Value, unit: str = "", *, at: Mapping[str, Any] | None = None, n: int | None = None) -> Measurement:
        """An integer, an equality inside this run, or a number that only describes: claimed exactly or not at all."""
        return Measurement(name, value, unit, "exact", n=n, at=at or {})

    def share(self, name: str, k: float, n: int, *, at: Mapping[str, Any] | None = None) -> Measurement:
        """k of n, with a score interval."""
        return Measurement(name, k / n, "share", "statistic", share_interval(k, n, self.level), self.level, n, at or {})

    def mean(
        self,
        name: str,
        values: Sequence[float] | Numbers,
        unit: str = "",
        *,
        groups: Sequence[Hashable] | None = None,
        within: tuple[float, float] | None = None,
        at: Mapping[str, Any] | None = None,
    ) -> Measurement:
        """A mean with its interval, resampled by group if groups are given; n counts the values.

        within: the least and most that a value can be; then the interval has a width even where all values agree.
        """
        where = at or {}
        interval = mean_interval(values, self.level, self.rng(f"bootstrap {name} {where}"), groups, within)
        return Measurement(name, float(np.mean(values)), unit, "statistic", interval, self.level, len(values), where)

    def median(
        self,
        name: str,
        values: Sequence[float] | Numbers,
        unit: str = "",
        *,
        groups: Sequence[Hashable],
        at: Mapping[str, Any] | None = None,
    ) -> Measurement:
        """A median with its interval, resampled by group; n counts the values."""
        where = at or {}
        interval = median_interval(values, self.level, self.rng(f"bootstrap {name} {where}"), groups)
        middle = float(np.quantile(values, 0.5, method="inverted_cdf"))
        return Measurement(name, middle, unit, "statistic", interval, self.level, len(values), where)

    def ratio(self, name: str, ratios: Sequence[float], unit: str, *, at: Mapping[str, Any] | None = None) -> Measurement:
        """The median of ratios of two times, taken in alternating pairs inside this run, with its interval."""
        median = self.median(name, ratios, unit, groups=range(len(ratios)), at=at)
        return replace(median, kind="timing")

    def absent(self, name: str, why: str, *, at: Mapping[str, Any] | None = None) -> Measurement:
        """Not measured here, and why."""
        return Measurement(name, None, at=at or {}, note=why)


@dataclass(frozen=True)
class Experiment:
    """What the decorator makes of the function."""

    name: str
    chapter: str
    version: int
    question: str
    function: Function
    needs: Needs | None  # None: no model at all
    claims: tuple[Claim, ...]
    charts: Charts | None
    trains: bool  # trains models of its own, so `verify` leaves it out unless asked
    data: tuple[str, ...]  # names of data sets in `cutaway.lab.data`
    not_shown: str = ""  # what nobody should take from its figures: they do not show …

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Keyword-only arguments: name, type, default."""
        return {name: p for name, p in inspect.signature(self.function).parameters.items() if p.kind is p.KEYWORD_ONLY}

    def measure(self, run: Run, **parameters: Any) -> Iterator[Measurement]:
        """Run it. Raises ModelError for a model of the wrong kind, or a parameter that it does not have."""
        if self.needs is not None and (why := self.needs.why_not(run.model)):
            raise ModelError(f"{self.name} does not fit: {why}", expected=f"a model of the kind: {self.needs}")
        if unknown := set(parameters) - set(self.parameters):
            raise ModelError(f"{self.name} has no parameter {', '.join(sorted(unknown))}", expected=", ".join(self.parameters) or "none")
        yield from self.function(run, **parameters)

    def claims_about(self, model: "Model | None") -> tuple[Claim, ...]:
        return tuple(claim for claim in self.claims if model is None or not claim.of.why_not(model))

    def claims_on(self, record: "Record") -> tuple[Claim, ...]:
        """The claims about a model of the record's kind."""
        if (m := record.model) is None:
            return self.claims
        return tuple(claim for claim in self.claims if not claim.of.unlike(m["model"], m["causal"], m["head"], m["nano"]))


def experiment(
    name: str,
    *,
    chapter: str,
    version: int,
    question: str,
    needs: Needs | None,
    claims: tuple[Claim, ...] = (),
    charts: Charts | None = None,
    trains: bool = False,
    data: tuple[str, ...] = (),
    not_shown: str = "",
) -> Callable[[Function], Experiment]:
    """Make a function an experiment; see the module's own text."""
    return lambda function: Experiment(name, chapter, version, question, function, needs, claims, charts, trains, data, not_shown)
