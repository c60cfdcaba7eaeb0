"""What can be had without a transformer: each baseline answers the twins, after the same training passages.

A baseline that ignores the frame or the order cannot beat chance on a balanced set; the lookup table, which is told both,
can. So the bound on the first says that the test asks for reading, and the last says that it can be passed.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from cutaway.worlds import Twin
from cutaway.worlds.passages import Scene, draw_scene

Answer = Callable[[Twin, str, str], bool]  # (twin, its sentence, the rest of what reveals it) -> is the first noun meant?


@dataclass(frozen=True)
class Seen:
    """What a baseline learns from: scenes as training draws them."""

    scenes: tuple[Scene, ...]

    @classmethod
    def draw(cls, n: int, seed: int) -> "Seen":
        rng = random.Random(seed)
        return cls(tuple(draw_scene(rng, easy=False) for _ in range(n)))

    def means_first(self, scene: Scene) -> bool:
        return scene.referent == scene.mentioned[0]


def tokens(text: str) -> list[str]:
    return re.findall(r"[\w']+|[^\w\s]", text.lower())


def always_first(seen: Seen) -> Answer:
    """The noun that is mentioned first, whatever happens."""
    return lambda twin, text, rest: True


def cue_alone(seen: Seen) -> Answer:
    """What the deciding phrase mostly meant, whatever the frame."""
    votes: Counter[str] = Counter()
    for scene in seen.scenes:
        votes[scene.cue.text] += 1 if seen.means_first(scene) else -1
    return lambda twin, text, rest: votes[rest.removeprefix(" was ").removesuffix(".")] > 0


def bag_of_words(seen: Seen) -> Answer:
    """Logistic regression on which words stand in the sentence, the nouns among them, in any order."""
    texts = [scene.late() for scene in seen.scenes]
    index = {word: n for n, word in enumerate(sorted({word for text in texts for word in tokens(text)}))}

    def bag(text: str) -> torch.Tensor:
        x = torch.zeros(len(index))
        x[[index[word] for word in tokens(text) if word in index]] = 1.0
        return x

    bags = torch.stack([bag(text) for text in texts])
    meant = torch.tensor([float(seen.means_first(scene)) for scene in seen.scenes])
    weights = torch.zeros(len(index) + 1, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(bags @ weights[:-1] + weights[-1], meant).backward()
        optimizer.step()
    learned = weights.detach()
    return lambda twin, text, rest: bool(bag(text) @ learned[:-1] + learned[-1] > 0)


def trigram(seen: Seen) -> Answer:
    """Which noun makes the revealing sentence likelier under trigrams, backing off to shorter ones (Brants et al. 2007)."""
    counts: Counter[tuple[str, ...]] = Counter()
    for scene in seen.scenes:
        words = tokens(f"{scene.late()} {scene.reveal()}")
        for order in (1, 2, 3):
            counts.update(tuple(words[n : n + order]) for n in range(len(words) - order + 1))
    total = sum(count for gram, count in counts.items() if len(gram) == 1)

    def log_p(gram: tuple[str, ...]) -> float:
        if len(gram) == 1:
            return math.log((counts[gram] + 1) / (total + 1))
        return math.log(counts[gram] / counts[gram[:-1]]) if counts[gram] else math.log(0.4) + log_p(gram[1:])

    def likelihood(text: str, noun: str, rest: str) -> float:
        words, asked = tokens(text), tokens(f"The {noun}{rest}")
        whole = words + asked
        return sum(log_p(tuple(whole[n - 2 : n + 1])) for n in range(len(words), len(whole)))

    return lambda twin, text, rest: likelihood(text, twin.nouns[0], rest) > likelihood(text, twin.nouns[1], rest)


def lookup_table(seen: Seen) -> Answer:
    """Told the frame, the order and the deciding phrase: what that cell meant in training; the first noun if it was never seen."""
    votes: Counter[tuple[str, int, str]] = Counter()
    for scene in seen.scenes:
        votes[scene.frame.name, scene.order, scene.cue.text] += 1 if seen.means_first(scene) else -1
    return lambda twin, text, rest: votes[twin.frame, twin.order, rest.removeprefix(" was ").removesuffix(".")] >= 0


BASELINES = {
    "always the first noun": always_first,
    "deciding phrase alone": cue_alone,
    "bag of words": bag_of_words,
    "trigram with backoff": trigram,
    "lookup table": lookup_table,
}


def score_baselines(twins: Sequence[Twin], scenes: int = 20_000, seed: int = 1) -> dict[str, dict[str, float]]:
    """Share of sentences right, and of twins with both right, for each baseline."""
    seen = Seen.draw(scenes, seed)
    scores = {}
    for name, learn in BASELINES.items():
        answer = learn(seen)
        right = [
            [answer(twin, text, rest) == (means == 0) for text, rest, means in zip((twin.a, twin.b), twin.rest, twin.means, strict=True)]
            for twin in twins
        ]
        flat = [value for row in right for value in row]
        scores[name] = {"sentences": sum(flat) / len(flat), "twins": sum(map(all, right)) / len(right)}
    return scores
