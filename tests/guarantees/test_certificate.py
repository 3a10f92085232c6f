"""Certificates: immutable, exact in JSON, and never silently proved."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle

import numpy as np
import pytest

from reticent.errors import CertificateError
from reticent.guarantees import (
    SEEDED_NOISE,
    Certificate,
    PureDP,
    ReplaceOne,
    Scope,
    any_on_subsample,
    compose,
    dp_to_stability,
    finite_range,
    post_process,
    recheck,
    repeat,
    to_replace_one,
)
from reticent.guarantees.certificate import as_detail
from reticent.guarantees.subject import AddRemove
from tests.guarantees.cases import answer, derivations, given, plain


def test_derivations_survive_json_exactly(seed):
    for certificate in derivations(seed, count=250):
        again = Certificate.from_json(certificate.to_json())
        assert again == certificate
        assert hash(again) == hash(certificate)
        assert again.id == certificate.id
        assert str(again) == str(certificate)
        assert again.to_json() == certificate.to_json()
        assert pickle.loads(pickle.dumps(certificate)) == certificate
        assert copy.deepcopy(certificate) == certificate


def test_ids_name_the_content():
    first, second = answer(PureDP(0.1)), answer(PureDP(0.1))
    assert first.id == second.id
    assert answer(PureDP(0.2)).id != first.id
    assert len({c.id for c in derivations(0, count=60)}) > 40


def test_certificates_are_immutable():
    certificate = answer(PureDP(0.1))
    for field in dataclasses.fields(certificate):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(certificate, field.name, None)


def test_a_certificate_needs_a_guarantee():
    with pytest.raises(CertificateError, match="of type float"):
        Certificate(guarantee=0.5, relation=ReplaceOne(3), scope=Scope.MODEL, rule="G1")


def test_assumptions_cannot_be_dropped():
    premise = answer(PureDP(0.1))
    with pytest.raises(CertificateError, match="dropped the assumptions CLAIMED"):
        Certificate(
            guarantee=PureDP(0.1),
            relation=premise.relation,
            scope=premise.scope,
            rule="G23",
            premises=(premise,),
        )
    more = dataclasses.replace(
        premise, assumptions=premise.assumptions | {SEEDED_NOISE}
    )
    assert not more.proved


def numbers_in(node, path=()):
    """Yield the path of every number in parsed JSON."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from numbers_in(value, (*path, name))
    elif isinstance(node, list):
        for place, value in enumerate(node):
            yield from numbers_in(value, (*path, place))
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield path


def changed(data, path, change):
    """Return a copy of parsed JSON with one number changed."""
    data = copy.deepcopy(data)
    node = data
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = change(node[path[-1]])
    return data


def promise(certificate):
    return (certificate.guarantee, certificate.relation, certificate.scope)


CHANGES = {
    "halved": lambda x: x / 2 if isinstance(x, float) else x - 1,
    "doubled": lambda x: 2 * x + (x == 0),
    "nudged": lambda x: x * (1 - 1e-9) if isinstance(x, float) else x + 1,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_no_changed_number_passes_for_another_promise(seed, change):
    """Each number of a certificate, changed, is caught or changes no promise.

    (The bound on a loss, say, is recorded but does not matter without a delta.)
    """
    caught = total = 0
    for certificate in derivations(seed + 1, count=60):
        data = plain(certificate)
        for path in numbers_in(data):
            forged = changed(data, path, change)
            if forged == data:
                continue  # half of zero
            total += 1
            try:
                again = Certificate.from_dict(forged)
                recheck(again)
            except CertificateError:
                caught += 1
            else:
                assert promise(again) == promise(certificate)
                assert again.headline() == certificate.headline()
    assert total > 500
    assert caught >= 0.95 * total


def test_words_of_a_derivation_are_checked_too():
    certificate = dp_to_stability(answer(PureDP(0.1)))
    data = plain(certificate)
    for change in (
        {"rule": "G2-stability"},
        {"rule": "nonsense"},
        {"scope": "model"},
        {"premises": []},
        {"premises": data["premises"] * 2},
        {"details": {"p": 0.1}},
    ):
        with pytest.raises(CertificateError):
            recheck(Certificate.from_dict({**data, **change}))
    recheck(certificate)


def test_a_dropped_assumption_is_caught():
    data = plain(answer(PureDP(0.1)))
    with pytest.raises(CertificateError, match="details or assumptions"):
        recheck(Certificate.from_dict({**data, "assumptions": []}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "3",
        '"x"',
        "{}",
        '{"format": 2}',
        "NaN",
        b"\xff\xfe",
        "[" * 100_000,
        '{"format": 1, "guarantee": 3}',
        '{"format": 1, "guarantee": {"kind": "PureDP", "epsilon": NaN}}',
    ],
    ids=range(13),
)
def test_what_is_no_certificate_is_refused(text):
    with pytest.raises(CertificateError) as caught:
        Certificate.from_json(text)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "field", ["guarantee", "relation", "scope", "rule", "premises", "assumptions"]
)
@pytest.mark.parametrize("value", [None, 3, [3], {"kind": "x"}, {"a": "b"}])
def test_every_field_of_json_is_checked(field, value):
    data = {**plain(answer(PureDP(0.1))), field: value}
    with pytest.raises(CertificateError):
        recheck(Certificate.from_dict(data))


