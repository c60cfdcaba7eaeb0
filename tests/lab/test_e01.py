"""Spelling read off rows, and the cost of languages: controls, refusals, and claims that fail where their cause is taken away."""

from typing import Any

import numpy as np
import pytest

import cutaway
from cutaway import charts
from cutaway.lab import e01_languages as languages
from cutaway.lab import e01_spelling as spelling
from cutaway.lab.experiment import Run
from cutaway.lab.measurement import Measurement
from cutaway.lab.record import Record
from cutaway.lab.vocabulary import Vocabulary
from cutaway.model import Model
from tests.conftest import worded

LETTERS = "abcdefgh"


class Words(Vocabulary):
    """A made-up vocabulary whose rows spell: one-hot first letters, the length, and noise."""

    knows = True

    def __init__(self, model: Any) -> None:
        rng = np.random.default_rng(3)
        spelt = {f"{a}{b}{c}{'x' * n}" for a in LETTERS for b in "ijkl" for c in "mnop" for n in range(4)}
        ordered = sorted(spelt)
        rows = rng.normal(size=(len(ordered), 24))
        if self.knows:
            rows[:, :8] += 4 * np.eye(8)[[LETTERS.index(word[0]) for word in ordered]]
            rows[:, 8] += 2 * np.array([len(word) for word in ordered])
        self.__dict__.update(model=model, rows=rows, words={word: n for n, word in enumerate(ordered)})


def spelt(model: Any = None) -> dict[str, Measurement]:
    return {m.key: m for m in spelling.spelling.measure(Run(model or worded("gpt2"), seed=3))}


def verdicts(found: dict[str, Measurement]) -> list[str]:
    return [claim.check(found.get(claim.measurement)) for claim in spelling.spelling.claims]


class TestSpelling:
    def test_where_rows_spell_the_claims_hold(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(spelling, "Vocabulary", Words)
        found = spelt()
        assert verdicts(found) == ["holds"] * 3
        assert found["letter[read=row]"].value > 0.95  # type: ignore[operator]
        record = Record("e01_spelling", 1, {}, {"model": "tiny"}, 3, 0.95, tuple(found.values()), {})
        for chart in spelling.charts([record]).values():
            assert "<svg" in charts.svg(chart)

    def test_where_they_do_not_the_claims_fail(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(spelling, "Vocabulary", type("Mute", (Words,), {"knows": False}))
        assert "holds" not in verdicts(spelt())

    def test_forms_of_a_word_stay_in_one_fold(self) -> None:
        words = ("run", "runs", "running", "hope", "hoped", "hopes", "tall", "taller", "ring", "rings")
        stems = [spelling.stem(word) for word in words * 3]
        for train, test in spelling.dealt(stems, np.arange(len(stems)), 3, np.random.default_rng(1)):
            assert not {stems[n] for n in train} & {stems[n] for n in test}
        assert spelling.stem("runs") == spelling.stem("running")
        assert spelling.stem("hoped") == spelling.stem("hope")

    def test_ridge_is_scikit_learns(self) -> None:
        from sklearn.linear_model import Ridge
        from sklearn.preprocessing import StandardScaler

        rng = np.random.default_rng(2)
        x, y, new = rng.normal(size=(40, 6)) * [1, 2, 3, 4, 5, 6], rng.normal(size=(40, 2)), rng.normal(size=(7, 6))
        (said,) = spelling.ridge(x, y, new, [3.0])
        scaler = StandardScaler().fit(x)
        assert said == pytest.approx(Ridge(alpha=3.0).fit(scaler.transform(x), y).predict(scaler.transform(new)))

    def test_a_vocabulary_too_small_says_so(self) -> None:
        assert "too few" in spelt()["letter"].note

    def test_it_runs_on_a_nano_model(self) -> None:
        found = spelt(cutaway.load("nano-gpt2"))
        assert found["words"].value > 200  # type: ignore[operator]
        assert not spelling.spelling.claims_about(cutaway.load("nano-gpt2"))

    def test_a_parameter_that_makes_no_sense(self) -> None:
        with pytest.raises(cutaway.CutawayError, match="words=1"):
            list(spelling.spelling.measure(Run(worded("gpt2")), words=1))


class TestVocabulary:
    @pytest.mark.parametrize("kind", ("gpt1", "gpt2", "roberta", "bert"))
    def test_its_words_are_one_token_within_a_sentence(self, kind: str) -> None:
        model = worded(kind)
        words = Vocabulary(model)
        assert words.of("cat") is not None
        for word, n in words.words.items():
            assert model.tokenizer.encode(f" {word}") == [n]
        assert words.rows.shape == (model.config.vocab_size, model.config.width)


class TestLanguages:
    def test_without_the_data_set_it_says_what_to_do(self, tmp_path: Any) -> None:
        with pytest.raises(cutaway.CutawayError, match="udhr is not here"):
            list(languages.languages.measure(Run(worded("gpt2"), data=tmp_path)))

    def test_claims_hold_on_the_declaration(self, data: Any) -> None:
        found, results = measured(cutaway.load("nano-gpt1"), data)
        assert results == ["holds"] * 4
        record = Record("e01_languages", 1, {}, {"model": "tiny"}, 3, 0.95, tuple(found.values()), {})
        for chart in languages.charts([record]).values():
            assert "<svg" in charts.svg(chart)

    def test_with_the_texts_exchanged_they_fail(self, data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        real = languages.translation
        swap = {"eng": "por_PT", "por_PT": "eng"}
        monkeypatch.setattr(languages, "translation", lambda name, text: real(swap.get(name, name), text))
        _, results = measured(cutaway.load("nano-gpt1"), data)
        assert results[:3] == ["fails"] * 3


def measured(model: Model, data: Any) -> tuple[dict[str, Measurement], list[str]]:
    found = {m.key: m for m in languages.languages.measure(Run(model, data=data))}
    return found, [claim.check(found.get(claim.measurement)) for claim in languages.languages.claims]
