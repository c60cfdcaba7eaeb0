"""Small English passages whose truth is known: what fits into what, who helps whom, and which of two nouns a pronoun means.

No model and no torch here: text and truth alone.
"""

from cutaway.worlds.passages import Passage, passages
from cutaway.worlds.twins import TIERS, Twin, twin_set

__all__ = ["TIERS", "Passage", "Twin", "passages", "twin_set"]
