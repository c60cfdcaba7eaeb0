"""Trace files: a trace written down, to be read without its model and compared with another.

A trace file is a safetensors file (https://github.com/huggingface/safetensors#format), which many tools read. Each tensor is one tap,
by the tap's name and as `Trace.whole` gives it: (B, …), texts padded on the right to one length. Its `__metadata__` holds

    schema      "cutaway-trace 1"; the number goes up when a reader of this one would misunderstand
    trace       JSON, an object with exactly these keys:
      cutaway   the version that wrote it
      facts     what shaped the numbers: model, weights_sha256 (null for weights in memory), dtype, device, threads, kernel
      causal    true if a position reads itself and what comes before it only
      texts     the texts
      pieces    of each text the tokens that the model read: id, text, bytes, and the span of the text's characters it stands for
      edits     the edits in force, in words
      taps      the tensors' names, in the order in which the run met them

No weights are in it, and nothing that could be run.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import cutaway
from cutaway.errors import CutawayError, ModelError
from cutaway.text.tokenizer import Piece
from cutaway.trace.edit import no_such_tap
from cutaway.weights.corrupt import corrupt
from cutaway.weights.safetensors import DTYPES, Safetensors
from cutaway.writing import replacing, unwritable

if TYPE_CHECKING:
    from cutaway.trace.record import Trace

SCHEMA = "cutaway-trace"
VERSION = 1
MOST = 4 * 2**30  # bytes that are written unless more is asked for

FACTS = {"model": str, "weights_sha256": str | None, "dtype": str, "device": str, "threads": int, "kernel": str}
PIECE = {"id": int, "text": str, "bytes": [int], "span": [int]}
FORM: dict[str, Any] = {"cutaway": str, "facts": FACTS, "causal": bool, "texts": [str], "pieces": [[PIECE]], "edits": [str], "taps": [str]}

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class About:
    """What a trace file says beside its tensors; see the top of this file."""

    cutaway: str
    facts: dict[str, Any]
    causal: bool
    texts: tuple[str, ...]
    pieces: tuple[tuple[Piece, ...], ...]
    edits: tuple[str, ...]
    taps: tuple[str, ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(map(len, self.pieces))

    def to_dict(self) -> dict[str, Any]:
        pieces = [[asdict(piece) | {"bytes": list(piece.bytes), "span": list(piece.span)} for piece in row] for row in self.pieces]
        listed = {name: list(getattr(self, name)) for name in ("texts", "edits", "taps")}
        return {"cutaway": self.cutaway, "facts": self.facts, "causal": self.causal, "pieces": pieces, **listed}


@dataclass(frozen=True, eq=False)
class SavedTrace(Mapping[str, Tensor]):
    """A trace read from a file: its taps, by name, in the order of the run, each read when it is asked for.

    `saved["blocks.5.attn.pattern"]` is (H, T, T) for one text, (B, H, T, T) for several, as in a `Trace`.
    """

    path: Path
    about: About
    tensors: Safetensors

    @property
    def texts(self) -> tuple[str, ...]:
        return self.about.texts

    @property
    def pieces(self) -> tuple[tuple[Piece, ...], ...]:
        return self.about.pieces

    @property
    def lengths(self) -> tuple[int, ...]:
        return self.about.lengths

    @property
    def edits(self) -> tuple[str, ...]:
        return self.about.edits

    @cached_property
    def size(self) -> int:
        """Bytes of the file."""
        return self.path.stat().st_size

    def whole(self, tap: str) -> Tensor:
        """The tap with its batch dimension, not copied. Raises TapError with the taps that the file holds."""
        if tap not in self.tensors:
            raise no_such_tap(tap, self.about.taps)
        return self.tensors[tap]

    def __getitem__(self, tap: str) -> Tensor:
        value = self.whole(tap).clone()
        return value[0] if len(self.texts) == 1 else value

    def __iter__(self) -> Iterator[str]:
        return iter(self.about.taps)

    def __len__(self) -> int:
        return len(self.about.taps)

    def __contains__(self, tap: object) -> bool:
        return tap in self.about.taps

    def to_dict(self) -> dict[str, Any]:
        shapes = {tap: list(self.tensors.shapes[tap]) for tap in self}
        return {"file": str(self.path), "bytes": self.size, "shapes": shapes, **self.about.to_dict()}

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.saved_trace(self)


def about(trace: "Trace | SavedTrace", taps: Sequence[str] = ()) -> About:
    """What is to be said of a trace, or of some of its taps."""
    if isinstance(trace, SavedTrace):
        return trace.about
    facts = trace.model.facts() | {"kernel": "eager"}
    named = tuple(taps or trace)
    return About(cutaway.__version__, facts, trace.model.config.causal, trace.texts, trace.pieces, trace.edits, named)


def chosen(trace: "Trace | SavedTrace", patterns: Sequence[str]) -> list[str]:
    """The taps that the patterns name, in order; `*` stands for anything. Raises TapError for one that matches none."""
    for pattern in patterns:
        if not any(fnmatchcase(tap, pattern) for tap in trace):
            raise no_such_tap(pattern, list(trace))
    return [tap for tap in trace if any(fnmatchcase(tap, pattern) for pattern in patterns)]


def size_of(trace: "Trace", patterns: Sequence[str] = ("*",)) -> int:
    """Bytes that the taps take in a file."""
    shapes = trace.shapes
    return sum(torch.Size(shapes[tap]).numel() for tap in chosen(trace, patterns)) * trace.model.dtype.itemsize


def save(trace: "Trace", path: Path | str, patterns: Sequence[str] = ("*",), *, most: int = MOST) -> SavedTrace:
    """Write a trace file, of all taps or of those that the patterns name, and read back what it says.

    The taps are read and written one by one, in order, so that no more is held than reading one takes; the file is there whole or
    not at all. Raises TapError for a pattern that matches no tap; CutawayError above `most` bytes, or if it cannot be written.
    """
    path, taps = Path(path), chosen(trace, patterns)
    size = size_of(trace, taps)
    if size > most:
        given = f"A file of {len(taps)} taps would take {size / 1e9:.2f} GB"
        then = "name the taps that you need, 'blocks.5.attn.*' for instance (on the command line --keep)"
        raise CutawayError(given, expected=f"at most {most / 1e9:.2f} GB", then=then)
    try:
        with replacing(path) as new:
            write(trace, new, taps)
    except OSError as error:
        raise unwritable(path, error) from error
    return load(path)


def write(trace: "Trace", path: Path, taps: Sequence[str]) -> None:
    shapes, dtype = trace.shapes, trace.model.dtype
    described = json.dumps(about(trace, taps).to_dict())
    header: dict[str, Any] = {"__metadata__": {"format": "pt", "schema": f"{SCHEMA} {VERSION}", "trace": described}}
    end = 0
    for tap in taps:
        begin, end = end, end + torch.Size(shapes[tap]).numel() * dtype.itemsize
        header[tap] = {"dtype": NAMES[dtype], "shape": shapes[tap], "data_offsets": [begin, end]}
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)  # the data begin at a multiple of 8, as readers like it
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        for tap in taps:
            value = trace.whole(tap)
            if tuple(value.shape) != shapes[tap] or value.dtype != dtype:
                raise ModelError(f"{tap} is {tuple(value.shape)} in {value.dtype}", expected=f"{shapes[tap]} in {dtype}")
            file.write(value.detach().cpu().contiguous().view(torch.uint8).numpy().data)


NAMES = {dtype: name for name, dtype in DTYPES.items()}


def load(path: Path | str) -> SavedTrace:
    """Read what a trace file says, and check all of it; a tap is read when it is asked for.

    Raises CutawayError, naming the file and the reason: a WeightsError if it is damaged, another if it is no trace, or of another version.
    """
    path = Path(path)
    tensors = Safetensors((path,))
    schema, _, version = tensors.metadata.get("schema", "").partition(" ")
    if schema != SCHEMA:
        raise CutawayError(f"{path} is a safetensors file and no trace", expected="what `cutaway trace TEXT --out FILE` wrote")
    if version != str(VERSION):
        then = "read it with the version of cutaway that wrote it"
        raise CutawayError(f"{path} is a trace file of version {version!r}", expected=f"version {VERSION}", then=then)
    try:
        saved = SavedTrace(path, understood(json.loads(tensors.metadata["trace"])), tensors)
    except (KeyError, ValueError, RecursionError) as error:
        raise corrupt(path, f"what it says of its trace cannot be understood ({error})", "trace") from error
    if wrong := contradiction(saved):
        raise corrupt(path, wrong, "trace")
    return saved


def understood(said: Any) -> About:
    """Raises ValueError if it is not in the form of a trace file."""
    if not fits(said, FORM):
        raise ValueError("it has other keys, or values of another type")
    pieces = tuple(tuple(Piece(one["id"], one["text"], bytes(one["bytes"]), tuple(one["span"])) for one in row) for row in said["pieces"])
    texts, edits, taps = (tuple(said[name]) for name in ("texts", "edits", "taps"))
    return About(said["cutaway"], said["facts"], said["causal"], texts, pieces, edits, taps)


def fits(value: Any, form: Any) -> bool:
    """Whether a JSON value has this form: an object's keys, a list's elements, or types."""
    if isinstance(form, dict):
        return isinstance(value, dict) and value.keys() == form.keys() and all(fits(value[key], form[key]) for key in form)
    if isinstance(form, list):
        return isinstance(value, list) and all(fits(one, form[0]) for one in value)
    return isinstance(value, form) and (form is bool or not isinstance(value, bool))


def contradiction(saved: SavedTrace) -> str | None:
    """Where the description and the tensors do not agree."""
    said, shapes = saved.about, saved.tensors.shapes
    if not said.texts or len(said.texts) != len(said.pieces) or not all(said.lengths):
        return f"it has {len(said.texts)} texts and the tokens of {len(said.pieces)}"
    if not all(len(piece.span) == 2 for row in said.pieces for piece in row):
        return "a token's span is not a start and an end"
    if sorted(said.taps) != sorted(shapes):
        return "the taps that it names are not the tensors that it holds"
    for tap, shape in shapes.items():
        positions = shape[-2] if len(shape) > 2 else max(said.lengths)
        keys = shape[-1] if tap.endswith(("attn.scores", "attn.pattern")) else positions
        if len(shape) < 2 or 0 in shape or shape[0] != len(said.texts) or {positions, keys} != {max(said.lengths)}:
            return f"{tap} is {shape}, of {len(said.texts)} texts with {max(said.lengths)} tokens at most"
        if (dtype := saved.tensors[tap].dtype) not in FLOATS or str(dtype) != f"torch.{said.facts['dtype']}":
            return f"{tap} holds {dtype}, of a run in {said.facts['dtype']}"
    return None
