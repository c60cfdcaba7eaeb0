"""What separates two models: the fields by their values, the parts by their counts, the code by a diff that leads from one to the other."""

import json

import pytest

from cutaway.about import about
from cutaway.core.config import Config
from cutaway.diff_models import ModelDifference, diff_models
from cutaway.errors import ModelError
from cutaway.families import find_known
from cutaway.source import source


@pytest.fixture(scope="module")
def gpt1_roberta() -> ModelDifference:
    return diff_models("gpt1", "roberta")


def test_the_fields_that_differ(gpt1_roberta: ModelDifference) -> None:
    one, other = (known.config.to_dict() for name in ("gpt1", "roberta") if (known := find_known(name)))
    assert {field.name: (field.a, field.b) for field in gpt1_roberta.fields} == {
        name: (one[name], other[name]) for name in one if one[name] != other[name]
    }
    assert {"causal", "embed_norm", "activation", "position_offset", "segments", "head"} < {field.name for field in gpt1_roberta.fields}
    assert all(field.means for field in gpt1_roberta.fields)


def test_the_parts_are_those_of_about(gpt1_roberta: ModelDifference) -> None:
    for name, counts in (("gpt1", [part.a for part in gpt1_roberta.parts]), ("roberta", [part.b for part in gpt1_roberta.parts])):
        assert counts == [part.parameters for part in about(name).parts]
        assert sum(counts) == about(name).parameters


def test_the_diff_leads_from_one_file_to_the_other(gpt1_roberta: ModelDifference) -> None:
    assert patched(source("gpt1").program, gpt1_roberta.code) == source("roberta").program
    assert gpt1_roberta.code.startswith("--- openai-gpt\n+++ roberta-base\n")
    assert "-    readable = key_pos <= query_pos[:, None]" in gpt1_roberta.code


def patched(text: str, diff: str) -> str:
    """The text after a unified diff, applied as its format says."""
    old, new, at = text.splitlines(), [], 0
    for line in diff.splitlines()[2:]:
        if line.startswith("@@"):
            start = int(line.split()[1].split(",")[0].removeprefix("-")) - 1
            new += old[at:start]
            at = start
        elif line.startswith("+"):
            new.append(line[1:])
        else:
            assert old[at] == line[1:]
            new += [old[at]] if line.startswith(" ") else []
            at += 1
    return "\n".join([*new, *old[at:]]) + "\n"


def test_the_same_architecture_in_other_sizes() -> None:
    found = diff_models("gpt2", "gpt2-xl")
    assert found.same_code
    assert {field.name for field in found.fields} == {"width", "layers", "heads", "mlp_width"}
    assert "differ in sizes alone (width, layers, heads, mlp_width)" in found.verdict
    assert all(line[1:].split(" ")[0].isupper() for line in found.code.splitlines()[2:] if line[0] in "+-")


def test_one_switch() -> None:
    known = find_known("gpt2")
    assert known
    found = diff_models(known.config, known.config.with_(causal=False))
    assert [field.name for field in found.fields] == ["causal"]
    assert not found.same_code
    assert "1 field," in found.verdict


def test_a_setting_that_is_no_size() -> None:
    known = find_known("gpt2")
    assert known
    found = diff_models(known.config, known.config.with_(norm_eps=1e-6))
    assert found.same_code
    assert "settings alone (norm_eps)" in found.verdict


def test_one_configuration_twice() -> None:
    small = Config(
        vocab_size=9, context=9, width=4, layers=1, heads=2, mlp_width=8,
        causal=True, norm_first=True, final_norm=True, embed_norm=False, activation="gelu_tanh",
    )  # fmt: skip
    found = diff_models(small, small)
    assert (found.fields, found.code) == ((), "")
    assert "same configuration" in found.verdict


def test_what_it_returns(gpt1_roberta: ModelDifference) -> None:
    assert json.loads(json.dumps(gpt1_roberta.to_dict()))["verdict"] == gpt1_roberta.verdict
    assert "position_offset" in gpt1_roberta._repr_html_()


def test_an_unknown_name() -> None:
    with pytest.raises(ModelError, match="did you mean roberta"):
        diff_models("gpt1", "robertta")
