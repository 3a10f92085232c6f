"""Local answers against every adaptive analyst, on small domains (P10, G24)."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.estimators import RoundBudget
from reticent.mechanisms import UnitFilter
from reticent.mechanisms.individual import FULL, _steps
from reticent.prediction import LocalLaw
from reticent.prediction.neighbors.spending import Spending
from reticent.prediction.neighbors.votes import LOUDEST, ONE, TwoLabels
from tests.prediction.rounds_game import (
    ASKED,
    EPSILONS,
    MU,
    NUMBER,
    PROMISED,
    THREE,
    TWO,
    Rules,
    best_attack,
    numbers,
    three_labels,
    two_labels,
    worst_attack,
)

BOTH = ("replace-one", "zero-out")
SIGNS = {"speak": (1,), "count": (5,)}
HALF = ONE * LOUDEST // 2  # What a vote for one of two labels is, at its loudest.
# More than rounding of probabilities can add up to.
ROUNDING = 1e-12


def scale(relation, share, size, *, weight=2):
    """Return noise by which one contribution of this size costs a share of the cap."""
    budget = RoundBudget(MU, relation)
    weight = weight if relation == "replace-one" else 1
    return float(np.ceil(size * np.sqrt(weight / (share * budget.cap))))


def assert_private(found):
    assert (found <= PROMISED + ROUNDING).all(), found / PROMISED


def assert_rejected(found):
    assert (found > PROMISED * 1.02).any(), found / PROMISED


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize(
    ("share", "n_units"), [(0.999, 4), (0.8, 2), (0.45, 3), (0.33, 2)]
)
def test_two_labels_are_within_the_certificate_and_near_it(relation, share, n_units):
    rules = Rules(relation, scale(relation, share, HALF))
    menu = {2: ASKED, 3: [ASKED[0], ASKED[1], ASKED[3]], 4: ASKED[:2]}[n_units]
    found = worst_attack(rules, TWO, n_units, menu, SIGNS)
    assert_private(found)
    if share > 0.9:
        assert (found >= 0.9 * PROMISED).any()


@pytest.mark.parametrize("relation", BOTH)
def test_several_rounds_that_tell_more_than_signs_come_near_it_too(relation):
    # Three rounds, each a third of the budget, told by ten stretches.
    noise = scale(relation, 0.333, HALF)
    rules = Rules(relation, noise)
    edges = {"speak": tuple(np.round(np.linspace(-2.2, 2.2, 9) * noise))}
    one, other = (((0, 1),), None), (((0, 0),), None)
    if relation == "zero-out":
        other = (((0, 1),), 0)
    found = best_attack(rules, one, other, ASKED[:1], edges)
    assert_private(found)
    assert (found >= 0.9 * PROMISED).sum() >= 3


@pytest.mark.parametrize("relation", BOTH)
def test_three_labels_and_numbers_are_within_the_certificate(relation):
    for votes, domain, size, weight in (
        (three_labels, THREE, ONE * LOUDEST, 1),
        (numbers, NUMBER, HALF, 2),
    ):
        rules = Rules(relation, scale(relation, 0.45, size, weight=weight))
        rules.votes = votes
        menu = [ASKED[0], ASKED[1], ASKED[3]]
        found = worst_attack(rules, domain, 2, menu, SIGNS)
        assert_private(found)
        assert (found >= 0.6 * PROMISED).any()


@pytest.mark.parametrize("relation", BOTH)
def test_counts_alone_reach_the_certificate(relation):
    count = scale(relation, 0.997, 10, weight=1) / 10
    # A vote costs next to nothing here, so that nobody keeps a reserve for it.
    rules = Rules(relation, 1e9, count)
    found = worst_attack(rules, TWO, 2, ASKED[3:], SIGNS)
    assert_private(found)
    # Replacing a unit moves a count by one; that it could move it by sqrt(2) is paid.
    least = 0.9 if relation == "zero-out" else 0.6
    assert (found >= least * PROMISED).any()


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("share", [0.99, 0.45])
def test_a_fit_that_decides_by_a_measured_error_is_within_the_certificate(
    relation, share
):
    # Who answers, and so every later round, may depend on the error: it is paid.
    rules = Rules(relation, scale(relation, 0.45, HALF))
    menu = [("error", share), ASKED[0], ASKED[3]]
    found = worst_attack(rules, TWO, 2, menu, SIGNS | {"error": (1500,)})
    assert_private(found)
    assert (found >= 0.6 * PROMISED).any()


class DecidesByTheError(Rules):
    """A fit that shows whether the model is good, by an error without noise."""

    def play(self, law, spending, asked):
        sums, scale, _ = super().play(law, spending, asked)
        said = law.votes.said_by[law.fitted < FULL]
        return sums, scale, bool(((said - 0.1) ** 2).sum() > 0.5)


class KNearest(LocalLaw):
    """The nearest unit speaks, so that one unit pushes another out."""

    def near(self, around, radius):
        units, squares, rows = super().near(around, 1 << 30)
        order = np.lexsort((units, squares))
        first = order[self.fitted[units[order]] < FULL][:1]
        return units[first], squares[first], rows[first]


class NearestSpeak(Rules):
    law = KNearest


class Forgetful(UnitFilter):
    """Whoever has something left may speak, whatever this round costs."""

    def affords(self, units, squares, price, reserve):
        return self.spent[units] < FULL

    def admit(self, units, squares, price, reserve=0.0):
        speaks = self.spent[units] < FULL
        after = self.spent[units].astype(np.int64) + _steps(squares, price)
        self.spent[units] = np.where(speaks, np.minimum(after, FULL), FULL)
        return speaks


class ForgetsTheRound(Rules):
    def start(self, law):
        return self.carried(law, law.start())

    def carried(self, law, spending):
        found = Spending(spending.spent.copy(), law.budget.cap, spending.lessons)
        found.account = Forgetful(len(found.spent), law.budget.cap, found.spent)
        found.copy = lambda: found
        return found


class ShowsWhoIsSpent(Rules):
    def told(self, spending):
        return int((spending.spent > FULL // 2).sum())


class ForgetsAtRestart(Rules):
    def carried(self, law, spending):
        return law.start()


class RadiusFromTheData(Rules):
    def radius(self, law, place, radius):
        squares = law.metric.tables(np.array([place], np.int16))[0][law.codes[:, 0]]
        return int(np.sort(squares[law.fitted < FULL])[:2].max()) * 2 + 1


class OneForTwo(TwoLabels):
    def squares(self, said, budget):
        return said[:, 0].astype(np.float64) ** 2


class HalfThePrice(Rules):
    @staticmethod
    def votes(said, n):
        right = two_labels(said, n)
        return OneForTwo(right.said_by, right.expected)


# The rules, for which relations they are wrong, the share of the budget that the
# loudest vote costs, and how many units show it.
WRONG = {
    "k nearest": (NearestSpeak, BOTH, 0.999, 3),
    "round forgotten": (ForgetsTheRound, BOTH, 0.8, 1),
    "spent shown": (ShowsWhoIsSpent, BOTH, 0.8, 2),
    "restart": (ForgetsAtRestart, BOTH, 0.8, 1),
    "radius from data": (RadiusFromTheData, BOTH, 0.999, 4),
    "error without noise": (DecidesByTheError, BOTH, 0.8, 2),
    "half the price": (HalfThePrice, ("replace-one",), 0.999, 1),
}


@pytest.mark.parametrize(
    ("name", "relation"),
    [(name, relation) for name, (_, each, *_) in WRONG.items() for relation in each],
)
def test_wrong_rules_are_rejected(name, relation):
    wrong, _, share, n_units = WRONG[name]
    rules = wrong(relation, scale(relation, share, HALF))
    menu = ASKED[:1] if n_units == 4 else ASKED[:3]
    assert_rejected(worst_attack(rules, TWO, n_units, menu, SIGNS))


@pytest.mark.parametrize("relation", BOTH)
def test_the_printed_certificate_is_the_one_that_was_verified(relation):
    budget = RoundBudget(MU, relation)
    for epsilon, delta in zip(EPSILONS[1:], PROMISED[1:], strict=True):
        promise = budget.certificate(
            n=4, delta=delta, scope="interface", labels_from_data=False, seeded=False
        )
        assert promise.guarantee.delta == delta
        assert epsilon <= promise.guarantee.epsilon <= epsilon * (1 + 1e-9)
        assert promise.rule == "G24-approx"
    found = RoundBudget.of("a test", 1.0, float(PROMISED[5]), relation)
    assert MU * (1 - 1e-9) <= found.mu <= MU
