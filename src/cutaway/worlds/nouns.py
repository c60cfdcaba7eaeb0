"""The nouns of the micro-world. Any thing may stand in any role: a trophy may hold a suitcase as well as the other way round.

So no noun gives its role away, and a model that knows the answer has read the sentence.
"""

import hashlib
from functools import cache

THINGS = tuple(
    """
    trophy suitcase box bag basket chest crate trunk drawer jar pot bucket cup bowl pan kettle barrel bottle tin tray
    table chair bench stool shelf desk lamp mirror clock picture vase statue candle carpet curtain pillow blanket
    book letter map coin ring crown necklace drum flute violin piano bell hammer saw ladder rope chain wheel cart
    wagon sledge boat raft bridge gate door fence wall plank board brick stone rock log branch pumpkin melon cake
    loaf parcel cushion sack cabinet
    """.split()
)
ANIMALS = tuple(
    """
    lion tiger bear wolf fox dog cat rabbit mouse rat horse donkey cow goat sheep pig hen goose duck swan owl eagle
    crow hawk snake frog turtle deer monkey elephant camel hedgehog
    """.split()
)
PEOPLE = tuple(
    """
    farmer baker miller tailor nurse doctor teacher pupil soldier sailor hunter fisher king prince guard servant
    merchant beggar monk priest judge thief singer dancer painter writer builder potter smith shepherd gardener cook
    pilot driver visitor neighbour stranger traveller orphan giant dwarf wizard
    """.split()
)
CLASSES = {"thing": THINGS, "animal": ANIMALS, "person": PEOPLE}
NOUNS = frozenset(noun for nouns in CLASSES.values() for noun in nouns)

# These occur in plain passages but never in a frame with a pronoun: what does a model do with them there?
UNSEEN = frozenset("kettle violin pumpkin raft camel owl potter pilot".split())


@cache
def held_out(a: str, b: str) -> bool:
    """Is this pair of nouns, in either order, kept for the test set? One pair in eight is, and trophy with suitcase."""
    pair = "|".join(sorted((a, b)))
    return pair == "suitcase|trophy" or hashlib.sha256(pair.encode()).digest()[0] % 8 == 0
