"""A name, a folder, a file or a transformers model becomes a Model: whole, or not at all.

What a name means is settled in `locate`, what a format is in `weights`, what its names mean in `families`.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from cutaway.core.config import Config
from cutaway.core.transformer import Transformer, hold
from cutaway.errors import ModelError, TokenizerError, WeightsError
from cutaway.families import Dialect, Family, dialect_of
from cutaway.families.size import parameters
from cutaway.locate import locate, tokenizer_at
from cutaway.model import Model, Origin
from cutaway.registry import no_such
from cutaway.settings import read_json, settings
from cutaway.text.tokenizer import Tokenizer, load_tokenizer
from cutaway.weights.hub.arrival import Progress
from cutaway.weights.load import assign
from cutaway.weights.opening import open_weights
from cutaway.weights.source import Held, Source

PADDING = 1024  # rows of a token table that may have no token, or one in twenty if that is more
DTYPES = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16}


def load(
    source: Any,
    *,
    tokenizer: Tokenizer | str | Path | None = None,
    dtype: str | torch.dtype | None = None,
    device: str = "cpu",
    offline: bool = False,
    progress: Progress | None = None,
) -> Model:
    """The model that `source` names: a known name, a folder, a weights file, a Hub id, or a transformers model in memory.

    tokenizer: of a model in memory, or of a folder that has none: a tokenizer or the folder of its files. A folder's own is
        opened when a text is first read.
    dtype: "float32", "float64", "float16" or "bfloat16"; default: the file's own.
    offline: forbids the network, as HF_HUB_OFFLINE does.
    progress: is called while files are fetched, with a file's name, how many of its bytes are here, and how many it has.
    A model in memory is shared, not copied, unless dtype or device change it: what is written to its weights changes both.
    Raises ModelError, ConfigError, WeightsError or TokenizerError; a model is whole or not there.
    """
    given = load_tokenizer(Path(tokenizer)) if isinstance(tokenizer, (str, Path)) else tokenizer
    if hasattr(source, "state_dict") and hasattr(source, "config"):
        return _in_memory(source, given, _dtype(dtype), device)
    name, path, notes = locate(str(source), offline=offline, progress=progress)
    with _no_collection():
        return _from_disk(name, path, notes, given, _dtype(dtype), device)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Thousands of small objects are made, and none is garbage: looking for some takes longer than opening GPT-2."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _from_disk(name: str, path: Path, notes: tuple[str, ...], given: Tokenizer | None, dtype: torch.dtype | None, device: str) -> Model:
    folder = path if path.is_dir() else path.parent
    source, chosen = open_weights(path)
    said_of_it = settings(source.dialect, source.settings, folder)
    family, dialect = dialect_of(source.dialect, said_of_it)
    config = dialect.config_from(said_of_it, source.shapes)
    transformer, said = _build(dialect, config, source, str(path), dtype, device)
    card = read_json(folder / "card.json") if (folder / "card.json").is_file() else {}
    origin = Origin(name, family.name, source.paths, card if card.get("nano") is True else {}, notes + chosen + source.notes + said)
    tokenizer = given and _fitting(given, config, "the folder given")
    return Model(transformer, lambda: tokenizer or _own_tokenizer(path, family, config), origin)


def _in_memory(model: Any, given: Tokenizer | None, dtype: torch.dtype | None, device: str) -> Model:
    hf_config = model.config.to_dict() | {"architectures": [type(model).__name__]}
    source = Held({name: tensor.detach() for name, tensor in model.state_dict().items()}, hf_config)
    family, dialect = dialect_of(source.dialect, hf_config)
    name = f"{type(model).__name__} in memory"
    config = dialect.config_from(hf_config, source.shapes)
    transformer, said = _build(dialect, config, source, name, dtype, device)
    tokenizer = given and _fitting(given, config, name)
    return Model(transformer, lambda: tokenizer, Origin(name, family.name, notes=said))


def _build(
    dialect: Dialect, config: Config, source: Source, name: str, dtype: torch.dtype | None, device: str
) -> tuple[Transformer, tuple[str, ...]]:
    """The transformer with the file's tensors as its parameters, and what is to be said about them."""
    _check_size(config, source, name)
    empty = Transformer(config)
    wanted = {parameter: tuple(p.shape) for parameter, p in empty.named_parameters()}
    loaded = assign(source, dialect.rules(config), wanted, dialect.unused, name)
    found = {p.dtype for p in loaded.parameters.values()}
    if odd := found - set(DTYPES.values()):
        raise WeightsError(f"{name} holds {', '.join(map(str, odd))}", expected="one of " + ", ".join(DTYPES))
    said = tuple(_not_needed(loaded.unused))
    if dtype is None and len(found) > 1:
        dtype = torch.float32
        said += ("The file mixes precisions; everything was read as float32.",)
    target = _device(device)
    held = {parameter: p.to(device=target, dtype=dtype or p.dtype) for parameter, p in loaded.parameters.items()}
    return hold(empty, held), said


def _not_needed(unused: Mapping[str, str]) -> Iterator[str]:
    """One line a reason; masks of old files are no news."""
    for why in dict.fromkeys(why for why in unused.values() if "mask" not in why):
        names = [name for name, reason in unused.items() if reason == why]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]}{more} not needed: {why}."


def _check_size(config: Config, source: Source, name: str) -> None:
    """Refuse a configuration that is far larger than its file, before room is made for it."""
    asked, held = sum(parameters(config).values()), sum(torch.Size(shape).numel() for shape in source.shapes.values())
    if config.layers > len(source) or asked > 10 * held:
        raise WeightsError(
            f"config.json asks for {config.layers:,} layers and {asked:,} parameters, and {name} holds {held:,} numbers",
            expected="a configuration of these weights",
            then="if this is one shard of several, give the folder",
        )


def _own_tokenizer(path: Path, family: Family, config: Config) -> Tokenizer | None:
    """The tokenizer that came with the weights, None if there is none."""
    tokenizer = tokenizer_at(path, (*family.tokenizers, "tokenizers"))
    return tokenizer and _fitting(tokenizer, config, path)


def _fitting(tokenizer: Tokenizer, config: Config, source: object) -> Tokenizer:
    """The tokenizer, if it has no id that the model lacks, and lacks few of the model's: tables are often padded to a round size."""
    if config.vocab_size - tokenizer.vocab_size > max(PADDING, config.vocab_size // 20):
        raise TokenizerError(
            f"The tokenizer in {source} has {tokenizer.vocab_size} ids and the model {config.vocab_size}, most of which would have no text",
            expected="the model's own tokenizer",
            then="put its files beside the weights, or give them as tokenizer=FOLDER (on the command line --tokenizer)",
        )
    if tokenizer.vocab_size > config.vocab_size:
        raise TokenizerError(
            f"The tokenizer in {source} has {tokenizer.vocab_size} ids and the model {config.vocab_size}",
            expected="no more ids than the model has rows",
        )
    return tokenizer


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    if dtype is None or dtype in DTYPES.values():
        return dtype  # type: ignore[return-value]
    if dtype not in DTYPES:
        raise no_such("dtype", str(dtype), list(DTYPES))
    return DTYPES[str(dtype)]


def _device(device: str) -> torch.device:
    try:
        target = torch.device(device)
        torch.empty(0, device=target)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"The device {device!r} cannot be used: {str(error).splitlines()[0]}", then="use cpu") from None
    return target
