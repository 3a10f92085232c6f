"""Rules: one registry, applied only where they fit, and nowhere else to go."""

from __future__ import annotations

import importlib
import re

import numpy as np
import pytest

import reticent.guarantees as room
from reticent.errors import (
    CertificateError,
    InternalError,
    InvalidParameterError,
    RelationMismatchError,
    RuleError,
)
from reticent.guarantees import (
    SEEDED_NOISE,
    ZCDP,
    AddRemove,
    ApproxDP,
    Assumption,
    BoundedRange,
    Certificate,
    Compression,
    Conclusion,
    FiniteRange,
    GaussianDP,
    Guarantee,
    PerfectGeneralization,
    PureDP,
    ReplaceOne,
    RobustGeneralization,
    Sample,
    Scope,
    Sensitivity,
    UniformStability,
    ZeroOut,
    assume,
    claim,
    dp_to_stability,
    post_process,
    recheck,
    rule,
    rules,
)
from tests.guarantees.cases import OWN_RULES, answer, given

# The package's name for it is the decorator.
MODULE = importlib.import_module("reticent.guarantees.rule")
PRIVATE = (PureDP, BoundedRange, ApproxDP, ZCDP)
# G1 to G25 of the theorem sheet; G5, G12, G13 and G22 have several parts.
SHEET = {f"G{k}" for k in range(1, 26)} | {"G3k"}


def test_every_entry_of_the_sheet_has_a_rule():
    families = {
        re.match(r"G\d+k?", name).group() for name in OWN_RULES if name[0] == "G"
    }
    assert families == SHEET


@pytest.mark.parametrize("name", OWN_RULES)
def test_rules_say_what_they_state_and_who_says_so(name):
    known = rules[name]
    assert known.id == name
    assert known.name
    assert known.statement
    assert known.source
    assert known.apply.__doc__
    assert getattr(room, known.apply.__name__) is known.apply


def test_the_registry_cannot_be_written():
    with pytest.raises(TypeError):
        rules["G99"] = rules["G1"]


EXAMPLES = {
    PureDP: PureDP(0.1),
    BoundedRange: BoundedRange(0.1),
    ApproxDP: ApproxDP(0.1, 1e-9),
    ZCDP: ZCDP(0.1),
    GaussianDP: GaussianDP(0.1),
    UniformStability: UniformStability(0.1),
    Sensitivity: Sensitivity(0.1),
    FiniteRange: FiniteRange(3),
    Compression: Compression(3),
    RobustGeneralization: RobustGeneralization(0.1, 0.1),
    PerfectGeneralization: PerfectGeneralization(0.01, 0.1, 0.0),
}
USES = {
    "G3": {"p": 0.1},
    "G3k": {"p": 0.1, "labels": 3},
    "G4": {"p": 0.1},
    "G5-laplace": {"scale": 1.0},
    "G5-gaussian": {"scale": 1.0},
    "G6": {"shards": 3, "n": 50},
    "G7": {"size": 2},
    "G7-replace": {"n": 50},
    "G8": {"n": 500, "order": "symmetric"},
    "G10": {"beta": 0.1},
    "G11": {"beta": 0.1},
    "G12": {"beta": 0.1},
    "G13": {"delta": 0.1},
    "G15": {"outputs": 2, "beta": 0.1},
    "G20": {"beta": 0.1},
    "G21": {"rate": 0.1},
    "G22-basic": {"counts": [2]},
    "G22-exact": {"counts": [2], "delta": 1e-3},
    "G22-zcdp": {"counts": [2], "delta": 1e-3},
    "G22-pld": {"counts": [2], "delta": 1e-3},
    "G22-zcdp-approx": {"delta": 1e-3},
    "G22-filter": {"counts": [2], "epsilon": 1.0},
    "G22-odometer": {"counts": [2]},
    "G23": {"what": "a mean"},
    "G25": {"counts": [2], "delta": 1e-3},
    "G25-odometer": {"counts": [2], "most": 9, "delta": 1e-3, "totals": 1e-4},
    "G24-noise": {"scale": 1.0},
    "G24-compose": {"counts": [2]},
    "G24-approx": {"delta": 1e-3},
}
WITH_PREMISE = [name for name in OWN_RULES if rules[name].takes]


def about(kind, relation, scope):
    return given(EXAMPLES[kind], relation=relation, scope=scope)


def fitting(name):
    """Return premises that a rule accepts, one for each relation and scope."""
    found = []
    for relation in (ReplaceOne(50), AddRemove(), ZeroOut(50), Sample(50)):
        for scope in Scope:
            premise = about(rules[name].takes[0], relation, scope)
            try:
                rules[name].apply(premise, **USES.get(name, {}))
            except RuleError:
                continue
            found.append((relation, scope))
    return found


