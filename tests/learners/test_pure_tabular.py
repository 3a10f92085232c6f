"""Pure releases of tables: an additive model, then random trees."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from reticent.errors import InvalidParameterError
from reticent.guarantees import PureDP, ReplaceOne, recheck
from reticent.learners import PrivateTabularClassifier, PrivateTabularRegressor
from reticent.learners.tabular import pure
from reticent.mechanisms.sampling.listening import Listener, listen
from tests.learners.test_private_tabular import crossed

BOUND = 6144  # what replacing one unit moves, in steps of 2^-12


def furthest():
    """Return how far the sums over two leaves move, over all pairs of small units."""
    rows = list(itertools.product((-9.0, -0.7, 0.0, 2.0, 40.0), (0.0, 1.0), (0, 1)))
    units = [[row] for row in rows] + [[a, b] for a, b in itertools.pairwise(rows)]
    told = []
    for unit in units:
        scores, target, leaf = (np.array(each) for each in zip(*unit, strict=True))
        size = np.full(len(unit), 2.0**12 / len(unit))
        told.append(pure._sums(scores, target, size, leaf.astype(np.intp), 2))
    return max(np.abs(one - other).sum() for one in told for other in told)


def test_one_unit_moves_sums_over_leaves_as_proved_and_no_further(monkeypatch):
    assert furthest() == BOUND
    # Slopes that are not clipped move them further, and the check sees it.
    monkeypatch.setattr(pure, "_CLIP", 1.0)
    assert furthest() > BOUND


class Scales(Listener):
    """Keep the scales of noise on the leaves of trees."""

    def __init__(self):
        self.heard = []

    def drawn(self, draw, sample):
        if draw.kind == "noise":
            _, location, scale, *_ = draw.arguments
            self.heard.append((np.size(location), float(scale)))
        return sample()


def test_a_pure_release_goes_beyond_additive_models(seed):
    X, y = crossed(20_000, seed)
    model = PrivateTabularClassifier(2.0, delta=0, classes=[0, 1])
    with listen(Scales()) as scales:
        model.fit(X, y)
    assert model.score(*crossed(4_000, seed + 1)) > 0.9
    certificate = model.certificate_
    recheck(certificate)
    assert isinstance(certificate.guarantee, PureDP)
    assert 1.9999 < certificate.guarantee.epsilon <= 2.0
    assert certificate.relation == ReplaceOne(20_000)
    assert not certificate.assumptions
    assert not hasattr(model, "zcdp_certificate_")
    assert np.allclose(model.predict_proba(X[:9]).sum(axis=1), 1)
    # All trees together cost what the additive part leaves.
    plan = pure.PurePlan.of(2.0, 20_000, 2)
    leaves = [scale for size, scale in scales.heard if size == 2 << plan.depth]
    assert len(leaves) == plan.n_trees == 50
    spent = sum(BOUND / Fraction(scale) for scale in leaves)
    assert spent + Fraction(plan.additive) <= 2
    assert spent > 1.49


def test_little_signal_makes_an_additive_model(seed):
    X, _ = crossed(300, seed)
    model = PrivateTabularClassifier(1.0, delta=0).fit(X, (X[:, 0] > 0).astype(int))
    assert len(model.model_.partitions) == 2
    assert model.certificate_.guarantee == PureDP(1.0)
    # Labels were read from the data.
    assert model.certificate_.assumptions


def test_what_no_pure_release_offers_is_refused():
    X, y = crossed(30, 0)
    for wrong in (
        {"relation": "zero-out"},
        {"class_weight": "balanced"},
        {"classes": [0, 1, 2]},
    ):
        with pytest.raises(InvalidParameterError, match="delta"):
            PrivateTabularClassifier(1.0, delta=0, **wrong).fit(X, y)
    with pytest.raises(InvalidParameterError, match="delta"):
        PrivateTabularRegressor(1.0, delta=0).fit(X, y)
