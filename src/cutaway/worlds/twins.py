"""The test sets: twins, two sentences that differ in the deciding word alone and mean different nouns.

Balanced: every frame, order of mention and polarity as often, and each deciding word as often for the first noun as for
the second. So whatever ignores the frame or the order is right half of the time.
"""

import itertools
import random
from dataclasses import dataclass, replace

from cutaway.worlds.frames import FRAMES, Cue, Frame, cell_held_out, cues
from cutaway.worlds.nouns import CLASSES, UNSEEN, held_out
from cutaway.worlds.passages import Scene, distractor, pronoun_of

REVEAL = " The"  # what reveals the answer begins so, and then has to name one of the two nouns

# What each tier tests. "pairs" carries the bound; the others are reported as found. The last two are the harder ones.
TIERS = {
    "pairs": "two nouns never seen together in training; every noun, frame and deciding word was seen",
    "cells": "a deciding phrase never seen with this frame, in either order",
    "nouns": "nouns never seen in a frame with a pronoun",
    "early": "the deciding word stands before the pronoun",
    "distractors": "three sentences about other things before the answer",
    "echo": "a sentence of the answer's own form, about another noun, before the answer",
    "chains": "a second event between two other nouns, half of them with their own pronoun and reason, before the answer",
}


@dataclass(frozen=True)
class Twin:
    """Two sentences and a neutral one. `nouns` are in order of mention; a means nouns[means[0]], b means nouns[means[1]].

    The revealing continuation of each is " The" and then the noun; `rest` completes it, for models that read both ways.
    """

    a: str
    b: str
    neutral: str  # a with a synonym: it means what a means
    nouns: tuple[str, str]
    means: tuple[int, int]
    pronoun: str
    rest: tuple[str, str]
    frame: str
    order: int
    words: tuple[str, str]


def twin_set(tier: str = "pairs", seed: int = 2026) -> list[Twin]:
    """One twin for each frame, order of mention and ordered pair of opposite phrases; the same for the same seed."""
    rng = random.Random(f"{tier}/{seed}")
    return [
        make_twin(tier, rng, frame, order, a, b)
        for frame, order in itertools.product(FRAMES, (0, 1))
        for a, b in opposites(frame)
        if (cell_held_out(frame, a) or cell_held_out(frame, b)) == (tier == "cells")
    ]


def opposites(frame: Frame) -> list[tuple[Cue, Cue]]:
    """Pairs of deciding phrases of equal polarity that mean different roles."""
    said = cues(frame.kind)
    return [(a, b) for a in said for b in said if a.role != b.role and a.negated == b.negated]


def make_twin(tier: str, rng: random.Random, frame: Frame, order: int, a: Cue, b: Cue) -> Twin:
    kind = rng.choice(frame.kind.classes)
    nouns = draw_pair(tier, rng, kind)
    one = Scene(frame, order, a, nouns, pronoun_of(kind, rng))
    scenes = (one, replace(one, cue=b), replace(one, cue=synonym(a, frame)))
    after = between(tier, rng, one)
    said, other, same = ((scene.early() if tier == "early" else scene.late()) + after for scene in scenes)
    return Twin(
        a=said,
        b=other,
        neutral=same,
        nouns=one.mentioned,
        means=(one.mentioned.index(scenes[0].referent), one.mentioned.index(scenes[1].referent)),
        pronoun=one.pronoun,
        rest=(f" was {a.text}.", f" was {b.text}."),
        frame=frame.name,
        order=order,
        words=(a.word, b.word),
    )


def draw_pair(tier: str, rng: random.Random, kind: str) -> tuple[str, str]:
    """Two nouns that were never together in a passage; for tier "nouns" at least one never was in any."""
    while True:
        a, b = rng.sample(CLASSES[kind], 2)
        if (a in UNSEEN or b in UNSEEN) != (tier == "nouns"):
            continue
        if tier == "nouns" or held_out(a, b):
            return a, b


def synonym(cue: Cue, frame: Frame) -> Cue:
    return next(c for c in cues(frame.kind) if c.role == cue.role and c.negated == cue.negated and c.word != cue.word)


def between(tier: str, rng: random.Random, scene: Scene) -> str:
    """What stands between the sentence and its answer."""
    if tier == "distractors":
        return "".join(" " + distractor(rng, scene) for _ in range(3))
    if tier == "echo":
        return f" {another(rng, scene).reveal()}"
    if tier == "chains":
        other = another(rng, scene)
        return f" {other.late()}" if rng.random() < 0.5 else f" {other.event()}."
    return ""


def another(rng: random.Random, scene: Scene) -> Scene:
    """A scene of another kind, between other nouns."""
    while True:
        frame = rng.choice(FRAMES)
        kind = rng.choice(frame.kind.classes)
        a, b = rng.sample(CLASSES[kind], 2)
        if frame.kind is not scene.frame.kind and not {a, b} & set(scene.nouns):
            return Scene(frame, rng.randrange(2), rng.choice(cues(frame.kind)), (a, b), pronoun_of(kind, rng))
