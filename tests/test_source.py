"""The printed file of a model runs by itself and gives what the core gives, bit for bit; it names nothing that it does not use."""

import ast
import importlib.util
import itertools
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import cutaway
from cutaway.core.config import Config
from cutaway.core.tap import Tap
from cutaway.core.transformer import Transformer, holding
from cutaway.errors import ConfigError, CutawayError, ModelError
from cutaway.families import PUBLISHED
from cutaway.shipped import shipped_names
from cutaway.source import Source, configuration, program, source
from cutaway.source.fold import folded
from cutaway.source.words import meanings
from tests.conftest import oracle

KINDS = ("gpt1", "gpt2", "roberta", "bert", "llama", "classifier", "bert-body")
LENGTHS = (1, 2, 7, 40)
numbered = itertools.count()


@cache
def text_of(config: Config) -> str:
    return source(config).text


def imported(text: str, folder: Path) -> ModuleType:
    """The file as a module of its own."""
    path = folder / f"printed_{next(numbered)}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[path.stem]
    return module


def printed(text: str, parameters: dict[str, Tensor], folder: Path) -> torch.nn.Module:
    """The printed model with these weights."""
    model: torch.nn.Module = imported(text, folder).Transformer()
    model.load_state_dict(parameters, assign=True)
    return model


