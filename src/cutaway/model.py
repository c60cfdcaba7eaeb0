"""A model in the user's hands: a transformer, its tokenizer, and where both came from."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cutaway.core.config import Config
from cutaway.core.tap import Tap, tap_names, untapped
from cutaway.core.transformer import Transformer, holding
from cutaway.errors import ConfigError, ModelError, TextError
from cutaway.text.tokenizer import Piece, Tokenizer
from cutaway.trace.edit import Edit, Edits, editing
from cutaway.trace.lazy import Keep, Metric
from cutaway.trace.record import Trace, record
from cutaway.weights.hash import weights_sha256

if TYPE_CHECKING:
    from cutaway.predict import NextToken
    from cutaway.trace.odds import LogOdds
    from cutaway.trace.patch import PatchSweep, Texts


@dataclass(frozen=True)
class Origin:
    """Where a model came from: `files` are its weights (none for a model in memory); `notes` is what the loader has to say."""

    name: str
    family: str
    files: tuple[Path, ...] = ()
    card: Mapping[str, Any] = field(default_factory=dict)  # of a model that this project trained itself
    notes: tuple[str, ...] = ()


@dataclass
class Model:
    """A transformer with its tokenizer. Make one with `cutaway.load`."""

    transformer: Transformer
    read_tokenizer: Callable[[], Tokenizer | None]  # called when a text is first read; None: the model came without one
    origin: Origin
    edits: tuple[Edits, ...] = ()  # in force, the outermost first

    @property
    def name(self) -> str:
        return self.origin.name

    @cached_property
    def tokenizer(self) -> Tokenizer:
        if (tokenizer := self.read_tokenizer()) is None:
            then = "put its files beside the weights, or give tokenizer=FOLDER to load (on the command line --tokenizer)"
            raise ModelError(f"{self.name} came without a tokenizer", then=then)
        return tokenizer

    @property
    def config(self) -> Config:
        return self.transformer.config

    @property
    def dtype(self) -> torch.dtype:
        return self.transformer.embed.token.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.transformer.embed.token.weight.device

    @property
    def taps(self) -> list[str]:
        return tap_names(self.config)

    @cached_property
    def weights_sha256(self) -> str | None:
        """Of the file; of several files, that of the sorted lines `<sha256>  <name>`; None for a model in memory."""
        return weights_sha256(self.origin.files) if self.origin.files else None

    def facts(self) -> dict[str, Any]:
        """What shapes every number that this model gives."""
        return {
            "model": self.name,
            "weights_sha256": self.weights_sha256,
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": str(self.device),
            "threads": torch.get_num_threads(),
        }

    @property
    def listed_edits(self) -> tuple[str, ...]:
        """The edits in force, in words."""
        return tuple(line for group in self.edits for line in group.listed())

    def facts_of_run(self) -> dict[str, Any]:
        """The same, and the attention kernel that `logits` uses now."""
        return self.facts() | {"kernel": "eager" if self.edits else "sdpa"}

    def with_config(self, **changes: Any) -> "Model":
        """The same weights under another configuration, `causal=False` for one. Shapes must stay as they are."""
        config = self.config.with_(**changes)
        try:
            other = holding(config, self.transformer.state_dict(keep_vars=True))
        except RuntimeError as error:
            given = f"The weights of {self.name} do not fit {', '.join(f'{name}={value}' for name, value in changes.items())}"
            raise ConfigError(given, expected="a change that leaves every shape as it is") from error
        said = ", ".join(f"{name}={value}" for name, value in changes.items())
        origin = dataclasses.replace(self.origin, name=f"{self.name} ({said})")
        return Model(other, lambda: self.tokenizer, origin, self.edits)

    def pieces(self, text: str) -> list[Piece]:
        """The text as this model reads it, with whatever its format puts around it.

        Raises TextError if the text is empty or does not fit the context.
        """
        if not isinstance(text, str):
            raise TextError(f"A text is {type(text).__name__}", expected="a string")
        pieces = self.tokenizer.pieces(text, wrap=True, allow_special=self.config.head == "mlm")
        if not any(piece.span[0] < piece.span[1] for piece in pieces):
            raise TextError("The text is empty", expected="at least one token")
        if len(pieces) > self.config.context:
            given = f"The text has {len(pieces)} tokens, and {self.name} reads at most {self.config.context}"
            raise TextError(given, then="shorten it; nothing was cut")
        return pieces

    def notes_on(self, text: str) -> tuple[str, ...]:
        """What a reader of this model's numbers on this text has to know."""
        outside = self.outside(text)
        if not outside:
            return self.origin.notes
        listed = ", ".join(outside[:8]) + (f" and {len(outside) - 8} more" if len(outside) > 8 else "")
        return (*self.origin.notes, f"Nano models know a small English world only; not in it: {listed}.")

    def outside(self, text: str) -> list[str]:
        """The words of the text that are not in a nano model's world; of other models none is known."""
        words = self.origin.card.get("words")
        for special in self.tokenizer.specials if words else ():
            text = text.replace(special, " ")
        return sorted({word for word in re.findall(r"[^\W\d_]+", text.lower()) if word not in words}) if words else []

    def batch(self, texts: Sequence[str]) -> tuple[Tensor, Tensor, list[list[Piece]]]:
        """ids (B, T) padded on the right, lengths (B), and the pieces of each text."""
        if not texts:
            raise TextError("There is no text", expected="at least one")
        pieces = [self.pieces(text) for text in texts]
        ids, lengths = pad([[piece.id for piece in row] for row in pieces])
        return ids.to(self.device), lengths.to(self.device), pieces

    @torch.no_grad()
    def logits(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of token ids (B, T), under the edits in force; of a classifier (B, C)."""
        tap = Tap(editing(self.edits)) if self.edits else untapped
        return self.transformer(ids, lengths=lengths, tap=tap)  # type: ignore[no-any-return]

    def trace(self, texts: str | Sequence[str], *, keep: Keep = None, grad: Metric | None = None) -> Trace:
        """Every tap of one run, through the eager kernel, under the edits in force.

        The residual stream is kept, the rest is computed again when it is read, bit for bit; `keep` names taps, with `*`,
        that are to be kept as well, or "all". `grad` is a function from the logits (B, T, V) to one number: every tap is
        then kept, and `trace.grad(tap)` is that number's gradient there.
        """
        return record(self, list(texts) if isinstance(texts, Sequence) and not isinstance(texts, str) else [texts], keep, grad)

    @contextmanager
    def edit(self, changes: Mapping[str, Edit | Callable[[Tensor], Tensor]]) -> Iterator[Edits]:
        """Edits in force inside the `with` block. Tap names may hold `*`; see `cutaway.trace.edit` for the edits.

        Raises TapError for a name that matches no tap, EditError for an edit that does not fit or was never met.
        """
        edits = Edits.prepare(self, changes)
        before = self.edits
        self.edits = (*before, edits)
        try:
            yield edits
        finally:
            self.edits = before
        edits.check_met()

    def next_token(self, text: str, k: int = 10) -> "NextToken":
        """The k likeliest next tokens."""
        from cutaway.predict import next_token

        return next_token(self, text, k)

    def patch_sweep(self, clean: "Texts", corrupt: "Texts", taps: str | Sequence[str], metric: "LogOdds", **options: Any) -> "PatchSweep":
        """Which places carry the answer? See `cutaway.trace.patch.patch_sweep`."""
        from cutaway.trace.patch import patch_sweep

        return patch_sweep(self, clean, corrupt, taps, metric, **options)

    def require_head(self, head: str, verb: str) -> None:
        """Raise ModelError unless the model has this head."""
        if self.config.head != head:
            lacks, has = HEADS[head]
            raise ModelError(f"{self.name} has no {lacks}, which {verb!r} needs", expected=f"a model with one, {has} for instance")

    def __repr__(self) -> str:
        config = self.config
        count = sum(parameter.numel() for parameter in self.transformer.parameters())
        sizes = f"{config.layers} layers × {config.heads} heads, width {config.width}, {count:,} parameters"
        return f"<Model {self.name}: {sizes}, {self.dtype}, {self.device}>"


# What a head is called, and a model that has one.
HEADS = {"lm": ("language-model head", "nano-gpt2"), "mlm": ("masked-word head", "nano-roberta")}


def pad(rows: Sequence[Sequence[int]], width: int = 0) -> tuple[Tensor, Tensor]:
    """ids (B, T) padded on the right, to `width` at least, and lengths (B). What pads is never read, so it may be any id."""
    lengths = torch.tensor([len(row) for row in rows])
    ids = torch.zeros(len(rows), max(width, int(lengths.max())), dtype=torch.long)
    for n, row in enumerate(rows):
        ids[n, : len(row)] = torch.tensor(row)
    return ids, lengths
