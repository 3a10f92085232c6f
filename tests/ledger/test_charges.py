"""Charges from certificates."""

from __future__ import annotations

import pytest

from reticent.errors import InvalidParameterError, NotDeployableError
from reticent.guarantees import (
    SEEDED_NOISE,
    ZCDP,
    AddRemove,
    ApproxDP,
    BoundedRange,
    Conclusion,
    PureDP,
    ReplaceOne,
    Sample,
    Scope,
    UniformStability,
    claim,
    rule,
)
from reticent.ledger import Charge

N = ReplaceOne(1000)


def certificate(guarantee, relation=N, scope=Scope.ANSWER):
    return claim(guarantee, relation, scope, statement="test")


@pytest.mark.parametrize(
    ("guarantee", "epsilon", "delta", "rho"),
    [
        (PureDP(0.1), 10**8, 0, 0.005),
        (BoundedRange(0.1), 10**8, 0, 0.00125),
        (ApproxDP(0.1, 1e-9), 10**8, 10**9, 0.005),
        (ZCDP(0.005), None, 0, 0.005),
        (PureDP(0.0), 0, 0, 0.0),
    ],
)
def test_charge_of_a_certificate(guarantee, epsilon, delta, rho):
    made = certificate(guarantee)
    charge = Charge.of(made)
    assert (charge.epsilon, charge.delta) == (epsilon, delta)
    assert charge.certificate == made.id
    assert charge.relation == "replace-one"
    # rho is rounded up, by less than two units of 1e-12.
    assert rho * 10**12 <= charge.rho <= rho * 10**12 + 2


def test_relations_are_told_apart():
    assert Charge.of(certificate(PureDP(0.1), AddRemove())).relation == "add-remove"
    pairs = Charge.of(certificate(PureDP(0.1), ReplaceOne(1000, group=2)))
    assert pairs.relation == "replace-one/2"


@rule("test-seeded", name="seeded", statement="", source="test", gives=PureDP)
def seeded(*, epsilon: float):
    return Conclusion(PureDP(epsilon), N, Scope.ANSWER, frozenset({SEEDED_NOISE}))


def test_seeded_noise_is_refused():
    with pytest.raises(NotDeployableError, match="SEEDED_NOISE"):
        Charge.of(seeded(epsilon=0.1))


@pytest.mark.parametrize(
    ("guarantee", "relation"), [(UniformStability(0.1), N), (PureDP(0.1), Sample(9))]
)
def test_only_privacy_can_be_charged(guarantee, relation):
    with pytest.raises(InvalidParameterError, match="not promise differential privacy"):
        Charge.of(certificate(guarantee, relation))


@pytest.mark.parametrize("name", ["", "a b", "é", "x" * 129, None, "-x"])
def test_names_are_plain(name):
    with pytest.raises(InvalidParameterError, match="certificate="):
        Charge.loss(epsilon=0.1, certificate=name)
    with pytest.raises(InvalidParameterError, match="relation="):
        Charge.loss(epsilon=0.1, certificate="c", relation=name)


def test_charge_states_a_loss():
    with pytest.raises(InvalidParameterError, match="neither"):
        Charge.loss(certificate="c")


def test_a_printed_price_is_never_less_than_what_is_charged():
    assert str(Charge.loss(epsilon=1 / 3, certificate="third")) == "epsilon 0.333334"
    assert str(Charge.loss(epsilon=0.1, certificate="tenth")) == "epsilon 0.1"
