"""What is said of a model besides its tensors: in the weights' own files, or in config.json beside them. No torch.

What the words mean is said in `families`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cutaway.errors import ConfigError, ModelError

OWN = ("tensorflow", "fairseq", "gguf")  # formats that say all of it themselves


def settings(format: str, said: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:  # noqa: A002
    """What the files `said` themselves, or else what config.json says. OpenAI's numpy files may do without either.

    Raises ModelError where config.json is missing, ConfigError where it cannot be read.
    """
    path = folder / "config.json"
    if said or format in OWN:
        return said
    if path.is_file():
        return read_json(path)
    if format == "numpy":
        return {}
    raise ModelError(
        f"{folder} has no config.json",
        expected="the configuration beside the weights: the number of heads cannot be seen in any tensor's shape",
        then="get config.json from where the weights came from",
    )


def read_json(path: Path) -> dict[str, Any]:
    """A file with one JSON object. Raises ConfigError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", expected="a JSON object") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} holds a {type(found).__name__}", expected="a JSON object")
    return found
