"""Who answers, units or a released model: decided by released numbers (P10)."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.estimators import (
    CodedColumns,
    PartitionModel,
    RoundBudget,
    Rounds,
    UnitRows,
    random_trees,
)
from reticent.learners import PrivateTabularClassifier
from reticent.mechanisms import UnitFilter, noise_source
from reticent.mechanisms.individual import FULL
from reticent.prediction import PrivateNeighborsClassifier
from reticent.prediction.neighbors.fallback import noisy_error
from reticent.prediction.neighbors.planning import most_local_questions


def waves(per_unit, questions=1000):
    X = np.random.default_rng(5).uniform(-1, 1, (20_000, 2))
    y = (np.sin(per_unit * X[:, 0]) * np.sin(per_unit * X[:, 1]) > 0).astype(int)
    known = {"classes": [0, 1], "questions": questions, "random_state": 0}
    return PrivateNeighborsClassifier(8.0, **known).fit(X, y), X, y


def test_a_released_model_that_is_nearly_always_right_answers_alone_and_says_so():
    model, X, y = waves(1)
    assert not model.local_
    assert "mean squared error, measured with noise, is 0.0" in model.local_reason_
    assert not model.plan_for(10).wanted
    law = model.law_
    found = law.ask(law.encode(X[:200]), law.start())
    assert not found.evidence.any()
    assert (found.answers == y[:200]).mean() > 0.97
    # It was paid for by units that had already paid for a first model.
    assert law.fitted.max() <= FULL
    assert law.fitted.max() > 0.6 * FULL


def test_a_released_model_that_misses_what_is_local_does_not_answer_alone():
    model, _, _ = waves(14)
    assert model.local_
    assert model.local_reason_.startswith("units near a question vote: the mean sq")
    assert model.plan_for(10).wanted > 0


def test_with_too_many_questions_a_released_model_answers_and_says_how_many_are():
    model, _, _ = waves(14, questions=10_000)
    assert not model.local_
    reason = "20000 units are too few for local votes on 10000 questions, but would do"
    assert reason in model.local_reason_
    most = int(model.local_reason_.rpartition(" ")[2])
    assert 1000 < most < 10_000
    for questions, local in ((most, True), (most + 1, False)):
        found = most_local_questions(
            20_000, model.law_.budget, questions, vote=0.5, acute=False
        )
        assert (found == questions) is local


def test_who_answers_alone_is_the_release_of_the_same_total():
    X = np.random.default_rng(3).uniform(-1, 1, (500, 2))
    y = (X[:, 0] > 0).astype(int)
    known = {"classes": [0, 1], "random_state": 7}
    ours = PrivateNeighborsClassifier(1.0, **known).fit(X, y)
    release = PrivateTabularClassifier(1.0, **known).fit(X, y)
    assert not ours.local_
    assert "500 units are too few" in ours.local_reason_
    assert np.array_equal(ours.law_.model.values, release.model_.values)


@pytest.mark.parametrize("labels", [2, 3])
def test_the_error_of_a_model_is_measured_at_what_it_costs(labels):
    n = 300
    rng = np.random.default_rng(labels)
    columns = CodedColumns.of([(-1.0, 1.0)], 1)
    codes = columns.encode(rng.uniform(-1, 1, (2 * n, 1)))
    y = rng.integers(0, labels, 2 * n)
    scores = np.arange(1, labels) if labels == 2 else np.arange(labels)
    targets = (y == scores[:, None]).astype(float)
    source = noise_source(0)
    unit = np.arange(2 * n) // 2  # Two rows each.
    rows = UnitRows.of(codes, targets, unit, n, source)
    trees = random_trees(columns, (None,), n_trees=1, depth=1, source=source)
    values = rng.normal(size=(len(scores), 2))
    model = PartitionModel.of(trees, values, logistic=True)
    budget = RoundBudget(1e3, "zero-out")
    account = UnitFilter(n, budget.cap)
    found = noisy_error(rows, model, Rounds(budget, account, source), share=0.5)
    p = model.mean(rows.codes)
    p = np.vstack([1 - p, p]) if labels == 2 else p / p.sum(axis=0)
    own = rows.targets if labels > 2 else np.vstack([1 - rows.targets, rows.targets])
    squares = ((own - p) ** 2).sum(axis=0) / 2
    assert found == pytest.approx(squares.mean(), abs=1e-3)
    said = squares.reshape(n, 2).mean(axis=1)
    assert account.spent / FULL == pytest.approx(0.5 * said**2, abs=1e-3)
    # Whoever has nothing left is not counted.
    spent = np.full(n, FULL, dtype=np.uint32)
    poor = Rounds(budget, UnitFilter(n, budget.cap, spent), source)
    assert noisy_error(rows, model, poor, share=0.5) == pytest.approx(0, abs=1e-3)
