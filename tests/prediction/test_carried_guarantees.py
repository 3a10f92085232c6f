"""Dealing rows to shards changes no number of a promise."""

import pytest

from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    PureDP,
    ReplaceOne,
    Scope,
    Sensitivity,
    claim,
)
from reticent.prediction.sharded.base import over_shards

PROMISES = [
    PureDP(0.5),
    BoundedRange(0.5),
    ApproxDP(0.5, 1e-6),
    ZCDP(0.25),
    Sensitivity(2.0, 1.5),
]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda each: type(each).__name__)
def test_models_on_shards_promise_what_their_mechanism_does(promise):
    one = claim(promise, ReplaceOne(30), Scope.ANSWER, statement="given")
    made = over_shards(one, shards=3, labels_from_data=False, seeded=False)
    assert made.guarantee == promise
    assert (made.relation, made.scope) == (ReplaceOne(30), Scope.ANSWER)
