"""Products of rows: close to matrix products, and each row by itself."""

import numpy as np
import pytest

from reticent._arrays import row_products, rows_times
from reticent.estimators.linear.rows import rows_in_ball
from reticent.learners import FourierFeatures, RegularizedERMClassifier

ROWS, WAVES = 200, 4


def beside_others(table):
    """Yield every part of the rows, long, short and single, in both memory orders."""
    for first in range(0, len(table), 7):
        for n_rows in (1, 2, 3, 5, 8, 33, 64):
            part = slice(first, first + n_rows)
            yield part, table[part]
            yield part, np.asfortranarray(table[part])


@pytest.mark.parametrize("d", [1, 3, 8, 20, 9000])
def test_the_product_of_a_row_does_not_depend_on_other_rows(d, seed):
    rng = np.random.default_rng(seed)
    table, matrix = rng.normal(size=(ROWS, d)), rng.normal(size=(d, WAVES))
    whole = rows_times(table, matrix)
    np.testing.assert_allclose(whole, table @ matrix, rtol=1e-9, atol=1e-9)
    norms = row_products(table, table)
    np.testing.assert_allclose(norms, (table**2).sum(axis=1), rtol=1e-12)
    for part, some in beside_others(table):
        assert (rows_times(some, matrix) == whole[part]).all()
        assert (row_products(some, some) == norms[part]).all()


@pytest.mark.parametrize("d", [1, 3, 8, 20])
def test_waves_of_a_row_do_not_depend_on_other_rows(d, seed):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(ROWS, d))
    features = FourierFeatures(WAVES, random_state=0).fit(table)
    whole = features.transform(table)
    for part, some in beside_others(table):
        assert (features.transform(some) == whole[part]).all()


@pytest.mark.parametrize("d", [3, 8, 20])
def test_rows_in_a_ball_do_not_depend_on_other_rows(d, seed):
    table = np.random.default_rng(seed).normal(size=(ROWS, d))
    whole = rows_in_ball(table, 1.0, True)
    for part, some in beside_others(table):
        assert (rows_in_ball(some, 1.0, True) == whole[part]).all()


def test_scores_of_a_released_model_do_not_depend_on_other_rows(seed):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(ROWS, 8))
    model = RegularizedERMClassifier(
        features=FourierFeatures(50, random_state=0), classes=[0, 1]
    ).fit(table, (table[:, 0] > 0) * 1, public=rng.normal(size=(20, 8)))
    whole = model.decision_function(table)
    for part, some in beside_others(table):
        assert (model.decision_function(some) == whole[part]).all()