@torch.no_grad()
def eager(transformer: Transformer, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
    return transformer(ids, lengths=lengths, tap=Tap(lambda name, x: x))  # type: ignore[no-any-return]


def some_ids(config: Config, batch: int, length: int) -> Tensor:
    return torch.randint(config.vocab_size, (batch, length), generator=torch.Generator().manual_seed(length))


@torch.no_grad()
def equal_everywhere(text: str, transformer: Transformer, folder: Path) -> bool:
    """Alone and in a batch, at several lengths, and padded where padding can be read."""
    config, model = transformer.config, printed(text, transformer.state_dict(), folder)
    runs = [some_ids(config, batch, length) for length in LENGTHS for batch in (1, 3)]
    equal = all(torch.equal(model(ids), eager(transformer, ids)) for ids in runs)
    ids, lengths = some_ids(config, 3, 9), torch.tensor([9, 4, 6])
    padded = config.causal or torch.equal(model(ids, lengths=lengths), eager(transformer, ids, lengths))
    return equal and padded


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_it_gives_what_the_core_gives(kind: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model = cutaway.load(oracle(kind).to(dtype))
    assert equal_everywhere(text_of(model.config), model.transformer, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_it_gives_what_transformers_gives(kind: str, tmp_path: Path) -> None:
    theirs = oracle(kind).double()
    model = cutaway.load(theirs)
    ids = some_ids(model.config, 2, 11)
    with torch.no_grad():
        expected = theirs(ids)[0]
        found = printed(text_of(model.config), model.transformer.state_dict(), tmp_path)(ids)
    assert (found - expected).abs().max() < (1e-5 if kind == "llama" else 1e-12)  # their Llama has islands of float32


@pytest.mark.parametrize("name", shipped_names())
def test_a_shipped_model_as_its_header_says(name: str, tmp_path: Path) -> None:
    model = cutaway.load(name)
    text = source(name).text
    recipe = re.search(r"\n    (model = Transformer\(\))\n    (model\.load_state_dict.*)\n", text)
    assert recipe
    space = vars(imported(text, tmp_path)) | {"cutaway": cutaway}
    exec("\n".join(recipe.groups()), space)
    trace = model.trace("The trophy didn't fit in the suitcase because it was too big.")
    ids = torch.tensor([[piece.id for piece in model.pieces(trace.texts[0])]])
    with torch.no_grad():
        assert torch.equal(space["model"](ids), trace.whole("logits"))


BREAKS = (
    ("gpt2", 'F.gelu(x, approximate="tanh")', "F.gelu(x)"),
    ("gpt2", "NORM_EPS = 1e-05", "NORM_EPS = 1e-06"),
    ("gpt2", "readable = key_pos <= query_pos[:, None]", "readable = torch.ones(len(query_pos), len(key_pos), dtype=torch.bool)"),
    ("gpt2", "self.attn(self.ln1(x), mask)", "self.attn(x, mask)"),
    ("gpt2", "        x = self.ln_f(x)\n", ""),
    ("gpt1", "mid + self.mlp(mid)", "mid + self.mlp(x)"),
    ("roberta", "F.gelu(self.dense(x))", 'F.gelu(self.dense(x), approximate="tanh")'),
    ("roberta", "position + POSITION_OFFSET", "position"),
    ("roberta", "readable & (key_pos < lengths[:, None])[:, None, None, :]", "readable"),
    ("llama", "        q, k = turn(q), turn(k)\n", ""),
    ("llama", "k.repeat_interleave(self.sharing, dim=1), v.repeat", "k.repeat(1, self.sharing, 1, 1), v.repeat"),
    ("bert", "self.segment.weight[0]", "self.segment.weight[1]"),
    ("classifier", "x[:, 0]", "x[:, -1]"),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "right", "wrong"), BREAKS, ids=[f"{kind}: {right.strip()[:30]}" for kind, right, _ in BREAKS])
def test_a_broken_file_is_noticed(kind: str, right: str, wrong: str, tmp_path: Path) -> None:
    model = cutaway.load(oracle(kind))
    text = text_of(model.config)
    assert text.count(right) == 1
    assert not equal_everywhere(text.replace(right, wrong), model.transformer, tmp_path)


# Any configuration, published or not


def any_configs(count: int) -> Iterator[Config]:
    pick = random.Random(20170612)
    while count:
        choices: dict[str, Any] = {
            **{name: pick.choice([True, False]) for name in ("causal", "norm_first", "final_norm", "embed_norm", "bias", "tied")},
            "activation": pick.choice(["gelu_tanh", "gelu_erf", "swiglu"]),
            "norm": pick.choice(["layer", "rms"]),
            "kv_heads": pick.choice([0, 1, 2, 4]),
            "positions": pick.choice(["learned", "rotary"]),
            "position_offset": pick.choice([0, 3]),
            "segments": pick.choice([0, 1, 2]),
            "head": pick.choice(["lm", "mlm", "classify", "pooler", "none"]),
            "norm_eps": pick.choice([1e-5, 1e-12]),
        }
        choices["classes"] = 3 if choices["head"] == "classify" else 0
        try:
            yield Config(vocab_size=37, context=40, width=24, layers=pick.choice([1, 3]), heads=4, mlp_width=40, **choices)
        except ConfigError:
            continue
        count -= 1


def random_transformer(config: Config) -> Transformer:
    make = torch.Generator().manual_seed(1)
    shapes = {name: parameter.shape for name, parameter in Transformer(config).named_parameters()}
    return holding(config, {name: torch.randn(shape, generator=make) * 0.3 for name, shape in shapes.items()})


def check_any(configs: Iterator[Config], folder: Path) -> None:
    places = folder / "files"
    places.mkdir()
    for n, config in enumerate(configs):
        text = text_of(config)
        assert equal_everywhere(text, random_transformer(config), folder), config
        assert unused(text) == [], config
        (places / f"any_{n}.py").write_text(text, encoding="utf-8")
    assert ruff(places) == ""


def test_any_configuration(tmp_path: Path) -> None:
    check_any(any_configs(6), tmp_path)


@pytest.mark.long
def test_many_configurations(tmp_path: Path) -> None:
    check_any(any_configs(150), tmp_path)


IN_BLOCKS = """

def attention_in_blocks(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, tap: Tap, block: int = 2) -> Tensor:
    \"\"\"The same with less scratch, where nobody reads the scores.\"\"\"
    if tap.wants("scores") or q.shape[2] <= block:
        return attention(q, k, v, mask, tap)
    return torch.cat([attention(rows, k, v, mask, tap) for rows in q.split(block, dim=2)], dim=2)
"""


def test_what_a_full_tap_never_takes_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path for speed, added to the core, leaves no trace in the file."""
    plain = source("gpt2").text
    read = program.core_text
    changed = {
        "attention": read("attention") + IN_BLOCKS,
        "transformer": read("transformer").replace("else attention(q", "else attention_in_blocks(q"),
    }
    assert "attention_in_blocks" in changed["transformer"]
    monkeypatch.setattr(program, "core_text", lambda module: changed.get(module) or read(module))
    try:
        for cached in (program.definitions, folded):
            cached.cache_clear()
        assert source("gpt2").text == plain
    finally:
        for cached in (program.definitions, folded):
            cached.cache_clear()


# What the file looks like


def ruff(folder: Path) -> str:
    """What ruff has to say: of names without use (F, ARG) and of form."""
    rules = ["--isolated", "--no-cache", "--quiet", "--line-length", "140", "--select", "A,ARG,B,C4,E,F,I,PIE,PLR17,UP,W,SIM,D301"]
    done = subprocess.run([sys.executable, "-m", "ruff", "check", *rules, folder], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def unused(text: str) -> list[str]:
    """Definitions, constants and attributes that nothing in the file reads."""
    tree = ast.parse(text)
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    read |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    made = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    made += [target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets if isinstance(target, ast.Name)]
    kept = ("Transformer", "segment")
    return [name for name in made if name not in read and name not in kept]


@pytest.fixture(scope="module")
def known() -> dict[str, Source]:
    return {name: source(name) for name in ("openai-gpt", "gpt2", "roberta-base", "roberta-base-openai-detector", *shipped_names())}


@pytest.mark.long
def test_every_published_model_prints_a_clean_file(tmp_path: Path) -> None:
    check_clean({published.name: source(published.name) for published in PUBLISHED}, tmp_path)


def test_the_files_are_clean(known: dict[str, Source], tmp_path: Path) -> None:
    check_clean(known, tmp_path)


def check_clean(known: dict[str, Source], folder: Path) -> None:
    for name, found in known.items():
        assert found.name == name
        assert len(found.text.splitlines()) <= 225, name
        assert unused(found.text) == [], name
        assert not re.search(r"config\.|\btap\b|cache|cutaway\.core|noqa|\[region|, where `", found.code), name
        (folder / f"{name.replace('-', '_')}.py").write_text(found.text, encoding="utf-8")
    assert ruff(folder) == ""


def test_the_header_names_the_model_the_version_and_the_configuration(known: dict[str, Source]) -> None:
    for name, found in known.items():
        header = ast.get_docstring(ast.parse(found.text)) or ""
        assert header.startswith(f"{name} in one plain file")
        assert f"cutaway {cutaway.__version__}" in header
        stated = re.search(r"^    (Config\(.*?\))$", header, flags=re.MULTILINE | re.DOTALL)
        assert stated
        assert eval(stated[1], {"Config": Config}) == found.config == configuration(name)[1]


def test_a_file_speaks_of_its_own_model_only(known: dict[str, Source]) -> None:
    def says(name: str, *words: str) -> list[bool]:
        text = known[name].text.replace("norm_first", "").replace("causal=", "")
        return [bool(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, flags=re.IGNORECASE)) for word in words]

    assert says("openai-gpt", "pre-norm", "ln_f", "rotary", "segment", "erf", "RMS", "swiglu", "post-norm") == [False] * 7 + [True]
    assert says("gpt2", "post-norm", "rotary", "segment", "RMS", "lengths", "pre-norm", "ln_f") == [False] * 5 + [True] * 2
    assert says("roberta-base", "key_pos <= query_pos", "causal", "came before", "tanh", "POSITION_OFFSET = 2") == [False] * 4 + [True]
    assert says("roberta-base-openai-detector", "unembed", "(B, T, V)", "V vocabulary", "(B, C)") == [False] * 3 + [True]


def test_one_line_makes_it_causal(known: dict[str, Source]) -> None:
    for found in known.values():
        assert found.code.count("key_pos <= query_pos") == found.config.causal, found.name


def test_the_letters_of_the_legend_are_those_of_the_shapes(known: dict[str, Source]) -> None:
    for found in known.values():
        legend = found.text.split("\n\n")[1]
        explained = set(re.findall(r"(?:^|   )([A-Z]) ", legend, flags=re.MULTILINE))
        comments = " ".join(re.findall(r"#.*\((.*?)\)", found.code))
        assert explained >= set(re.findall(r"\b[A-Z]\b", comments)), found.name


def test_attention_is_the_eight_lines(known: dict[str, Source]) -> None:
    """Those of the core, without the taps."""
    tree = ast.parse(known["gpt2"].text)
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "attention")
    assert len(function.body) == 8  # seven and the docstring; `def` is the eighth


def test_comments_of_the_core_are_kept(known: dict[str, Source]) -> None:
    core = "".join(path.read_text(encoding="utf-8") for path in Path(cutaway.__file__).parent.glob("core/*.py"))
    for found in known.values():
        code = found.code
        comments = [comment for comment in re.findall(r"  # (.*)", code) if "(B, H, " not in comment]  # G is H where no head is shared
        assert len(comments) > 10
        assert [comment for comment in comments if comment not in core] == [], found.name


def test_it_prints_the_same_every_time(known: dict[str, Source]) -> None:
    assert source("openai-community/gpt2") == known["gpt2"]
    assert source("gpt1") == known["openai-gpt"]


def test_each_field_has_its_meaning() -> None:
    assert all(meanings()[name] for name in Config.__dataclass_fields__)


def test_it_takes_folders_and_files(smollm2: Path, minilm: Path) -> None:
    assert "class RMSNorm" in source(str(smollm2)).text
    assert "class PoolerHead" in source(str(minilm)).text or "self.head" not in source(str(minilm)).text


def test_it_loads_no_torch() -> None:
    code = "import sys; from cutaway.diff_models import diff_models; diff_models('gpt1', 'nano-roberta'); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_what_it_returns() -> None:
    found = source("roberta", name="mine")
    assert json.loads(json.dumps(found.to_dict())) == {"name": "mine", "config": found.config.to_dict(), "text": found.text}
    assert "class Transformer" in found._repr_html_()
    assert found.text.endswith(found.code)


def test_a_configuration_without_a_name() -> None:
    known = source("gpt2")
    found = source(known.config)
    assert found.program == known.program
    assert found.text.startswith('"""A transformer in one plain file')
    assert "cutaway.load(...)" in found.text


@pytest.mark.parametrize("name", ["", ".", "./nowhere", "no/such", "gpt2.bin"])
def test_bad_input(name: str) -> None:
    with pytest.raises(CutawayError):
        source(name)


def test_an_unknown_name() -> None:
    with pytest.raises(ModelError, match="did you mean gpt2"):
        source("gpt22")
