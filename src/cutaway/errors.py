"""What can go wrong, as a tree; each error says what was given, what was expected and what to do next.

    CutawayError
    ├── TextError        a text that cannot be used: empty, too long, a word that is not there
    ├── TokenizerError   tokenizer files that are missing or contradict each other, ids out of range
    ├── ConfigError      a configuration that contradicts itself
    ├── ModelError       a model that cannot be found, or cannot do what was asked of it
    ├── WeightsError     a weights file that is cut, corrupt, unsafe, or does not fit its configuration
    ├── TapError         a tap that this model does not have
    ├── EditError        an edit that matches nothing, or cannot be applied
    ├── TrainError       a training run that cannot start or go on
    └── LabError         an experiment, a record or a ledger that cannot be used

The command line prints the message alone and exits with 2.
"""


class CutawayError(Exception):
    """Base of all errors that a user can mend.

    `given` says what was found, `expected` what would have been right, `then` what to do next; each is a clause without
    a final full stop.
    """

    def __init__(self, given: str, *, expected: str = "", then: str = "") -> None:
        self.given, self.expected, self.then = given, expected, then
        parts = [given, expected and f"Expected: {expected}", then and f"Next: {then}"]
        super().__init__(" ".join(_sentence(part) for part in parts if part))


def _sentence(clause: str) -> str:
    return clause if clause.endswith((".", "?", "!")) else clause + "."


class TextError(CutawayError):
    """A text that cannot be used: empty, too long, a word that is not there."""


class TokenizerError(CutawayError):
    """Tokenizer files that are missing or contradict each other; ids out of range."""


class ConfigError(CutawayError):
    """A configuration that contradicts itself."""


class ModelError(CutawayError):
    """A model that cannot be found, or cannot do what was asked of it."""


class WeightsError(CutawayError):
    """A weights file that is cut, corrupt, unsafe, or does not fit its configuration."""


class TapError(CutawayError):
    """A tap that this model does not have."""


class EditError(CutawayError):
    """An edit that matches nothing, or cannot be applied."""


class TrainError(CutawayError):
    """A training run that cannot start or go on."""


class LabError(CutawayError):
    """An experiment, a record or a ledger that cannot be used."""
