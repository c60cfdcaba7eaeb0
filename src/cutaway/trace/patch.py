"""Patching: which places carry the answer? What one run held at a place is written into the run of another text.

    effect = (LD_patched − LD_own) / (LD_donor − LD_own)        LD = log p(first) − log p(second)

0: the run still gives its own answer; 1: it gives the donor's. Denoising writes what the clean text's run held into the
corrupt text's, and this is (LD_patched − LD_corrupt) / (LD_clean − LD_corrupt); noising is the same the other way round.

Every number compares one row of a batch with the same row of another run in the same shape. So a patch that changes
nothing moves the answer by exactly 0, and what differs is no kernel's rounding. Not here: means over pairs and their
intervals, which are the lab's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from cutaway.errors import EditError, ModelError, TextError
from cutaway.trace import edit
from cutaway.trace.columns import go_on, read
from cutaway.trace.edit import PER_HEAD, editing, no_such_tap
from cutaway.trace.odds import LogOdds, log_odds

if TYPE_CHECKING:
    from cutaway.model import Model

LEAST = 0.1  # nats
TOKENS = 256  # of one batch of sites: enough to keep the kernels busy, and few, since the runs that are compared have as many

Text = str | Sequence[int]
Texts = Text | Sequence[Text]
Places = Sequence[int | Sequence[int]]
Masks = dict[str, Tensor]  # where a tap is patched, by its name: (B, T, 1), or (B, H, T, 1) within a head


@dataclass(frozen=True)
class Site:
    """What is patched at once: one tap at some positions (mostly one), and some heads (mostly one) of a tap that has them."""

    tap: str
    positions: tuple[int, ...]
    heads: tuple[int, ...] | None = None

    @property
    def layer(self) -> int | None:
        """The block's number; None outside the blocks."""
        return int(self.tap.split(".")[1]) if self.tap.startswith("blocks.") else None

    def to_dict(self) -> dict[str, Any]:
        heads = None if self.heads is None else list(self.heads)
        return {"tap": self.tap, "layer": self.layer, "positions": list(self.positions), "heads": heads}


@dataclass(frozen=True)
class Patched:
    """One pair of texts. Effects are in the order of the sites; None where a direction was not asked for, or not possible.

    odds: LD in nats of the clean and of the corrupt run. differing: the positions at which the texts differ.
    neutral: the clean run with what its neutral twin held, as a share of what the corrupt text would move.
    before: the largest effect at sites that lie before the first difference, exactly 0 in a causal model; None without such
    sites. itself: do the clean run's logits stay as they are, bit for bit, when all that it held at all sites is written
    back? whole: the effect of `embed` at every differing position at once, exactly 1 if the measure is complete.
    """

    tokens: tuple[tuple[str, ...], tuple[str, ...]]
    at: int
    odds: tuple[float, float]
    differing: tuple[int, ...]
    denoising: tuple[float, ...] | None
    noising: tuple[float, ...] | None
    neutral: tuple[float, ...] | None
    before: float | None
    itself: bool
    whole: float

    def to_dict(self) -> dict[str, Any]:
        return {name: listed(value) for name, value in vars(self).items()}


@dataclass(frozen=True)
class PatchSweep:
    """The effect of each site in each pair of texts. Pairs whose clean and corrupt odds are less than `least` nats apart are left out."""

    sites: tuple[Site, ...]
    pairs: tuple[Patched, ...]
    left_out: int
    least: float
    facts: dict[str, Any]

    def effects(self, direction: str = "denoising") -> Tensor:
        """(pairs, sites); NaN for a pair that was not measured in this direction: denoising, noising or neutral."""
        rows = [getattr(pair, direction) for pair in self.pairs]
        return torch.tensor([row or [float("nan")] * len(self.sites) for row in rows], dtype=torch.float64).view(-1, len(self.sites))

    def to_dict(self) -> dict[str, Any]:
        sites, pairs = ([one.to_dict() for one in many] for many in (self.sites, self.pairs))
        return {"sites": sites, "pairs": pairs, "left_out": self.left_out, "least": self.least, "facts": self.facts}

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.patch(self)


