"""P10: what released numbers teach about later answers; nothing here is charged."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.prediction.neighbors import spending
from reticent.prediction.neighbors.spending import Lessons

NOISE = 0.03
QUESTIONS = 3_000


def taught(*, local: float, uneven: float, seed: int = 0) -> Lessons:
    """Return lessons from votes for one of two labels.

    Rates differ from the model by a deviation of `local` where it is least sure, and
    the weight of those who speak varies by `uneven` around one.
    """
    rng = np.random.default_rng(seed)
    lessons = Lessons()
    for rate in rng.uniform(0.02, 0.98, QUESTIONS):
        doubt = 4 * rate * (1 - rate)
        there = rate - 0.5 + local * np.sqrt(doubt) * rng.normal()
        weight = max(1 + uneven * rng.normal(), 0.0)
        said = weight * there + np.sqrt(NOISE) * rng.normal()
        lead = np.array([said]), np.array([rate - 0.5])
        lessons.saw_rates(*lead, NOISE, 2)
        lessons.saw_lead(said, rate - 0.5, NOISE, doubt, 2)
    return lessons


def test_votes_are_trusted_where_rates_differ_from_the_model():
    assert taught(local=0.3, uneven=0.0).difference > 0.09
    assert taught(local=0.3, uneven=0.5).difference > 0.06


@pytest.mark.parametrize("uneven", [0.0, 0.5, 0.8])
def test_votes_of_uneven_weight_are_not_taken_for_local_rates(uneven, monkeypatch):
    """A model that is right everywhere is hardly corrected."""
    assert taught(local=0.0, uneven=uneven).difference < 0.002
    if uneven:
        # Without the third reason, uneven weights look like local rates.
        monkeypatch.setattr(spending, "_SPREADS", np.zeros((1, 1)))
        assert taught(local=0.0, uneven=uneven).difference > 0.01


def test_searches_that_ended_early_have_a_rate_of_their_own():
    lessons, expected = Lessons(), np.array([0.3])
    for _ in range(500):
        lessons.saw_rates(0.2 * expected, expected, NOISE, 1)
        lessons.saw_rates(1.4 * expected, expected, NOISE, 3)
    assert 0.2 <= lessons.slope(1) < 0.3
    assert 1.3 < lessons.slope(3) <= 1.4
    # Where nothing was seen, it is as elsewhere.
    assert 0.7 < lessons.slope(4) < 0.9


def test_lessons_are_kept_as_plain_numbers():
    lessons = taught(local=0.1, uneven=0.3)
    again = Lessons(*lessons.as_list())
    assert again.as_list() == lessons.as_list()
    assert len(lessons.as_list()) == Lessons.length()
    copy = lessons.copy()
    copy.saw_lead(1.0, 0.1, NOISE, 1.0, 1)
    assert copy.as_list() != lessons.as_list()
