"""Damage to files, the same for the same seed: bytes flipped, cut out, or put in."""

from random import Random

import pytest

# So many seeds are tried in every run, and the others where many cases are wanted.
SEEDS = [*range(30), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(30, 250))]


def damaged(raw: bytes, random: Random) -> bytes:
    """Other bytes than before, near them: one to three flipped, some missing from the end or the middle, some more anywhere."""
    at = random.randrange(len(raw))
    match random.choice(["flip", "flip", "cut", "hole", "grow"]):
        case "flip":
            out = bytearray(raw)
            for place in {at, *(random.randrange(len(raw)) for _ in range(random.randrange(3)))}:
                out[place] ^= random.randrange(1, 256)
            return bytes(out)
        case "cut":
            return raw[:at]
        case "hole":
            return raw[:at] + raw[at + random.randrange(1, 9) :]
        case _:
            return raw[:at] + random.randbytes(random.randrange(1, 200)) + raw[at:]