def patch_sweep(
    model: "Model",
    clean: Texts,
    corrupt: Texts,
    taps: str | Sequence[str],
    metric: LogOdds | Sequence[LogOdds],
    *,
    positions: Places | None = None,
    heads: Places | None = None,
    neutral: Texts | None = None,
    both: bool = True,
    least: float = LEAST,
) -> PatchSweep:
    """Patch every tap at every position (and head) of one or several pairs of texts, each site on its own.

    Texts are strings or ids; those of a pair have equal lengths. Tap names may hold `*`. positions, heads: which ones;
    several that are grouped, as in [3, (4, 5)], are patched together; without them each one that there is. both: noising
    as well as denoising. neutral: a third text that means what the clean one does, as a control.

    Raises TapError for a name that matches no tap, EditError for a site that is not there or a tap without positions,
    TextError for texts that do not pair up, ModelError for a model without words to predict.
    """
    if model.config.head not in ("lm", "mlm"):
        raise ModelError(f"{model.name} predicts no words, so it has no log odds", expected="a language-model or masked-word head")
    texts = [ids_of(model, given) for given in (clean, corrupt, neutral if neutral is not None else clean)]
    metrics = [metric] * len(texts[0]) if isinstance(metric, LogOdds) else list(metric)
    counts = {"clean": len(texts[0]), "corrupt": len(texts[1]), "neutral": len(texts[2]), "metric": len(metrics)}
    if len(set(counts.values())) > 1 or not metrics:
        raise TextError("The numbers of texts differ: " + ", ".join(f"{n} {name}" for name, n in counts.items()), expected="pairs")
    pairs = [Pair(model, a, b, c if neutral is not None else None, asked) for a, b, c, asked in zip(*texts, metrics, strict=True)]
    names = [taps] if isinstance(taps, str) else taps
    sites = tuple(sites_of(model, [len(pair.clean) for pair in pairs], names, positions, heads))
    if not sites:
        raise EditError("There is nothing to patch", expected="at least one tap, and one position")
    patched = [pair.patched(sites, both, least) for pair in pairs]
    kept = tuple(one for one in patched if one is not None)
    facts = model.facts() | {"kernel": "eager", "edits": list(model.listed_edits)}
    return PatchSweep(sites, kept, len(patched) - len(kept), least, facts)


