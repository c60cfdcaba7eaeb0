"""Embeddings: toy tables whose answers are known, other libraries' numbers, and claims that fail where their cause is taken away."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cutaway
from cutaway import charts
from cutaway.lab import e02_analogies as analogies
from cutaway.lab import e02_embeddings as embeddings
from cutaway.lab import e02_geometry as geometry
from cutaway.lab.experiment import Experiment, Run
from cutaway.lab.measurement import Measurement
from cutaway.lab.record import Record
from cutaway.model import Model
from tests.conftest import SENTENCES, worded

KINDS = ("gpt1", "gpt2", "roberta", "bert", "llama", "classifier")


@cache
def nano(name: str) -> Model:
    return cutaway.load(name)


def verdicts(e: Experiment, model: Model, found: dict[str, Measurement]) -> dict[str, str]:
    return {c.measurement: c.check(found.get(c.measurement)) for c in e.claims_about(model)}


def drawn(e: Experiment, found: dict[str, Measurement]) -> None:
    assert e.charts
    for chart in e.charts([Record(e.name, 1, {}, {"model": "tiny"}, 3, 0.95, tuple(found.values()), {})]).values():
        assert "<svg" in charts.svg(chart)


class TestEmbeddings:
    def measured(self, model: Model) -> dict[str, Measurement]:
        given = {"words": 100, "passages": 300, "draws": 200}
        return {m.key: m for m in embeddings.embeddings.measure(Run(model, seed=3, data=Path("nowhere")), **given)}

    @pytest.mark.parametrize("name", ("nano-gpt1", "nano-gpt2", "nano-roberta"))
    def test_claims_hold(self, name: str) -> None:
        found = self.measured(nano(name))
        assert set(verdicts(embeddings.embeddings, nano(name), found).values()) == {"holds"}
        drawn(embeddings.embeddings, found)

    @pytest.mark.parametrize("kind", KINDS)
    def test_it_runs_on_every_kind(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(embeddings, "drawn", lambda run, model, count: SENTENCES[:count])
        found = self.measured(worded(kind))
        assert found["lookup.apart"].value == 0
        assert "wikitext-2 is not here" in found["length.spearman"].note
        config = worded(kind).config
        assert (found["tied.apart"].value == 0) == (config.tied and kind != "classifier")
        assert (found["positions.near_above_far"].value is None) == (config.positions == "rotary")

    def test_a_table_that_is_not_looked_up_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model = worded("gpt2")
        monkeypatch.setattr(embeddings, "drawn", lambda run, model, count: SENTENCES[:count])
        with model.edit({"tok_embed": cutaway.scale(1.001)}):
            assert verdicts(embeddings.embeddings, model, self.measured(model))["lookup.apart"] == "fails"

    def test_an_output_of_its_own_fails(self) -> None:
        model = cutaway.load("nano-gpt1")
        head: Any = model.transformer.head
        head.unembed.weight = torch.nn.Parameter(head.unembed.weight + 1e-3, requires_grad=False)
        assert verdicts(embeddings.embeddings, model, self.measured(model))["tied.apart"] == "fails"

    def test_positions_without_an_order_fail(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = embeddings.learned

        def shuffled(model: Model) -> Any:
            rows = real(model)
            assert rows is not None
            return rows[np.random.default_rng(5).permutation(len(rows))]

        monkeypatch.setattr(embeddings, "learned", shuffled)
        (claim,) = (c for c in embeddings.embeddings.claims if c.measurement == "positions.near_above_far")
        assert claim.check(self.measured(nano("nano-gpt1"))[claim.measurement]) != "holds"
        monkeypatch.undo()
        assert claim.check(self.measured(nano("nano-gpt1"))[claim.measurement]) == "holds"

    def test_nearness_that_says_nothing_fails(self) -> None:
        found = self.measured(nano("nano-gpt2"))  # its world has no two forms of a word, so this is what nothing looks like
        (claim,) = (c for c in embeddings.embeddings.claims if c.measurement == "nearest.form_above_chance")
        assert claim.check(found[claim.measurement]) == "fails"

    def test_directions_are_those_of_the_covariance(self) -> None:
        found = self.measured(nano("nano-gpt2"))
        rows = embeddings.learned(nano("nano-gpt2"))
        assert rows is not None
        values = np.sort(np.linalg.eigvalsh(np.cov(rows.T)))[::-1]
        expected = int(np.searchsorted(values.cumsum() / values.sum(), 0.9)) + 1
        assert found[f"positions.directions[positions={len(rows)}]"].value == expected

    def test_spearman_is_scipys_and_its_interval_covers(self) -> None:
        rng, inside = np.random.default_rng(1), 0
        for _ in range(100):
            x = rng.normal(size=60)
            found = embeddings.spearman(Run(level=0.9), x, x + rng.normal(size=60), {})
            assert found.interval is not None
            inside += found.interval[0] <= 0.69 <= found.interval[1]  # 6/π · asin(ρ/2) at ρ = 1/√2
        assert 80 <= inside <= 98


class TestAnalogies:
    def test_a_table_made_of_differences_solves_them_only_without_the_inputs(self) -> None:
        """Royal and male, as directions; each word its own large direction, so that inputs are nearest."""
        rng = np.random.default_rng(2)
        royal, male = rng.normal(size=(2, 40)) * 0.5
        base = rng.normal(size=40)
        rows = np.stack([base + royal + male, base + male, base, base + royal, *rng.normal(size=(6, 40))])  # king, man, woman, queen
        found = analogies.answers(analogies.unit(rows), np.arange(len(rows)), [(1, 0, 2, 3)])
        assert found[0]["b − a + c"] == 1
        expected = analogies.unit(rows)
        sought = expected[0] - expected[1] + expected[2]
        assert found[0]["b − a + c allowed"] == float((expected @ sought).argmax() == 3)
        assert found[0]["input"] == float((expected @ sought).argmax() in (0, 1, 2))

    def test_sections_are_read_as_the_file_has_them(self, tmp_path: Path) -> None:
        (tmp_path / "q.txt").write_text(": one\nAthens Greece Oslo Norway\n: two\nbig bigger small smaller\ngood better bad worse\n")
        found = analogies.sections(tmp_path / "q.txt")
        assert found == {
            "one": [("Athens", "Greece", "Oslo", "Norway")],
            "two": [("big", "bigger", "small", "smaller"), ("good", "better", "bad", "worse")],
        }

    def test_macro_averages_count_every_section_the_same(self) -> None:
        questions = {"long": [(1, 2, 3, 4)] * 30 + [(5, 6, 7, 8)] * 10, "short": [(9, 10, 11, 12)] * 20}
        hit = {"b − a + c": 1.0, "b − a + c allowed": 0.0, "input": 1.0, "b": 0.0, "b allowed": 0.0, "c": 0.5, "c allowed": 0.0}
        found = {"long": [hit] * 40, "short": [hit | {"b − a + c": 0.0}] * 20}
        made = {m.key: m for m in analogies.shares(Run(), "raw", found, questions)}
        assert made["right[rows=raw,way=b − a + c,inputs=excluded]"].value == pytest.approx(0.5)
        assert made["right.section[section=long]"].value == 1

    def test_it_is_not_for_nano_models(self) -> None:
        needs = analogies.analogies.needs
        assert needs is not None
        assert "few hundred words" in needs.why_not(nano("nano-gpt2"))

    def test_a_vocabulary_without_the_words_says_so(self, data: Path) -> None:
        found = {m.key: m for m in analogies.analogies.measure(Run(worded("gpt2"), data=data))}
        assert found["sections"].value == 0
        assert "no section has 20" in found["right"].note

    def test_claims_follow_the_table(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Rows that are sums of a word and a form solve all; rows of independent Gaussians none."""
        stems, forms = [f"stem{n}" for n in range(12)], ("a", "b", "c")
        lines = [f"{x}a {x}b {y}a {y}b" for x in stems for y in stems if x != y]
        (tmp_path / "q.txt").write_text(": forms\n" + "\n".join(lines) + "\n")
        monkeypatch.setattr(analogies.data, "find", lambda name, root: [tmp_path / "q.txt"])
        for sums, expected in ((True, ["holds"] * 3), (False, ["holds", "fails", "fails"])):

            class Table:
                """Words of one token, each of a stem and a form."""

                rng = np.random.default_rng(4)
                of_stem, of_form = rng.normal(size=(12, 30)), rng.normal(size=(3, 30)) * 0.25
                words = {f"{s}{f}": 3 * n + m for n, s in enumerate(stems) for m, f in enumerate(forms)}  # noqa: RUF012
                rows = rng.normal(size=(36, 30)) * (0.42 if sums else 1.0)
                rows += (of_stem[:, None] + of_form).reshape(36, 30) * sums

                def __init__(self, model: Model) -> None:
                    self.of = self.words.get

            monkeypatch.setattr(analogies, "Vocabulary", Table)
            found = {m.key: m for m in analogies.analogies.measure(Run(worded("gpt2"), seed=3))}
            got = [claim.check(found.get(claim.measurement)) for claim in analogies.analogies.claims]
            assert [g if g == "holds" else "fails" for g in got] == expected
        drawn(analogies.analogies, found)


