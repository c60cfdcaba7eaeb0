"""Claims, tested: against records that are here, or again, their experiments run anew with fresh seeds.

Statistics are read at a level that keeps false alarms over all claims at or below 1 %: each gets 1 % divided by their
number (Bonferroni). An alarm is a claim that fails: its whole interval misses the bound.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

from cutaway.lab.claims import Claim, Verdict
from cutaway.lab.experiment import Experiment
from cutaway.lab.measurement import Measurement
from cutaway.lab.plan import Skipped, Task, claims_of, the_experiment
from cutaway.lab.record import Record
from cutaway.lab.runner import attempt
from cutaway.progress import Progress

FALSE_ALARMS = 0.01
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True)
class Checked:
    """One claim on one model: what was measured, and whether it holds. `why`: why there is nothing measured."""

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

    @property
    def measured(self) -> str:
        """The value with its interval and n, or why there is none."""
        return str(self.found) if self.found and self.found.value is not None else self.why

    def to_dict(self) -> dict[str, Any]:
        of = str(self.claim.of)
        found = self.found.to_dict() if self.found else None
        return asdict(self) | {"claim": asdict(self.claim) | {"of": of}, "found": found, "said": self.said}


@dataclass(frozen=True)
class Verification:
    """All claims that were tested. `level`: the confidence at which each statistic was read; `facts`: of each model;
    `seconds`: what each experiment took on each.
    """

    seed: int
    level: float
    claims: tuple[Checked, ...]
    facts: tuple[Mapping[str, Any], ...]
    seconds: Mapping[str, float]

    @property
    def failed(self) -> tuple[Checked, ...]:
        return tuple(c for c in self.claims if c.verdict == "fails")

    @property
    def summary(self) -> str:
        return summary(self.claims)

    def to_dict(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "level": self.level,
            "summary": self.summary,
            "claims": [c.to_dict() for c in self.claims],
            "facts": [dict(one) for one in self.facts],
            "seconds": dict(self.seconds),
        }

    def _repr_html_(self) -> str:
        from cutaway.render import render

        return render("verification.html", result=self)


def summary(claims: Sequence[Checked]) -> str:
    """`12 claims: 11 hold, 1 not measured here`"""
    counts = Counter[str](c.verdict for c in claims)
    words = {"holds": ("hold", "holds"), "fails": ("fail", "fails")}
    parts = [f"{n} {words.get(verdict, (verdict, verdict))[n == 1]}" for verdict in VERDICTS if (n := counts[verdict])]
    return f"{len(claims)} claim{'s' * (len(claims) != 1)}: {', '.join(parts) or 'none'}"


def level_for(tasks: Sequence[Task]) -> float:
    """The confidence at which every statistic is read; equalities raise no false alarm and are not counted."""
    return 1 - FALSE_ALARMS / max(1, sum(claim.statistical for task in tasks for claim in claims_of(task)))


def verify(tasks: Sequence[Task], progress: Callable[[Task], Progress]) -> Verification:
    """Run the experiments of all tasks and check their claims. Raises what an experiment raises, but for what is not here."""
    level = level_for(tasks)
    checked: list[Checked] = []
    facts: dict[str, Mapping[str, Any]] = {}
    seconds: dict[str, float] = {}
    for task in tasks:
        if not (claims := claims_of(task)):
            continue
        found = attempt(replace(task, level=level), None, progress(task))
        if isinstance(found, Skipped):
            checked += [Checked(task.experiment, task.model, claim, None, "not measured here", found.why) for claim in claims]
            continue
        checked += check(the_experiment(task), found)
        seconds[str(task)] = found.facts["seconds"]
        if found.model:
            facts[found.model_name] = {**found.model, "threads": found.facts["threads"]}
    return Verification(tasks[0].seed if tasks else 0, level, tuple(checked), tuple(facts.values()), seconds)


def check(e: Experiment, record: Record) -> Iterator[Checked]:
    """The claims about a record's kind of model, against what it holds. A record of another version says nothing about them."""
    model = record.model_name if record.model else None
    for claim in e.claims_on(record):
        if record.version != e.version:
            why = f"the record is of version {record.version}, and the experiment of version {e.version}"
            yield Checked(e.name, model, claim, None, "not measured here", why)
            continue
        found = record.find(claim.measurement)
        why = found.note if found else "the experiment gave no such measurement"
        yield Checked(e.name, model, claim, found, claim.check(found), why)