class Pair:
    """A clean and a corrupt text of equal length, and what is asked of them."""

    def __init__(self, model: "Model", clean: list[int], corrupt: list[int], neutral: list[int] | None, asked: LogOdds) -> None:
        if len(clean) != len(corrupt):
            raise TextError(f"The clean text has {len(clean)} tokens and the corrupt one {len(corrupt)}", expected="equal lengths")
        if clean == corrupt:
            raise TextError(f"The clean and the corrupt text are the same to {model.name}", expected="two that differ")
        self.model, self.clean, self.corrupt = model, clean, corrupt
        self.neutral = neutral if neutral is not None and len(neutral) == len(clean) else None
        self.differing = tuple(n for n, (x, y) in enumerate(zip(clean, corrupt, strict=True)) if x != y)
        self.common = next(n for n, held in enumerate(zip(clean, corrupt, self.neutral or clean, strict=True)) if len(set(held)) > 1)
        self.first, self.second = asked.ids(model)
        self.at = asked.place(model, clean)
        if asked.place(model, corrupt) != self.at:
            raise TextError("The clean and the corrupt text have their masks at different positions", expected="the same one")

    @torch.no_grad()
    def patched(self, sites: Sequence[Site], both: bool, least: float) -> Patched | None:
        """None if the two answers are less than `least` apart, or the same."""
        batch = Batch(self, sites)
        clean, corrupt = batch.run(self.clean), batch.run(self.corrupt)
        odds = (clean.odds[0].item(), corrupt.odds[0].item())
        if odds[0] == odds[1] or not abs(odds[0] - odds[1]) >= least:
            return None
        denoising = batch.effects(corrupt, clean, clean)
        noising = batch.effects(clean, corrupt, corrupt) if both else None
        neutral = batch.effects(clean, batch.run(self.neutral), corrupt) if self.neutral is not None else None
        at_once = batch.run(self.corrupt, {"embed": batch.mask("embed", self.differing)}, clean)
        again = batch.run(self.clean, {tap: batch.mask(tap) for tap in batch.kept}, clean)
        return Patched(
            tokens=(words(self.model, self.clean), words(self.model, self.corrupt)),
            at=self.at,
            odds=odds,
            differing=self.differing,
            denoising=denoising,
            noising=noising,
            neutral=neutral,
            before=self.before(sites, [row for row in (denoising, noising) if row is not None]),
            itself=all(torch.equal(x, y) for x, y in zip(again.logits, clean.logits, strict=True)),
            whole=share(at_once, corrupt, clean)[0],
        )

    def before(self, sites: Sequence[Site], effects: Sequence[Sequence[float]]) -> float | None:
        """The largest effect of the sites that lie before the first difference."""
        found = [abs(row[n]) for n, site in enumerate(sites) if max(site.positions) < self.differing[0] for row in effects]
        return max(found, default=None)


@dataclass(frozen=True)
class Run:
    """A batch of rows of one text: odds (B), and of each time the model ran, the logits from the answer's place on and the taps held."""

    text: Sequence[int]
    odds: Tensor
    logits: tuple[Tensor, ...]
    taps: tuple[dict[str, Tensor], ...]


