"""Students of private teachers: labels of public points, then anything."""

from __future__ import annotations

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from reticent.audit import verify_release
from reticent.guarantees import PureDP
from reticent.learners import StudentClassifier
from reticent.prediction import PrivateVotingClassifier
from tests.audit.registered_predictors import BINARY, TABLED
from tests.audit.registry import Replayed, register
from tests.prediction.learners import Table

EPSILON = 1.4
PUBLIC = np.array([[0], [1]])


def student(data):
    teacher = PrivateVotingClassifier(Table(), classes=(0, 1), n_shards=2)
    model = StudentClassifier(teacher, DecisionTreeClassifier(random_state=0), EPSILON)
    return model.fit(*data, public=PUBLIC).predict(PUBLIC)


register(
    StudentClassifier,
    "each-answer",
    "release",
    lambda: verify_release(
        lambda X, y: tuple(student((X, y)).tolist()),
        BINARY,
        2,
        claim=PureDP(EPSILON),
        symmetric=True,
    ),
    tight=0.5,
    replay=Replayed(student, TABLED),
)
