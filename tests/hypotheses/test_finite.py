"""Classes given one by one."""

import numpy as np
import pytest

from reticent.errors import InvalidDataError
from reticent.hypotheses import FiniteClass, Member

DOMAIN = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
LABELS = np.array([[0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 0, 1]])


def test_table_keeps_its_columns_with_its_points():
    family = FiniteClass.from_table(DOMAIN, LABELS)
    for index, row in enumerate(LABELS):
        assert family.predict(Member(index), DOMAIN).tolist() == row.tolist()
        assert family.predictors[index](DOMAIN).tolist() == row.tolist()
    assert len(family) == 4


def test_representative_is_the_first_member():
    projection = FiniteClass.from_table(DOMAIN, LABELS).project(DOMAIN[:2])
    assert [member.index for member in projection] == [0, 1, 2]
    assert projection[-1] == Member(2)
    assert projection[:2] == [Member(0), Member(1)]


def test_points_outside_the_table_are_refused():
    family = FiniteClass.from_table(DOMAIN, LABELS)
    with pytest.raises(InvalidDataError, match="domain"):
        family.predict(Member(0), [[5.0, 5.0]])
    with pytest.raises(InvalidDataError, match="features"):
        family.predict(Member(0), [5.0])


@pytest.mark.parametrize(
    ("points", "labels", "message"),
    [
        (DOMAIN, LABELS[:, :2], "shape"),
        (DOMAIN, LABELS[:0], "shape"),
        (DOMAIN, LABELS + 1, "0 and 1"),
        (DOMAIN[[0, 0, 1]], LABELS, "repeated"),
    ],
)
def test_bad_tables_are_refused(points, labels, message):
    with pytest.raises(InvalidDataError, match=message):
        FiniteClass.from_table(points, labels)


@pytest.mark.parametrize(
    "predictor",
    [
        lambda X: np.zeros(2),
        lambda X: np.zeros((len(X), 1)),
        lambda X: np.full(len(X), 2),
    ],
)
def test_functions_must_return_labels(predictor):
    with pytest.raises(InvalidDataError, match="predictor"):
        FiniteClass([predictor]).minimise([0.0, 1.0], [0, 1])


def test_vc_dimension_is_exact_for_tables_and_a_bound_for_functions(seed):
    assert FiniteClass.from_table(DOMAIN, LABELS).vc_dimension == 1
    cube = np.array(list(np.ndindex(2, 2, 2)))
    assert FiniteClass.from_table(np.arange(3), cube).vc_dimension == 3
    assert FiniteClass.from_table(np.arange(3), cube[1:]).vc_dimension == 2
    rows = [lambda X, row=row: row[X[:, 0].astype(int)] for row in cube[1:]]
    assert FiniteClass(rows).vc_dimension == 2
    assert FiniteClass(rows[:1]).vc_dimension == 0
