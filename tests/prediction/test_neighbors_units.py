"""What one unit adds to local answers, and what it pays for that (P10, L14, G24)."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest

from reticent.errors import NearChanceWarning
from reticent.estimators import RoundBudget
from reticent.estimators.partitions import descent as learning
from reticent.learners import PrivateTabularClassifier, PrivateTabularRegressor
from reticent.mechanisms import UnitFilter
from reticent.mechanisms.individual import FULL
from reticent.prediction import (
    LastingInterface,
    PrivateNeighborsClassifier,
    PrivateNeighborsRegressor,
)
from reticent.prediction.neighbors import base
from tests.prediction.same_transcript import information, moved, recorded

N = 60
COLUMNS = [(-1.0, 1.0), (0.0, 10.0), 3]
RNG = np.random.default_rng(5)
ROWS = np.column_stack(
    [RNG.uniform(-1, 1, N), RNG.uniform(0, 10, N), RNG.integers(0, 3, N)]
)
TWO = (ROWS[:, 0] > 0).astype(int)
KINDS = {
    "two": (PrivateNeighborsClassifier, {"classes": [0, 1]}, TWO, [0, 1]),
    "three": (
        PrivateNeighborsClassifier,
        {"classes": [0, 1, 2]},
        ROWS[:, 2].astype(int),
        [0, 2],
    ),
    "numbers": (PrivateNeighborsRegressor, {"bounds": (-1, 1)}, ROWS[:, 0], [-1, 1]),
}
UNIT = 7
# Most questions are asked where the unit is, so that it is spent in the end.
ASKED = np.vstack([np.tile(ROWS[UNIT], (40, 1)), ROWS[:10], ROWS[[UNIT, UNIT]]])
HOSTILE = [
    lambda row, rng: np.full(3, np.nan),
    lambda row, rng: np.array([1.0, 10.0, 2.0]) * (1 if rng.random() < 0.5 else -1),
    lambda row, rng: ROWS[UNIT] + 0.001,
    lambda row, rng: np.array([1e300, -1e300, 77]),
]


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """Learn in few steps from few trees: the rounds are the same, there are fewer."""
    monkeypatch.setattr(learning, "_STEPS", 6)
    monkeypatch.setattr(learning, "_TREES", 6)


class Silencing:
    """Start a fit with one unit that may not speak at all."""

    def __init__(self, silent):
        self.silent = silent

    def __call__(self, n_units, cap):
        spent = np.zeros(n_units, dtype=np.uint32)
        spent[self.silent] = FULL
        return UnitFilter(n_units, cap, spent)


class Session:
    """Fit and ask, and remember who spent what."""

    def __init__(self, kind, relation, *, units=None, prior=True, local="always"):
        self.maker, self.given, self.labels, _ = KINDS[kind]
        self.given = {
            **self.given,
            "relation": relation,
            "columns": COLUMNS,
            "prior": prior,
            "local": local,
            "questions": 30,
        }
        self.units = units

    def run(self, X, y, before=None, silent=None):
        made = []

        def program():
            model = self.maker(8.0, delta=1e-3, **self.given)
            model.fit(X, y, units=self.units)
            made.append(model)
            return model.ask(ASKED)

        real = base.UnitFilter
        if silent is not None:
            base.UnitFilter = Silencing(silent)
        try:
            answers, heard = recorded(program, before)
        finally:
            base.UnitFilter = real
        self.model = made[0]
        return answers, heard

    def place(self, heard):
        """Return where the unit is in the order of units."""
        return int(heard.outcomes[heard.kinds.index("permutation")][UNIT])

    def spent(self, heard):
        return int(base.spending_of(self.model.law_).spent[self.place(heard)])


def replaced(y, label, hostile, rng):
    X, changed = ROWS.copy(), y.copy()
    X[UNIT] = hostile(ROWS[UNIT], rng)
    changed[UNIT] = label
    return X, changed


@pytest.mark.parametrize(
    ("kind", "local"), [*((kind, "always") for kind in KINDS), ("two", "never")]
)
def test_replacing_a_unit_moves_no_transcript_by_more_than_is_certified(kind, local):
    session = Session(kind, "replace-one", local=local)
    rng = np.random.default_rng(0)
    y, ends = KINDS[kind][2], KINDS[kind][3]
    (answers, heard) = session.run(ROWS, y)
    mu = Fraction(session.model.law_.budget.mu)
    found = []
    for label in ends:
        for hostile in (lambda row, rng: row, *HOSTILE):
            again, other = session.run(*replaced(y, label, hostile, rng), before=heard)
            np.testing.assert_array_equal(answers.answers, again.answers)
            np.testing.assert_array_equal(answers.trace, again.trace)
            found.append(information(heard, other))
    assert max(found) <= mu**2
    assert max(found) > mu**2 / 8  # The rounds were not all empty.


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_silencing_a_unit_moves_transcripts_by_what_it_paid(kind, prior):
    session = Session(kind, "zero-out", prior=prior)
    y = KINDS[kind][2]
    _, heard = session.run(ROWS, y)
    paid = Fraction(session.spent(heard), FULL) * Fraction(
        session.model.law_.budget.cap
    )
    _, other = session.run(ROWS, y, before=heard, silent=session.place(heard))
    real = information(heard, other)
    assert real <= paid <= Fraction(session.model.law_.budget.mu) ** 2
    # Bounds on norms, and costs in whole steps, cost little.
    assert real >= paid * Fraction(3, 4)
    assert paid > Fraction(session.model.law_.budget.mu) ** 2 / 2


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_unit_adds_and_pays_depends_on_no_other_unit(kind):
    session, rng = Session(kind, "replace-one"), np.random.default_rng(1)
    y, ends = KINDS[kind][2], KINDS[kind][3]
    _, heard = session.run(ROWS, y)
    paid, place = session.spent(heard), session.place(heard)
    alone = moved(heard, session.run(ROWS, y, before=heard, silent=place)[1])
    assert sum(np.abs(each).sum() for each in alone) > 0
    for hostile in HOSTILE:
        X = np.array([hostile(row, rng) for row in ROWS])
        labels = rng.choice(ends, N).astype(y.dtype)
        X[UNIT], labels[UNIT] = ROWS[UNIT], y[UNIT]
        _, others = session.run(X, labels, before=heard)
        assert session.spent(heard) == paid
        without = session.run(X, labels, before=heard, silent=place)[1]
        for ours, theirs in zip(alone, moved(others, without), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_a_unit_with_many_rows_is_one_unit(relation):
    session = Session("two", relation, units=np.arange(N) // 3)
    X, labels = ROWS.copy(), TWO.copy()
    X[21:24], labels[21:24] = ROWS[UNIT], 1
    _, heard = session.run(X, labels)
    for changed in ([21], [21, 22, 23]):
        others = labels.copy()
        others[changed] = 0
        _, other = session.run(X, others, before=heard)
        mu = Fraction(session.model.law_.budget.mu)
        # Replacing is silencing twice.
        assert information(heard, other) > 0
        assert information(heard, other) <= mu**2 * {"zero-out": 4}.get(relation, 1)
    assert session.spent(heard) <= FULL


def test_a_price_that_is_too_low_is_noticed(monkeypatch):
    real = UnitFilter.price
    monkeypatch.setattr(UnitFilter, "price", lambda *given: real(*given) * 0.5)
    session = Session("two", "zero-out")
    _, heard = session.run(ROWS, TWO)
    paid = Fraction(session.spent(heard), FULL) * Fraction(
        session.model.law_.budget.cap
    )
    _, other = session.run(ROWS, TWO, before=heard, silent=session.place(heard))
    assert information(heard, other) > paid * Fraction(5, 4)


@pytest.mark.parametrize("kind", ["two", "three", "numbers"])
def test_released_models_keep_to_their_certificate_too(kind):
    _, given, y, ends = KINDS[kind]
    maker = PrivateTabularRegressor if kind == "numbers" else PrivateTabularClassifier

    def program(X, y):
        model = maker(8.0, delta=1e-3, columns=COLUMNS, **given)
        return lambda: model.fit(X, y).model_.values

    values, heard = recorded(program(ROWS, y))
    found, rng = [], np.random.default_rng(3)
    for label in ends:
        for hostile in (lambda row, rng: row, *HOSTILE):
            X, labels = replaced(y, label, hostile, rng)
            again, other = recorded(program(X, labels), heard)
            np.testing.assert_array_equal(values, again)
            found.append(information(heard, other))
    mu = Fraction(RoundBudget.of("a test", 8.0, 1e-3, "replace-one").mu)
    assert mu**2 / 8 < max(found) <= mu**2


BIG = 1e308


@pytest.mark.parametrize("kind", [PrivateNeighborsRegressor, PrivateTabularRegressor])
def test_no_target_within_the_widest_bounds_stops_a_fit(kind):
    """Whether a fit ends must not depend on one unit."""
    rows = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    known = {"local": "always"} if kind is PrivateNeighborsRegressor else {}
    for own in (0.0, BIG, -BIG):
        y = np.zeros(60)
        y[7] = own
        model = kind(1.0, bounds=(-BIG, BIG), **known).fit(rows, y)
        assert np.isfinite(model.predict(rows[:5])).all()


@pytest.mark.parametrize("cell", [0.0, BIG, -BIG])
def test_no_cell_far_outside_its_range_makes_a_fit_warn(cell):
    rows = np.full((60, 1), 5e-4)
    rows[3] = cell
    model = PrivateNeighborsClassifier(1.0, classes=[0, 1], columns=[(0, 1e-3)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", NearChanceWarning)  # of public facts
        model.fit(rows, np.arange(60) % 2)


def test_many_labels_fit_into_the_log():
    rows = np.random.default_rng(1).uniform(-1, 1, (700, 2))
    known = {"classes": range(300), "local": "always", "prior": False}
    model = PrivateNeighborsClassifier(1.0, questions=9, **known)
    interface = LastingInterface(model.fit(rows, np.arange(700) % 300))
    asked = np.random.default_rng(2).uniform(-1, 1, (900, 2))
    assert interface.ask(asked).n_new > 800
