"""Claims, tested again: their experiments run anew, with fresh seeds, on the models that are here.

Statistics are read at a level that keeps false alarms over all claims at or below 1 %: each gets 1 % divided by their
number (Bonferroni). An alarm is a claim that fails: its whole interval misses the bound.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from cutaway.errors import TextError
from cutaway.lab.claims import Claim, Verdict
from cutaway.lab.experiment import Experiment, NotTrainedError, Progress
from cutaway.lab.measurement import Measurement
from cutaway.lab.runner import Task, loaded, perform, the_experiment

FALSE_ALARMS = 0.01


@dataclass(frozen=True)
class Checked:
    """One claim on one model: what was measured, and whether it holds."""

    experiment: str
    model: str | None
    claim: Claim
    found: Measurement | None
    verdict: Verdict
    why: str = ""

    @property
    def said(self) -> str:
        """`e03_trophy:it.max_abs_diff[causal] == 0 · exact`"""
        about = f"[{self.claim.of}]" if self.model else ""
        kind = f" · {self.found.kind}" if self.found else ""
        return f"{self.experiment}:{self.claim.measurement}{about} {self.claim.compare} {self.claim.bound}{kind}"

    def to_dict(self) -> dict[str, Any]:
        of = str(self.claim.of)
        found = self.found.to_dict() if self.found else None
        return asdict(self) | {"claim": asdict(self.claim) | {"of": of}, "found": found, "said": self.said}


def claims_of(task: Task) -> tuple[Experiment, tuple[Claim, ...]]:
    e = the_experiment(task)
    model = loaded(task.model, task.dtype, task.device, task.offline) if task.model else None
    return e, e.claims_about(model)


def level_for(tasks: Sequence[Task]) -> float:
    """The confidence at which every statistic is read. Exact claims cannot raise a false alarm, and count here all the same."""
    return 1 - FALSE_ALARMS / max(1, sum(len(claims_of(task)[1]) for task in tasks))


def verify(tasks: Sequence[Task], progress: Callable[[Task], Progress]) -> Iterator[Checked]:
    """Check the claims of each task, one task after the other."""
    level = level_for(tasks)
    for task in tasks:
        e, claims = claims_of(task)
        if not claims:
            continue
        try:
            made = perform(replace(task, level=level), None, progress(task))
        except (NotTrainedError, TextError) as missing:  # a model to be trained first, or data that are not here
            for claim in claims:
                yield Checked(e.name, task.model, claim, None, "not measured here", str(missing))
            continue
        for claim in claims:
            found = made.find(claim.measurement)
            why = found.note if found else "the experiment gave no such measurement"
            yield Checked(e.name, task.model, claim, found, claim.check(found), why)
