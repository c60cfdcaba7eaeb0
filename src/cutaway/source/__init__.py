"""One model as one plain file: the core's own text, with one configuration put in and all that this model lacks left out.

The file needs torch alone. It is read from the core's source, so it cannot fall behind; no weights and no torch are needed to print it.
"""

import ast
import json
import textwrap
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

import cutaway
from cutaway.about import about
from cutaway.core.config import Config
from cutaway.families import find_known
from cutaway.source.fold import folded
from cutaway.source.program import core_modules, core_text, queries_at_once
from cutaway.source.splice import names_in
from cutaway.source.words import introduction, meanings, reworded

WIDTH = 100  # columns of the header
UNNAMED = "A transformer"  # of which only the configuration is given


@dataclass(frozen=True)
class Source:
    """The file, and which model it is."""

    name: str
    config: Config
    text: str

    @property
    def program(self) -> str:
        """All but the header: imports, sizes and code."""
        return self.text.split('"""\n\n', 1)[1]

    @property
    def code(self) -> str:
        """What two models have in common that differ in sizes alone."""
        return self.program.split("\n\n\n", 1)[1]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def _repr_html_(self) -> str:
        from cutaway import render

        return render.source(self)


def source(model: str | Config, *, name: str = "") -> Source:
    """The plain file of a model: a known name, a folder, a weights file, a Hub id that is in the cache, or a configuration.

    name: what the file calls it; default: the model's own name. Uses no network.
    Raises ModelError for a name that is not known or a place where nothing is, ConfigError and WeightsError for files that
    cannot be used.
    """
    own, config = ("", model) if isinstance(model, Config) else configuration(model)
    body = "\n\n".join(reworded(text, config) for text in folded(config).values())
    parts = [_header(name or own, config, body), _imports(body), _constants(body, config)]
    return Source(name or own or UNNAMED, config, "\n".join(parts) + "\n\n" + body)


def configuration(model: str) -> tuple[str, Config]:
    """The name and the configuration of what is published, shipped, or here."""
    if known := find_known(model):
        return known.name, known.config
    found = about(model)
    return found.name, found.config


def _header(name: str, config: Config, body: str) -> str:
    default = {field.name: field.default for field in fields(Config) if field.default is not MISSING}
    own = {key: value for key, value in config.to_dict().items() if key not in default or value != default[key]}
    stated = ", ".join(f"{key}={json.dumps(value) if isinstance(value, str) else value}" for key, value in own.items())
    wrapped = "\n".join(textwrap.wrap(f"Config({stated})", WIDTH - 4, initial_indent="    ", subsequent_indent=" " * 11))
    quoted = name.replace("\\", "/").replace('"', "'")
    loaded = f'"{quoted}"' if name else "..."
    return f'''"""{quoted or UNNAMED} in one plain file, to be read from top to bottom.

{introduction(body, config, WIDTH)}

Printed by cutaway {cutaway.__version__} from its own code, for this configuration:

{wrapped}

On the same weights it gives what cutaway gives while it is being traced (eager attention), bit for bit; of texts of more than
{queries_at_once()} tokens to rounding, since cutaway asks for so many queries at a time:

    model = Transformer()
    model.load_state_dict(cutaway.load({loaded}).transformer.state_dict(), assign=True)
"""
'''


def _imports(body: str) -> str:
    """The core's own imports, as far as the body uses them: the standard library's, then torch's."""
    used = names_in(ast.parse(body))
    plain: set[str] = set()
    parts: dict[str, set[str]] = {}
    for module in core_modules():
        for node in ast.parse(core_text(module)).body:
            if isinstance(node, ast.Import):
                plain |= {alias.name for alias in node.names if alias.name in used}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("cutaway"):
                said = {alias.asname or alias.name: alias for alias in node.names}
                parts.setdefault(node.module, set()).update(ast.unparse(said[name]) for name in said if name in used)
    lines = [f"import {name}" for name in sorted(plain)]
    lines += [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(parts.items()) if names]
    theirs = [line for line in lines if line.split()[1].split(".")[0] == "torch"]
    return "\n".join([*(line for line in lines if line not in theirs), "", *theirs]).lstrip("\n") + "\n"


def _constants(body: str, config: Config) -> str:
    """The sizes that the body names, each with what the core says of it."""
    used = names_in(ast.parse(body))
    needed = {*used, *(("WIDTH", "HEADS") if "HEAD_WIDTH" in used else ())}
    lines = []
    for field, value in config.to_dict().items():
        if field.upper() in needed:
            said = meanings()[field].split(";")[0]
            lines.append(f"{field.upper()} = {value!r}" + (f"  # {said}" if said else ""))
    if "HEAD_WIDTH" in used:
        lines.append("HEAD_WIDTH = WIDTH // HEADS")
    return "\n".join(lines) + "\n"