class TestGeometry:
    def measured(self, model: Model, **given: int) -> dict[str, Measurement]:
        return {m.key: m for m in geometry.geometry.measure(Run(model, seed=3), **({"texts": 12} | given))}

    @pytest.mark.parametrize("name", ("nano-gpt1", "nano-roberta"))
    def test_claims_hold(self, name: str) -> None:
        found = self.measured(nano(name), texts=20)
        assert set(verdicts(geometry.geometry, nano(name), found).values()) == {"holds"}
        drawn(geometry.geometry, found)

    @pytest.mark.parametrize("kind", KINDS)
    def test_it_runs_on_every_kind(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(geometry, "drawn", lambda run, model, count: SENTENCES[:count])
        model = worded(kind)
        found = self.measured(model, texts=3)
        assert f"cosine[floor={model.config.layers},rows=raw]" in found

    def test_mean_cosines_are_those_of_all_pairs(self) -> None:
        rng = np.random.default_rng(1)
        held = [rng.normal(size=(1, n, 5)) + 1 for n in (4, 6, 3)]
        found = geometry.of_floor(held, [2], 0)
        pairs = [(a, b) for a in held[0][0, 1:] for b in held[1][0, 1:]]

        def cosine(a: Any, b: Any) -> float:
            return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

        assert found["raw"][0] == pytest.approx(np.mean([cosine(a, b) for a, b in pairs]))
        assert found["without outliers"][0] == pytest.approx(np.mean([cosine(np.delete(a, 2), np.delete(b, 2)) for a, b in pairs]))
        assert found["first"][0] == pytest.approx(np.mean([cosine(held[0][0, 0], b) for b in held[0][0, 1:]]))

    def test_the_largest_dimensions_are_named(self) -> None:
        held = [np.ones((2, 5, 4)) * [1, 10, 1, 5]]
        named, share = geometry.largest(held, 2)
        assert named == [1, 3]
        assert share == pytest.approx(125 / 127)

    def test_vectors_that_point_nowhere_fail_and_pairs_with_themselves_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(7)
        monkeypatch.setattr(geometry, "stack", lambda run, text: rng.normal(size=(2, 20, 192)))
        found = verdicts(geometry.geometry, nano("nano-gpt2"), self.measured(nano("nano-gpt2")))
        assert found["cosine.last"] == "fails"
        assert found["cosine.centred_lowers"] != "holds"
        monkeypatch.setattr(geometry, "pairwise", lambda middles: [(one, one) for one in middles])
        found = verdicts(geometry.geometry, nano("nano-gpt2"), self.measured(nano("nano-gpt2")))
        assert found["cosine.gaussian.size"] == "fails"

    def test_a_parameter_that_makes_no_sense(self) -> None:
        with pytest.raises(cutaway.CutawayError, match="outliers=192.*1 to 191"):
            self.measured(nano("nano-gpt2"), outliers=192)
