"""No query fails because of a record: selection and relabeling."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from reticent.audit import verify
from reticent.errors import InvalidDataError, InvalidParameterError, SolverError
from reticent.hypotheses import (
    Conjunctions,
    FiniteClass,
    Halfspaces,
    Intervals,
    Rectangles,
    Stumps,
    Thresholds,
    base,
)
from reticent.prediction import RelabelingClassifier, StableSelectionClassifier
from reticent.prediction.selection import relabeling_rules as rules
from reticent.prediction.selection.fresh_hypotheses import ClassSearch
from reticent.prediction.selection.stable_selection_rules import SelectionPlan

UNITS = list(product((0.0, 1.0), (0, 1)))


def few_labelings(monkeypatch, most):
    monkeypatch.setattr(base, "MAX_LABELINGS", most)


class Planned(StableSelectionClassifier):
    """Stable selection from subsets of two units, so that tiny data can be used."""

    def _plan(self, n, hypotheses):
        return SelectionPlan(2, 0.7, 0.0 if self.epsilon is None else 0.2)


def relabeling():
    return RelabelingClassifier(Intervals(1), 4.0, flip=0.2, n_shards=3, classes=[0, 1])


def ties_first():
    X = np.array([[0.0]] * 60 + [[float(i)] for i in range(20)])
    return X, (X[:, 0] > 5).astype(int)


@pytest.mark.parametrize(
    "model",
    [
        StableSelectionClassifier(Intervals(1), epsilon=4.0, flip=0.2, classes=[0, 1]),
        StableSelectionClassifier(Intervals(1), stability=0.5, classes=[0, 1]),
        RelabelingClassifier(Intervals(1), 1.0, n_shards=3, classes=[0, 1]),
    ],
)
def test_a_subset_with_too_many_labelings_is_answered_all_the_same(model, monkeypatch):
    # Two different points have four labelings; most subsets have more points than two.
    few_labelings(monkeypatch, 4)
    X, y = ties_first()
    assert model.fit(X, y).plan_.subset >= 3
    assert model.predict(np.tile([[7.0]], (50, 1))).shape == (50,)


@pytest.mark.parametrize("setting", [{"stability": 0.5}, {"epsilon": 1.0}])
def test_selection_keeps_its_promise_when_subsets_fail(setting, monkeypatch):
    def law(model, queries):
        # After the fit, so that no data are refused: equal points have two labelings,
        # different ones four.
        with monkeypatch.context() as patch:
            few_labelings(patch, 2)
            return model.response(queries)

    def make():
        return Planned(Intervals(1), classes=[0, 1], **setting)

    report = verify(make, UNITS, 4, symmetric=True, law=law)
    assert report.holds, str(report)
    assert report.tightness > 0.1


def test_relabeling_keeps_its_promise_when_subsets_and_shards_fail(monkeypatch):
    minimise = Intervals.minimise

    def fragile(self, X, y, weights=None):
        if len(X) == 1 and X[0] == 1.0 and y[0] == 1:
            raise SolverError("the data")
        return minimise(self, X, y, weights)

    def law(model, queries):
        assert not model.plan_.net
        with monkeypatch.context() as patch:
            few_labelings(patch, 2)
            patch.setattr(Intervals, "minimise", fragile)
            return model.response(queries)

    report = verify(relabeling, UNITS, 3, symmetric=True, law=law)
    assert report.holds, str(report)
    assert report.tightness > 0.1


class FailsForAll(Planned):
    """Broken on purpose: one record makes every subset fail."""

    def response(self, X):
        search = self.law_.search
        if (search.X == 1.0).any():
            search = replace(search, hypotheses=None)
        return replace(self.law_, search=search).response(X)


def test_a_failure_that_depends_on_others_is_caught(monkeypatch):
    monkeypatch.setattr(ClassSearch, "check_queries", lambda self, rows: None)

    def make():
        return FailsForAll(Intervals(1), stability=0.5, classes=[0, 1])

    assert not verify(make, UNITS, 4, symmetric=True).holds


@pytest.mark.parametrize("kind", [StableSelectionClassifier, RelabelingClassifier])
def test_rows_that_the_class_does_not_take_are_refused_at_fit(kind):
    X = np.zeros((60, 2))
    y = np.arange(60) % 2
    X[40, 1] = 0.5
    with pytest.raises(InvalidDataError, match="only 0 and 1"):
        kind(Conjunctions(), epsilon=5.0, flip=0.2, classes=[0, 1]).fit(X, y)
    with pytest.raises(InvalidParameterError, match="three"):
        kind(Halfspaces(), epsilon=5.0, flip=0.2, classes=[0, 1]).fit(
            np.zeros((60, 4)), y
        )


@pytest.mark.parametrize("kind", [StableSelectionClassifier, RelabelingClassifier])
def test_queries_that_the_class_does_not_take_are_refused(kind):
    family = FiniteClass.from_table([[0], [1]], [[0, 0], [0, 1]])
    X, y = np.tile([[0.0], [1.0]], (30, 1)), np.tile([0, 1], 30)
    model = kind(family, epsilon=5.0, flip=0.2, classes=[0, 1]).fit(X, y)
    with pytest.raises(InvalidDataError, match="domain"):
        model.predict([[2.0]])


CLASSES = [
    (Thresholds(), 1),
    (Intervals(2), 1),
    (Stumps(), 2),
    (Rectangles(), 2),
    (Halfspaces(), 2),
    (Conjunctions(), 3),
]


@pytest.mark.parametrize(("family", "d"), CLASSES, ids=lambda v: type(v).__name__)
def test_a_class_lists_whatever_its_growth_function_allows(family, d, monkeypatch):
    rng = np.random.default_rng(0)
    own = family.on(d)
    for m in (1, 2, 5):
        points = rng.normal(size=(m, d))
        if isinstance(family, Conjunctions):
            points = (points > 0).astype(float)
        with monkeypatch.context() as patch:
            few_labelings(patch, own.growth(m))
            if isinstance(family, Conjunctions):
                patch.setattr(
                    "reticent.hypotheses.conjunctions.MAX_LABELINGS", own.growth(m)
                )
            assert 1 <= len(own.project(points)) <= own.growth(m)


def test_a_net_is_used_only_for_subsets_that_can_always_be_listed(monkeypatch):
    def plan():
        facts = {"labels_from_data": False, "seeded": False}
        return rules.plan_relabeling(10**6, 1.0, 1e-8, Thresholds(), **facts)[0]

    # Nets pay off where they fail less often than can be proved; taken as given here.
    monkeypatch.setattr(rules, "net_failure", lambda *facts: 0.0)
    assert plan().net
    limit = Thresholds().growth(plan().subset) - 1
    monkeypatch.setattr(rules, "MOST_CANDIDATES", limit)
    assert Thresholds().growth(plan().subset) <= limit