@pytest.mark.parametrize("name", WITH_PREMISE)
def test_a_wrong_guarantee_is_refused_with_rule_condition_and_value(name):
    assert fitting(name)
    relation, scope = fitting(name)[0]
    takes = rules[name].takes
    for kind in set(EXAMPLES) - set(takes):
        with pytest.raises(RuleError, match=re.escape(f"rule {name} needs ")) as caught:
            rules[name].apply(about(kind, relation, scope), **USES.get(name, {}))
        assert repr(EXAMPLES[kind]) in str(caught.value)
        assert all(needed.__name__ in str(caught.value) for needed in takes)


@pytest.mark.parametrize("name", WITH_PREMISE)
def test_a_wrong_relation_or_scope_is_refused_with_rule_condition_and_value(name):
    good = fitting(name)
    relations = {type(relation) for relation, _ in good}
    kind = rules[name].takes[0]
    for relation in (ReplaceOne(50), AddRemove(), Sample(50)):
        if type(relation) not in relations:
            with pytest.raises(RelationMismatchError, match=f"rule {name} ") as caught:
                rules[name].apply(
                    about(kind, relation, good[0][1]), **USES.get(name, {})
                )
            assert repr(relation) in str(caught.value)
    for scope in set(Scope) - {scope for _, scope in good}:
        with pytest.raises(RuleError, match=f"rule {name} needs the scope") as caught:
            rules[name].apply(about(kind, good[0][0], scope), **USES.get(name, {}))
        assert scope.name in str(caught.value)


def test_the_checks_of_relation_and_scope_are_not_vacuous():
    assert fitting("G3") == [
        (ReplaceOne(50), Scope.ANSWER),
        (AddRemove(), Scope.ANSWER),
        (ZeroOut(50), Scope.ANSWER),
    ]
    assert fitting("G10") == [
        (ReplaceOne(50), Scope.INTERFACE),
        (ReplaceOne(50), Scope.MODEL),
    ]
    assert [type(relation) for relation, _ in fitting("G17")] == [Sample] * 4


@pytest.mark.parametrize("name", WITH_PREMISE)
def test_premises_are_certificates_given_by_position(name):
    uses = USES.get(name, {})
    with pytest.raises(RuleError, match=f"rule {name} starts from certificates"):
        rules[name].apply(PureDP(0.1), **uses)
    with pytest.raises(RuleError, match=f"rule {name} takes its premises by position"):
        rules[name].apply(premise=answer(PureDP(0.1)), **uses)


def test_axioms_take_no_premise():
    with pytest.raises(RuleError, match="rule G9 needs no premise"):
        rules["G9"].apply(answer(PureDP(0.1)), drawn=1, n=5, scope="model")


HOSTILE = [float("nan"), float("inf"), -1.0, "x", None, True, -(2**63), 10**400]
PROBABILITIES = [
    ("G3", "p"),
    ("G3k", "p"),
    ("G4", "p"),
    ("G10", "beta"),
    ("G11", "beta"),
    ("G12", "beta"),
    ("G13", "delta"),
    ("G15", "beta"),
    ("G20", "beta"),
    ("G22-exact", "delta"),
    ("G22-pld", "delta"),
    ("G22-zcdp-approx", "delta"),
]
REALS = [("G5-laplace", "scale"), ("G5-gaussian", "scale"), ("G21", "rate")]
COUNTS = [
    ("G3k", "labels"),
    ("G6", "shards"),
    ("G6", "n"),
    ("G7", "size"),
    ("G7-replace", "n"),
    ("G8", "n"),
    ("G15", "outputs"),
]


@pytest.mark.parametrize(("name", "parameter"), PROBABILITIES + REALS + COUNTS)
@pytest.mark.parametrize("value", HOSTILE, ids=lambda v: str(v)[:6])
def test_hostile_parameters_are_value_errors_of_our_tree(name, parameter, value):
    relation, scope = fitting(name)[0]
    premise = about(rules[name].takes[0], relation, scope)
    uses = {**USES[name], parameter: value}
    huge = value == 10**400
    if huge and (name, parameter) in {("G3k", "labels"), ("G7-replace", "n")}:
        return  # a number of labels or units that happens to be large
    if huge and (name, parameter) in {("G6", "n"), ("G8", "n"), ("G15", "outputs")}:
        return
    with pytest.raises((InvalidParameterError, RuleError)) as caught:
        rules[name].apply(premise, **uses)
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert f"rule {name}" in text
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(("name", "parameter"), PROBABILITIES)
@pytest.mark.parametrize("value", [0.0, 1.0, -0.0, 1.5])
def test_probabilities_lie_strictly_inside(name, parameter, value):
    relation, scope = fitting(name)[0]
    premise = about(rules[name].takes[0], relation, scope)
    with pytest.raises(ValueError, match=f"rule {name}.*{parameter}"):
        rules[name].apply(premise, **{**USES[name], parameter: value})