class Batch:
    """Runs of equal shape: each row is the same text, and has its own site patched.

    Of a causal model what both texts begin with, before any site, is read once.
    """

    def __init__(self, pair: Pair, sites: Sequence[Site]) -> None:
        self.pair, self.model, self.sites = pair, pair.model, sites
        self.kept = {site.tap for site in sites} | {"embed"}
        reads_on = self.model.config.causal and not self.model.edits  # edits name positions of whole texts
        self.start = min(pair.common, pair.at, *(min(site.positions) for site in sites)) if reads_on else 0
        self.width = len(pair.clean) - self.start
        self.rows = min(len(sites), max(1, TOKENS // self.width))
        self.beginning = read(self.model, self.ids(pair.clean)[:, : self.start])

    def ids(self, text: Sequence[int]) -> Tensor:
        return torch.tensor(text, device=self.model.device).expand(self.rows, -1)  # (B, T)

    def run(self, text: Sequence[int], masks: Masks | None = None, donor: Run | None = None) -> Run:
        """The text, with the donor's values where the masks are true."""
        logits: list[Tensor] = []
        taps: list[dict[str, Tensor]] = []
        at = self.pair.at - self.start

        def forward(ids: Tensor) -> Tensor:
            held: dict[str, Tensor] = {}

            def see(name: str, x: Tensor) -> Tensor:
                if donor is None and name in self.kept:
                    held[name] = x
                if donor is not None and masks and name in masks:
                    behind = ids.shape[1] - self.width  # pieces of the word asked
                    x = torch.where(pad(masks[name], (0, 0, 0, behind)), donor.taps[len(taps)][name], x)
                return x

            out = go_on(self.model, self.beginning, ids, editing(self.model.edits, see))
            logits.append(out[:, at:])
            taps.append(held)
            return out

        odds = log_odds(forward, self.ids(text)[:, self.start :], self.pair.first, self.pair.second, at)
        return Run(text, odds, tuple(logits), tuple(taps))

    def effects(self, own: Run, donor: Run, goal: Run) -> tuple[float, ...]:
        """How far each site, patched from `donor` into `own`, moves the odds of that row towards those of `goal`."""
        found: list[float] = []
        for start in range(0, len(self.sites), self.rows):
            part = self.sites[start : start + self.rows]
            found += share(self.run(own.text, self.masks(part), donor), own, goal)[: len(part)]
        return tuple(found)

    def masks(self, sites: Sequence[Site]) -> Masks:
        """Row n is patched at site n."""
        made: Masks = {}
        for row, site in enumerate(sites):
            if site.tap not in made:
                made[site.tap] = torch.zeros_like(self.mask(site.tap))
            made[site.tap][row] = self.mask(site.tap, site.positions, site.heads)[row]
        return made

    def mask(self, tap: str, positions: Sequence[int] | None = None, heads: Sequence[int] | None = None) -> Tensor:
        """True at these positions and heads (all there are) in every row: (B, T, 1), or (B, H, T, 1) within a head."""
        mask = true_at(None if positions is None else [place - self.start for place in positions], self.width)[:, None]
        if tap.endswith(PER_HEAD):
            mask = true_at(heads, heads_of(self.model, tap))[:, None, None] & mask
        return mask.to(self.model.device).expand(self.rows, *mask.shape)


def true_at(which: Sequence[int] | None, size: int) -> Tensor:
    mask = torch.zeros(size, dtype=torch.bool)
    mask[list(range(size) if which is None else which)] = True
    return mask


def share(patched: Run, own: Run, goal: Run) -> list[float]:
    """How far each row came from its own odds (0) to those of its goal (1)."""
    moved, whole = patched.odds.double() - own.odds.double(), goal.odds.double() - own.odds.double()
    return (moved / whole + 0.0).tolist()  # no -0.0


def heads_of(model: "Model", tap: str) -> int:
    return model.config.key_heads if tap.endswith(("attn.k", "attn.v")) else model.config.heads


def sites_of(model: "Model", lengths: Sequence[int], taps: Sequence[str], positions: Places | None, heads: Places | None) -> Iterator[Site]:
    """Every tap at every position and head asked for, or that there is."""
    counted = positions is not None and all(place >= 0 for group in positions for place in edit.listed(group))
    if len(set(lengths)) > 1 and not counted:
        raise TextError(f"The pairs have {min(lengths)} to {max(lengths)} tokens", expected="one length, or positions counted from 0")
    for name in taps:
        matching = [tap for tap in model.taps if fnmatchcase(tap, name)]
        if not matching:
            raise no_such_tap(name, model.taps)
        for tap in matching:
            within = tap.endswith(PER_HEAD)
            if heads is not None and not within:
                raise EditError(f"{tap} has no heads", expected="one of the taps within a head: " + ", ".join(PER_HEAD))
            asked = groups(heads, heads_of(model, tap), "head", tap) if within else [None]
            yield from (Site(tap, places, head) for places in groups(positions, min(lengths), "position", tap) for head in asked)


def groups(which: Places | None, size: int, kind: str, tap: str) -> list[tuple[int, ...]]:
    each = range(size) if which is None else which
    return [tuple(edit.chosen(one, size, kind, tap).tolist()) for one in each]


def ids_of(model: "Model", given: Texts) -> list[list[int]]:
    """The ids of one text or several; ids are taken as they are."""
    texts = [given] if isinstance(given, str) or (given and isinstance(given[0], int)) else given
    return [[piece.id for piece in model.pieces(text)] if isinstance(text, str) else list(text) for text in texts]  # type: ignore[arg-type]


def words(model: "Model", ids: Sequence[int]) -> tuple[str, ...]:
    """Each token as text; of a model without a tokenizer, its number."""
    try:
        return tuple(model.tokenizer.decode([one]) for one in ids)
    except ModelError:
        return tuple(map(str, ids))


def listed(value: Any) -> Any:
    return [listed(one) for one in value] if isinstance(value, tuple) else value
