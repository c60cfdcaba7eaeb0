"""The frames of the micro-world: what may happen between two nouns, and which of the two a deciding word then means.

A kind of cause has two poles of adjectives, with synonyms. "too big" (or "very strong") means the first role, its
opposite the second, and "not big enough" turns it round. Each frame says one event twice, once with the first role
mentioned first and once with the second. So neither the deciding word nor the order of mention gives the answer alone.
"""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One kind of cause: the degree word, and the adjectives that mean role 0 and role 1."""

    name: str
    classes: tuple[str, ...]  # the classes of nouns between which it happens
    degree: str  # too | very
    poles: tuple[tuple[str, ...], tuple[str, ...]]
    negates: bool  # is "not … enough" said of it?


@dataclass(frozen=True)
class Frame:
    """One event between {0} and {1}, told in both orders of mention."""

    name: str
    kind: Kind
    told: tuple[str, str]


@dataclass(frozen=True)
class Cue:
    """A deciding phrase: an adjective, said plainly or negated, and the role that it means."""

    word: str
    negated: bool
    degree: str
    role: int

    @property
    def text(self) -> str:
        return f"not {self.word} enough" if self.negated else f"{self.degree} {self.word}"


THING, ALIVE = ("thing",), ("animal", "person")
KINDS = {
    kind.name: kind
    for kind in (
        Kind("fit", THING, "too", (("big", "large"), ("small", "tiny")), True),
        Kind("weight", THING, "too", (("heavy", "massive"), ("weak", "thin")), True),
        Kind("height", THING, "too", (("tall", "high"), ("short", "low")), True),
        Kind("hardness", THING, "very", (("hard", "tough"), ("soft", "tender")), True),
        Kind("strength", ALIVE, "very", (("strong", "mighty"), ("weak", "feeble")), True),
        Kind("help", ALIVE, "very", (("kind", "gentle"), ("sad", "lonely")), False),
        Kind("fear", ALIVE, "very", (("fierce", "angry"), ("shy", "timid")), False),
        Kind("speed", ALIVE, "very", (("fast", "quick"), ("slow", "lazy")), True),
    )
}
FRAMES = tuple(
    Frame(told[0].split("} ")[1].split(" the")[0], KINDS[kind], told)
    for kind, *frames in (
        (
            "fit",
            ("the {0} didn't fit in the {1}", "the {1} couldn't hold the {0}"),
            ("the {0} didn't go into the {1}", "the {1} had no room for the {0}"),
            ("the {0} got stuck in the {1}", "the {1} didn't close over the {0}"),
        ),
        (
            "weight",
            ("the {0} broke the {1}", "the {1} broke under the {0}"),
            ("the {0} couldn't rest on the {1}", "the {1} couldn't carry the {0}"),
            ("the {0} fell through the {1}", "the {1} gave way under the {0}"),
        ),
        (
            "height",
            ("the {0} didn't pass under the {1}", "the {1} blocked the {0}"),
            ("the {0} stuck out of the {1}", "the {1} didn't cover the {0}"),
            ("the {0} hid the {1}", "the {1} stood unseen behind the {0}"),
        ),
        (
            "hardness",
            ("the {0} scratched the {1}", "the {1} was scratched by the {0}"),
            ("the {0} dented the {1}", "the {1} was dented by the {0}"),
            ("the {0} crushed the {1}", "the {1} was crushed under the {0}"),
        ),
        (
            "strength",
            ("the {0} beat the {1}", "the {1} lost to the {0}"),
            ("the {0} pulled down the {1}", "the {1} was pulled down by the {0}"),
            ("the {0} held back the {1}", "the {1} gave in to the {0}"),
        ),
        (
            "help",
            ("the {0} helped the {1}", "the {1} was helped by the {0}"),
            ("the {0} comforted the {1}", "the {1} leaned on the {0}"),
            ("the {0} got thanks from the {1}", "the {1} thanked the {0}"),
        ),
        (
            "fear",
            ("the {0} scared the {1}", "the {1} ran away from the {0}"),
            ("the {0} chased off the {1}", "the {1} hid from the {0}"),
            ("the {0} worried the {1}", "the {1} kept clear of the {0}"),
        ),
        (
            "speed",
            ("the {0} overtook the {1}", "the {1} fell behind the {0}"),
            ("the {0} caught the {1}", "the {1} was caught by the {0}"),
            ("the {0} outran the {1}", "the {1} came in after the {0}"),
        ),
    )
    for told in frames
)


def cues(kind: Kind) -> list[Cue]:
    """Every deciding phrase of this kind with the role that it means."""
    said = [Cue(word, False, kind.degree, role) for role, pole in enumerate(kind.poles) for word in pole]
    denied = [Cue(word, True, kind.degree, 1 - role) for role, pole in enumerate(kind.poles) for word in pole]
    return said + (denied if kind.negates else [])


def cell_held_out(frame: Frame, cue: Cue) -> bool:
    """Is this deciding phrase never said of this frame in training? One cell in twelve, in both orders of mention."""
    cell = f"{frame.name}|{cue.text}"
    return frame.name != "didn't fit in" and hashlib.sha256(cell.encode()).digest()[0] % 12 == 0