def test_what_can_be_built_can_be_read_back():
    certificate = given(PureDP(0.1))
    for _ in range(63):
        certificate = post_process(certificate, what="a summary of a summary")
    with pytest.raises(CertificateError, match="at most 64 levels; got 65"):
        post_process(certificate, what="one too many")
    assert Certificate.from_json(certificate.to_json()) == certificate
    recheck(certificate)
    deeper = {**plain(certificate), "premises": [plain(certificate)]}
    with pytest.raises(CertificateError, match="64 levels"):
        Certificate.from_dict(deeper)


def test_details_keep_what_json_keeps():
    assert as_detail("x", np.float64(0.25)) == 0.25
    assert as_detail("x", np.int64(3)) == 3
    assert type(as_detail("x", np.int64(3))) is int
    assert as_detail("x", np.array([1, 2])) == (1, 2)
    assert as_detail("x", [np.int64(1), np.float64(0.5)]) == (1, 0.5)
    assert as_detail("x", [1, None, "a", True]) == (1, None, "a", True)
    assert as_detail("x", Scope.MODEL) == "model"


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        [float("nan")],
        10**4000,
        object(),
        {1: 2},
        [[1]],
        b"x",
    ],
    ids=lambda v: type(v).__name__,
)
def test_details_refuse_what_json_does_not_keep(value):
    with pytest.raises(CertificateError, match=r"x of type .* cannot be recorded"):
        as_detail("x", value)


def test_json_is_canonical():
    text = finite_range(size=3, n=5, scope="model").to_json()
    data = json.loads(text)
    assert text == json.dumps(data, sort_keys=True, separators=(",", ":"))
    assert data["details"] == {"n": 5, "scope": "model", "size": 3}


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (
            lambda: any_on_subsample(drawn=1, n=30162, scope="answer"),
            "for one answer, replace one unit of 30162; proved",
        ),
        (
            lambda: repeat(answer(PureDP(0.1), n=7), 3),
            "0.3-DP for 3 answers, replace one unit of 7; conditional",
        ),
        (
            lambda: repeat(answer(PureDP(0.1), n=7), 1),
            "0.1-DP for 1 answer, replace one unit of 7; conditional",
        ),
        (
            lambda: given(PureDP(0.5), relation=AddRemove()),
            "0.5-DP for the model, add or remove one unit; conditional",
        ),
        (
            lambda: to_replace_one(given(PureDP(0.5), relation=AddRemove()), n=9),
            "1-DP for the model, replace one unit of 9; conditional",
        ),
    ],
)
def test_headlines_say_what_for_whom_and_how_firmly(build, expected):
    assert build().headline().endswith(expected)


def test_interfaces_count_the_answers_of_what_they_join():
    day = repeat(answer(PureDP(0.1)), 30)
    week = compose([day] * 7)
    assert week.answer_count() == 210
    assert "for 210 answers" in week.headline()
    assert post_process(week, what="a chart").answer_count() == 210
    assert post_process(week, what="a student", scope="model").answer_count() is None
    # A model among the answers: their number is not known, and not invented.
    mixed = compose([day, given(PureDP(0.1))])
    assert mixed.answer_count() is None
    assert "for all answers" in mixed.headline()
    assert [c.rule for c in week.walk()] == ["G22-basic", "G22-basic", "assumed"]


def test_parameters_can_be_asked_for():
    certificate = finite_range(size=3, n=5, scope="model")
    assert certificate.parameter("size") == 3
    assert certificate.parameter("other", 9) == 9
    assert certificate.parameter("other") is None
