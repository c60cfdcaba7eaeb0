"""A name, a folder, a file or a transformers model becomes a Model: whole, or not at all.

What a name means is settled in `locate`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cutaway.core.config import Config
from cutaway.core.transformer import Transformer, holding
from cutaway.errors import ConfigError, ModelError, TokenizerError, WeightsError
from cutaway.families import Family, family_of
from cutaway.families.size import parameters
from cutaway.locate import locate
from cutaway.model import Model, Origin
from cutaway.registry import no_such
from cutaway.text.tokenizer import Tokenizer, load_tokenizer
from cutaway.weights.load import assign
from cutaway.weights.safetensors import open_safetensors, weight_files

DTYPES = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16}


def load(
    source: Any,
    *,
    tokenizer: Tokenizer | str | Path | None = None,
    dtype: str | torch.dtype | None = None,
    device: str = "cpu",
    offline: bool = False,
) -> Model:
    """The model that `source` names: a known name, a folder, a weights file, a Hub id, or a transformers model in memory.

    tokenizer: of a model in memory, or of a folder that has none: a tokenizer or the folder of its files.
    dtype: "float32", "float64", "float16" or "bfloat16"; default: the file's own.
    offline: forbids the network, as HF_HUB_OFFLINE does.
    A model in memory is shared, not copied, unless dtype or device change it: what is written to its weights changes both.
    Raises ModelError, ConfigError, WeightsError or TokenizerError; a model is whole or not there.
    """
    if hasattr(source, "state_dict") and hasattr(source, "config"):
        return _in_memory(source, _given(tokenizer), _dtype(dtype), device)
    name, folder, notes = locate(str(source), offline=offline)
    return _from_folder(name, folder, notes, _given(tokenizer), _dtype(dtype), device)


def _from_folder(
    name: str, path: Path, notes: tuple[str, ...], tokenizer: Tokenizer | None, dtype: torch.dtype | None, device: str
) -> Model:
    folder = path if path.is_dir() else path.parent
    hf_config = _read_config(folder)
    family = family_of(hf_config)
    files = weight_files(path)
    transformer, said = _build(family, family.config_from(hf_config), open_safetensors(path), str(path), dtype, device)
    tokenizer = tokenizer or _tokenizer_in(folder, family)
    card = _read_json(folder / "card.json") if (folder / "card.json").is_file() else {}
    origin = Origin(name, family.name, files, card if card.get("nano") is True else {}, notes + said)
    return Model(transformer, _fitting(tokenizer, transformer.config, folder), origin)


def _in_memory(source: Any, tokenizer: Tokenizer | None, dtype: torch.dtype | None, device: str) -> Model:
    hf_config = source.config.to_dict() | {"architectures": [type(source).__name__]}
    family = family_of(hf_config)
    tensors = {name: tensor.detach() for name, tensor in source.state_dict().items()}
    name = f"{type(source).__name__} in memory"
    transformer, said = _build(family, family.config_from(hf_config), tensors, name, dtype, device)
    return Model(transformer, _fitting(tokenizer, transformer.config, name), Origin(name, family.name, notes=said))


def _build(
    family: Family, config: Config, tensors: Mapping[str, Tensor], source: str, dtype: torch.dtype | None, device: str
) -> tuple[Transformer, tuple[str, ...]]:
    """The transformer with the file's tensors as its parameters, and what is to be said about them."""
    _check_size(config, tensors, source)
    wanted = {name: tuple(p.shape) for name, p in Transformer(config).named_parameters()}
    loaded = assign(tensors, family.rules(config), wanted, family.unused, source)
    found = {p.dtype for p in loaded.parameters.values()}
    if odd := found - set(DTYPES.values()):
        raise WeightsError(f"{source} holds {', '.join(map(str, odd))}", expected="one of " + ", ".join(DTYPES))
    said = tuple(f"{name} was not needed: {why}" for name, why in loaded.unused.items() if "mask" not in why)
    if dtype is None and len(found) > 1:
        dtype = torch.float32
        said += ("The file mixes precisions; everything was read as float32.",)
    target = _device(device)
    parameters = {name: p.to(device=target, dtype=dtype or p.dtype) for name, p in loaded.parameters.items()}
    return holding(config, parameters), said


def _check_size(config: Config, tensors: Mapping[str, Tensor], source: str) -> None:
    """Refuse a configuration that is far larger than its file, before room is made for it."""
    asked, held = sum(parameters(config).values()), sum(tensor.numel() for tensor in tensors.values())
    if config.layers > len(tensors) or asked > 10 * held:
        raise WeightsError(
            f"config.json asks for {config.layers:,} layers and {asked:,} parameters, and {source} holds {held:,} numbers",
            expected="a configuration of these weights",
        )


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(
            f"{folder} has no config.json",
            expected="the configuration beside the weights: the number of heads cannot be seen in any tensor's shape",
            then="get config.json from where the weights came from",
        )
    return _read_json(path)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", expected="a JSON object") from None
    if not isinstance(config, dict):
        raise ConfigError(f"{path} holds a {type(config).__name__}", expected="a JSON object")
    return config


def _tokenizer_in(folder: Path, family: Family) -> Tokenizer | None:
    """The folder's tokenizer, None if it has no such files. One of another family is refused: its ids are fluent nonsense."""
    try:
        tokenizer = load_tokenizer(folder)
    except TokenizerError as error:
        if "no tokenizer files" in error.given:
            return None
        raise
    if tokenizer.kind not in (family.name, "tokenizers"):
        raise TokenizerError(f"{folder} holds weights of {family.title} and a {tokenizer.kind} tokenizer", expected="files of one model")
    return tokenizer


def _given(tokenizer: Tokenizer | str | Path | None) -> Tokenizer | None:
    return load_tokenizer(Path(tokenizer)) if isinstance(tokenizer, (str, Path)) else tokenizer


def _fitting(tokenizer: Tokenizer | None, config: Config, source: object) -> Tokenizer | None:
    """The tokenizer, if it has no id that the model lacks."""
    if tokenizer is not None and tokenizer.vocab_size > config.vocab_size:
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
