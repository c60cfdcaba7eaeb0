"""What a model is asked: labels where they belong, the published masking rates, padding known by length."""

import torch

from cutaway.train.data import Batch, collate
from cutaway.train.objectives import IGNORE, Causal, Masked

END = 50256


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_end_of_text_that_pads_is_still_a_label() -> None:
    """Pitfall 54: [A, B, EOT, PAD, PAD] with EOT = PAD; the real one is asked for, the padding is not."""
    batch = collate([([7, 8, END], []), ([1, 2, 3, 4, 5], [])], pad=END)
    asked = Causal()(batch, rng())
    assert asked.inputs[0].tolist() == [7, 8, END, END]
    assert asked.labels[0].tolist() == [8, END, IGNORE, IGNORE]
    assert asked.labels[1].tolist() == [2, 3, 4, 5]


def test_answers_weigh_more() -> None:
    batch = collate([([7, 8, 9], [2])], pad=0)
    assert Causal(salience=5.0)(batch, rng()).weights.tolist() == [[1.0, 5.0]]


def test_masking_rates() -> None:
    """Pitfall 55: of 200,000 tokens 30,000 ± 480 chosen; 80 % masked, 10 % random, 10 % as they were; specials never."""
    ids = torch.randint(5, 1000, (400, 502), generator=rng())
    ids[:, 0], ids[:, -1] = 0, 2
    batch = Batch(ids, torch.full((400,), 502), torch.zeros_like(ids, dtype=torch.bool))
    asked = Masked(mask=4, specials=frozenset({0, 1, 2, 3, 4}), vocab_size=1000)(batch, rng())
    chosen = asked.labels != IGNORE
    masked, same = chosen & (asked.inputs == 4), chosen & (asked.inputs == ids)
    assert abs(int(chosen.sum()) - 30_000) <= 480
    assert abs(int(masked.sum()) - 24_000) <= 210 + 0.8 * 480
    assert abs(int((chosen & ~masked & ~same).sum()) - 3_000) <= 160 + 0.1 * 480
    assert abs(int(same.sum()) - 3_000) <= 160 + 0.1 * 480
    assert not chosen[:, 0].any()
    assert not chosen[:, -1].any()
    assert torch.equal(asked.labels[chosen], ids[chosen])
    assert torch.equal(asked.inputs[~chosen], ids[~chosen])


def test_padding_is_never_chosen() -> None:
    batch = collate([([9] * 3, []), ([9] * 400, [])], pad=9)
    asked = Masked(mask=4, specials=frozenset({4}), vocab_size=10, rate=1.0)(batch, rng())
    assert (asked.labels[0, 3:] == IGNORE).all()
    assert (asked.labels[0, :3] == 9).all()
