"""A model never sees text, only numbers: this package turns one into the other, for each model as its publisher did.

No model and no torch in here; see `tokenizer` for the protocol and for opening a folder.
"""

from cutaway.text.bpe import Step as Step
from cutaway.text.tokenizer import Tokenizer as Tokenizer
from cutaway.text.tokenizer import load_tokenizer as load_tokenizer
from cutaway.text.vocabulary import Piece as Piece
