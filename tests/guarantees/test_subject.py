"""Relations, scopes and assumptions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from reticent.errors import (
    CertificateError,
    InvalidGuaranteeError,
    InvalidParameterError,
)
from reticent.guarantees import (
    PUBLIC_LABELS,
    SEEDED_NOISE,
    AddRemove,
    Assumption,
    ReplaceOne,
    Sample,
    Scope,
)
from reticent.guarantees.subject import relation_as_dict, relation_from_dict

RELATIONS = [ReplaceOne(5), ReplaceOne(5, 3), AddRemove(), AddRemove(2), Sample(7)]


@pytest.mark.parametrize("relation", RELATIONS, ids=str)
def test_relations_survive_json_and_are_values(relation):
    again = relation_from_dict(relation_as_dict(relation))
    assert again == relation
    assert hash(again) == hash(relation)
    with pytest.raises(dataclasses.FrozenInstanceError):
        relation.group = 9


def test_relations_of_different_kinds_differ():
    assert len(set(RELATIONS)) == len(RELATIONS)
    assert ReplaceOne(5) != Sample(5)


@pytest.mark.parametrize(
    "bad",
    [0, -1, 1.0, True, "3", None, 2**20000, np.nan],
    ids=lambda v: type(v).__name__,
)
def test_relations_refuse_what_is_no_count(bad):
    for build in (
        lambda: ReplaceOne(bad),
        lambda: ReplaceOne(5, bad),
        lambda: AddRemove(bad),
        lambda: Sample(bad),
    ):
        with pytest.raises(InvalidGuaranteeError, match="needs"):
            build()


def test_a_group_is_part_of_the_data():
    assert ReplaceOne(5, 5).group == 5
    with pytest.raises(InvalidGuaranteeError, match="group=6, n=5"):
        ReplaceOne(5, 6)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "replace-one"},
        {"kind": "other", "n": 1},
        {"kind": "sample", "m": 1},
    ],
)
def test_unknown_relations_are_refused(data):
    with pytest.raises(CertificateError, match="not a neighbouring relation"):
        relation_from_dict(data)


def test_relations_say_what_they_are_about():
    assert [str(relation) for relation in RELATIONS] == [
        "replace one unit of 5",
        "replace 3 units of 5",
        "add or remove one unit",
        "add or remove 2 units",
        "7 independent units",
    ]


@pytest.mark.parametrize("value", ["models", "", None, 3])
def test_unknown_scopes_are_refused_in_our_words(value):
    with pytest.raises(InvalidParameterError, match="'answer', 'interface', 'model'"):
        Scope(value)


def test_scopes_say_what_was_released():
    said = ["one answer", "all answers", "the model", "the choice"]
    assert [str(scope) for scope in Scope] == said


def test_assumptions_are_collected_by_condition():
    both = Assumption.collect((SEEDED_NOISE, True), (PUBLIC_LABELS, False))
    assert both == {SEEDED_NOISE}
    assert Assumption.collect() == frozenset()
    assert str(Assumption("CODE", "it holds")) == "it holds [CODE]"