def test_extreme_but_honest_parameters_give_finite_numbers_or_a_clear_refusal(seed):
    rng = np.random.default_rng(seed)
    tiny = [5e-324, 1e-310, 1e-200, 1e-16, 0.4999999999999999]
    for name, parameter in PROBABILITIES:
        relation, scope = fitting(name)[0]
        for value in tiny:
            size = float(rng.choice([5e-324, 1e-300, 1e-9, 1.0, 690.0, 1e9, 1e308]))
            kind = rules[name].takes[0]
            if kind not in (PureDP, BoundedRange, ZCDP):
                premise = about(kind, relation, scope)
            else:
                premise = given(kind(size), relation=relation, scope=scope)
            try:
                made = rules[name].apply(premise, **{**USES[name], parameter: value})
            except (InvalidParameterError, RuleError) as error:
                assert "finite" in str(error) or f"rule {name}" in str(error)  # noqa: PT017
            else:
                recheck(made)


# --------------------------------------------------------------------- registering


def register(name, gives=PureDP, **options):
    return rule(
        name,
        name="a test",
        statement="none",
        source="this file",
        gives=gives,
        **options,
    )


def test_two_rules_cannot_share_an_id():
    with pytest.raises(InternalError, match="two rules are called G1"):
        register("G1")(lambda: None)


def test_a_rule_that_concludes_something_else_is_a_bug(monkeypatch):
    monkeypatch.setattr(MODULE, "_REGISTRY", dict(rules))

    def wrong() -> Conclusion[Guarantee]:
        return Conclusion(ZCDP(0.1), ReplaceOne(3), Scope.MODEL)

    def other(premise: Certificate[Guarantee]) -> Conclusion[Guarantee]:
        return Conclusion(ZCDP(0.1), premise.relation, premise.scope)

    with pytest.raises(InternalError, match="rule T1 concluded"):
        register("T1")(wrong)()
    both = register("T2", (PureDP, ZCDP), takes=(PureDP, ZCDP), same_kind=True)(other)
    assert both(given(ZCDP(0.3))).guarantee == ZCDP(0.1)
    with pytest.raises(InternalError, match="rule T2 concluded"):
        both(given(PureDP(0.3)))


def test_axioms_record_their_assumptions_and_parameters(monkeypatch):
    monkeypatch.setattr(MODULE, "_REGISTRY", dict(rules))

    @register("T3")
    def mechanism(*, epsilon: float, seeded: bool = False) -> Conclusion[PureDP]:
        """Issue what a mechanism promises."""
        return Conclusion(
            PureDP(epsilon),
            ReplaceOne(3),
            Scope.ANSWER,
            Assumption.collect((SEEDED_NOISE, seeded)),
        )

    honest, seeded = mechanism(epsilon=0.5), mechanism(epsilon=0.5, seeded=True)
    assert honest.proved
    assert honest.details == (("epsilon", 0.5), ("seeded", False))
    assert seeded.assumptions == {SEEDED_NOISE}
    assert not dp_to_stability(seeded).proved
    recheck(dp_to_stability(seeded))
    with pytest.raises(CertificateError, match="cannot be recorded"):
        mechanism(epsilon=np.float64(0.5), seeded=object())


# ------------------------------------------------------------------------- claims


def test_claims_are_conditional_and_recheck():
    claimed = claim(PureDP(0.5), AddRemove(), Scope.MODEL, statement="says the vendor")
    assert {a.code for a in claimed.assumptions} == {"CLAIMED"}
    recheck(claimed)
    assert not post_process(claimed, what="a mean").proved


@pytest.mark.parametrize(
    "build",
    [
        lambda: claim(0.5, AddRemove(), Scope.MODEL, statement="x"),
        lambda: claim(PureDP(0.5), "replace", Scope.MODEL, statement="x"),
        lambda: claim(PureDP(0.5), AddRemove(), "models", statement="x"),
        lambda: claim(PureDP(0.5), AddRemove(), Scope.MODEL, statement=" "),
        lambda: claim(PureDP(0.5), AddRemove(), Scope.MODEL, statement=None),
        lambda: assume(guarantee="{", relation="{}", scope="model", statement="x"),
        lambda: assume(guarantee="3", relation="{}", scope="model", statement="x"),
        lambda: assume(guarantee=None, relation="{}", scope="model", statement="x"),
    ],
)
def test_claims_that_say_nothing_are_refused(build):
    with pytest.raises((InvalidParameterError, CertificateError)):
        build()
