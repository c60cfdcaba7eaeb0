"""Training passages: something happens between two nouns, a pronoun stands for one of them, and a later sentence says which.

The text is skewed as language is: some frames, orders and words are common, others rare. Only the test set is balanced.
"""

import itertools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from cutaway.worlds.frames import FRAMES, Cue, Frame, cell_held_out, cues
from cutaway.worlds.nouns import CLASSES, NOUNS, UNSEEN, held_out

WEATHER = (
    "The sun was out.",
    "Rain fell all day.",
    "Snow lay on the roof.",
    "A cold wind blew.",
    "Birds sang in the trees.",
    "Nobody said a word.",
    "Dinner was late.",
    "That was on a Monday.",
    "Everyone was tired.",
    "The street was quiet.",
)
PLACES = ("near the house", "by the river", "in the yard", "under a tree", "on the hill", "at the market")


@dataclass(frozen=True)
class Passage:
    """A text, and the character spans of the nouns that give the answer."""

    text: str
    answers: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Scene:
    """Two nouns in a frame, in one order of mention, with a deciding phrase."""

    frame: Frame
    order: int
    cue: Cue
    nouns: tuple[str, str]  # by role
    pronoun: str

    @property
    def referent(self) -> str:
        return self.nouns[self.cue.role]

    @property
    def mentioned(self) -> tuple[str, str]:
        return (self.nouns[self.order], self.nouns[1 - self.order])

    def event(self) -> str:
        return capital(self.frame.told[self.order].format(*self.nouns))

    def late(self) -> str:
        """The deciding word comes after the pronoun."""
        return f"{self.event()} because {self.pronoun} was {self.cue.text}."

    def early(self) -> str:
        """The deciding word comes before the pronoun."""
        return f"{self.event()}, {self.cue.text} as {self.pronoun} was."

    def named(self) -> str:
        """No pronoun at all."""
        return f"{self.event()} because the {self.referent} was {self.cue.text}."

    def reveal(self) -> str:
        return f"The {self.referent} was {self.cue.text}."

    def asked(self) -> str:
        return f"{'What' if self.pronoun == 'it' else 'Who'} was {self.cue.text}? The {self.referent}."


def capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def passages(seed: int, ease: float = 0.0) -> Iterator[Passage]:
    """Training passages without end, the same for the same seed. None holds two nouns that are kept apart for the tests.

    ease: the share of scenes in which the deciding word alone tells, as a beginner's text has them: one order of mention,
    nothing denied.
    """
    return (passage for passage in drawn(random.Random(seed), ease) if not tells(passage.text))


def tells(text: str) -> bool:
    """Do two nouns that are kept apart stand in this text, in one sentence or in two?"""
    nouns = sorted({word for word in re.findall(r"[a-z]+", text) if word in NOUNS})
    return any(held_out(a, b) for a, b in itertools.combinations(nouns, 2))


def drawn(rng: random.Random, ease: float) -> Iterator[Passage]:
    while True:
        scene = draw_scene(rng, easy=rng.random() < ease)
        shape = rng.random()
        if shape < 0.10:
            yield plain(rng)
            continue
        if shape < 0.72:
            main = scene.late()
        elif shape < 0.84:
            main = scene.early()
        else:
            main = scene.named()
        sentences = [main]
        if rng.random() < 0.15:
            sentences.insert(0, distractor(rng, scene))
        if rng.random() < 0.15:
            sentences.append(distractor(rng, scene))
        reveals = [scene.reveal(), scene.asked()]
        if rng.random() < 0.3:
            reveals.reverse()
        reveals = reveals[: 1 if rng.random() < 0.7 else 2]
        yield told(sentences + reveals, scene.referent, first=len(sentences))


def draw_scene(rng: random.Random, easy: bool) -> Scene:
    """A scene that training may show: no pair, cell or noun that is kept for the tests."""
    while True:
        frame = rng.choices(FRAMES, FRAME_WEIGHTS)[0]
        order = int(not easy and rng.random() < 0.4)
        spoken = [cue for cue in cues(frame.kind) if not (easy and cue.negated)]
        cue = rng.choices(spoken, [1 if cue.negated else 2 for cue in spoken])[0]
        kind = rng.choice(frame.kind.classes)
        a, b = rng.sample(CLASSES[kind], 2)
        if held_out(a, b) or a in UNSEEN or b in UNSEEN or cell_held_out(frame, cue):
            continue
        return Scene(frame, order, cue, (a, b), pronoun_of(kind, rng))


FRAME_WEIGHTS = [1 / (1 + n % 3) for n in range(len(FRAMES))]  # the first frame of each kind is the common one


def pronoun_of(kind: str, rng: random.Random) -> str:
    return rng.choice(("he", "she")) if kind == "person" else "it"


def distractor(rng: random.Random, scene: Scene | None = None) -> str:
    """A sentence that has nothing to do with the rest; some mention another noun."""
    if rng.random() < 0.7:
        return rng.choice(WEATHER)
    others = [noun for nouns in CLASSES.values() for noun in nouns if scene is None or noun not in scene.nouns]
    return f"A {rng.choice(others)} was {rng.choice(PLACES)}."


def plain(rng: random.Random) -> Passage:
    """No frame and no pronoun: two nouns and what is said of them. Here the nouns that are kept from the frames occur too."""
    frame = rng.choice(FRAMES)
    nouns = rng.sample(CLASSES[rng.choice(frame.kind.classes)], 2)
    first, second = rng.sample(cues(frame.kind), 2)
    asked = rng.randrange(2)
    word = "What" if nouns[0] in CLASSES["thing"] + CLASSES["animal"] else "Who"
    said = [f"The {nouns[0]} was {first.text} and the {nouns[1]} was {second.text}."]
    said.append(f"{word} was {(first, second)[asked].text}? The {nouns[asked]}.")
    return told(said, nouns[asked], first=1)


def told(sentences: list[str], referent: str, first: int) -> Passage:
    """Join sentences; the answers are the referent's mentions from sentence `first` on."""
    text = " ".join(sentences)
    start = len(" ".join(sentences[:first]))
    spans = tuple(found.span() for found in re.compile(rf"\b{referent}\b").finditer(text, start))
    return Passage(text, spans)
