"""The micro-world keeps its promises: balanced tests, pairs never seen together, everything else seen, truth that holds."""

import itertools
import random
import re
from collections import Counter

import pytest

from cutaway.worlds import TIERS, passages, twin_set
from cutaway.worlds.frames import FRAMES, KINDS, cues
from cutaway.worlds.nouns import CLASSES, UNSEEN, held_out
from cutaway.worlds.passages import draw_scene

N = 30_000


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [passage.text for passage in itertools.islice(passages(1), N)]


def nouns_in(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z]+", text.lower()) if any(word in nouns for nouns in CLASSES.values())}


def test_the_size_of_the_world() -> None:
    assert sum(map(len, CLASSES.values())) == len({noun for nouns in CLASSES.values() for noun in nouns}) >= 150
    assert len(FRAMES) == len({frame.name for frame in FRAMES}) >= 24
    assert len(KINDS) >= 6
    assert len({told for frame in FRAMES for told in frame.told}) == 2 * len(FRAMES)


def test_each_frame_names_both_roles_first_once() -> None:
    for frame in FRAMES:
        first, second = frame.told
        assert first.index("{0}") < first.index("{1}")
        assert second.index("{1}") < second.index("{0}")


def test_the_same_seed_gives_the_same_text() -> None:
    assert [*itertools.islice(passages(5), 50)] == [*itertools.islice(passages(5), 50)]
    assert [*itertools.islice(passages(5), 50)] != [*itertools.islice(passages(6), 50)]
    assert twin_set("pairs") == twin_set("pairs")


def test_answers_are_marked(texts: list[str]) -> None:
    for passage in itertools.islice(passages(1), 500):
        assert passage.answers
        marked = {passage.text[start:stop] for start, stop in passage.answers}
        assert len(marked) == 1
        assert passage.text[passage.answers[0][0] - 1] == " "


def test_every_noun_cue_and_frame_occurs_in_training(texts: list[str]) -> None:
    everything = " ".join(texts).lower()
    words = set(re.findall(r"[a-z']+", everything))
    assert {noun for nouns in CLASSES.values() for noun in nouns} <= words
    for kind in KINDS.values():
        for cue in cues(kind):
            assert cue.text in everything, cue.text
    for frame in FRAMES:
        for told in frame.told:
            assert re.search(told.format("[a-z]+", "[a-z]+"), everything), told


def test_no_held_out_pair_occurs_in_training(texts: list[str]) -> None:
    """Whatever two nouns stand in a test twin never stand in one passage of training; trophy and suitcase are such a pair."""
    assert held_out("trophy", "suitcase")
    pairs = {frozenset(twin.nouns) for twin in twin_set("pairs")}
    assert all(held_out(*pair) for pair in pairs)
    for text in texts:
        together = {frozenset(pair) for pair in itertools.combinations(sorted(nouns_in(text)), 2)}
        assert not together & pairs, text


def test_unseen_nouns_are_never_in_a_frame() -> None:
    rng = random.Random(0)
    scenes = [draw_scene(rng, easy=False) for _ in range(N)]
    assert not any(UNSEEN & set(scene.nouns) for scene in scenes)
    assert all(UNSEEN & set(twin.nouns) for twin in twin_set("nouns"))


def test_the_bound_set_is_balanced() -> None:
    """Each deciding word means the first noun as often as the second, in every frame and over both orders of mention."""
    bound = twin_set("pairs")
    assert len(bound) >= 500
    means: Counter[tuple[str, str, int]] = Counter()
    for twin in bound:
        assert sorted(twin.means) == [0, 1]
        for word, meant in zip(twin.words, twin.means, strict=True):
            means[twin.frame, word, meant] += 1
    for frame, word, _ in list(means):
        assert means[frame, word, 0] == means[frame, word, 1], (frame, word)
    orders = Counter((twin.frame, twin.order) for twin in bound)
    assert all(orders[frame, 0] == orders[frame, 1] for frame, _ in orders)


@pytest.mark.parametrize("tier", TIERS)
def test_twins_differ_in_the_deciding_word_alone(tier: str) -> None:
    for twin in twin_set(tier):
        a, b, same = (text.split(" ") for text in (twin.a, twin.b, twin.neutral))
        assert len(a) == len(b) == len(same)
        assert [x != y for x, y in zip(a, b, strict=True)].count(True) == 1
        assert [x != y for x, y in zip(a, same, strict=True)].count(True) == 1
        assert twin.a.index(twin.nouns[0]) < twin.a.index(twin.nouns[1])


def test_the_truth_holds() -> None:
    """Spelled out by hand for the sentence that everything began with, and for its mirror images."""
    fit = [twin for twin in twin_set("pairs") if twin.frame == "didn't fit in"]
    for twin in fit:
        content, container = twin.nouns if twin.order == 0 else twin.nouns[::-1]
        for text, m in zip((twin.a, twin.b), twin.means, strict=True):
            too_big = [f"too {word}" for word in ("big", "large")] + [f"not {word} enough" for word in ("small", "tiny")]
            grew = any(phrase in text for phrase in too_big)
            assert twin.nouns[m] == (content if grew else container), text
