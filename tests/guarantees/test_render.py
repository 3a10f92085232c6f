"""What a certificate prints: a headline, a tree of steps, and its assumptions."""

from __future__ import annotations

import importlib

from reticent.guarantees import (
    ApproxDP,
    BoundedRange,
    Certificate,
    Conclusion,
    PureDP,
    any_on_subsample,
    claim,
    compose,
    dp_to_stability,
    explain,
    flip_stable,
    rule,
    rules,
)
from reticent.guarantees.subject import ReplaceOne, Scope
from tests.guarantees.cases import answer, derivations


def test_a_proved_certificate_prints_headline_and_step():
    certificate = any_on_subsample(drawn=3, n=30, scope="answer")
    assert str(certificate) == (
        "(0, 0.1)-DP for one answer, replace one unit of 30; proved\n"
        "(0, 0.1)-DP for one answer  [G9 any algorithm on a subsample; drawn=3, n=30, "
        "scope=answer; S0 Lemma 22]"
    )
    assert explain(certificate) == str(certificate)


def test_the_line_of_the_theorem_sheet(monkeypatch):
    registry = importlib.import_module("reticent.guarantees.rule")
    monkeypatch.setattr(registry, "_REGISTRY", dict(rules))

    @rule(
        "T9",
        name="a vote",
        statement="one vote moves",
        source="this file",
        gives=PureDP,
    )
    def vote(*, epsilon: float) -> Conclusion[PureDP]:
        return Conclusion(PureDP(epsilon), ReplaceOne(30162), Scope.ANSWER)

    first, *steps = str(vote(epsilon=1.0)).splitlines()
    assert first == "1-DP for one answer, replace one unit of 30162; proved"
    assert len(steps) == 1


def test_a_chain_prints_as_a_tree_with_ids_and_sources():
    certificate = flip_stable(dp_to_stability(answer(PureDP(1.0))), p=0.25)
    assert str(certificate).splitlines() == [
        "0.654529-DP for one answer, replace one unit of 100; conditional",
        "0.654529-DP for one answer  [G3 flip a stable label; p=0.25; S2 Cor. 1]",
        "└─ 0.462118-stable prediction for one answer  [G1 privacy to stability; S0 "
        "Lemmas 8 and 23]",
        "   └─ 1-DP for one answer  [assumed taken on trust; the caller]",
        "assuming that",
        "  - a test says so [CLAIMED]",
    ]


def test_branches_are_drawn_down_to_the_last_premise():
    both = compose(
        [answer(PureDP(0.1)), answer(ApproxDP(0.3, 1e-9)), answer(BoundedRange(0.2))]
    )
    lines = str(both).splitlines()
    assert [line[:3] for line in lines[2:6]] == ["├─ ", "├─ ", "└─ ", "ass"]
    assert "counts=(1, 1, 1)" in lines[1]


def test_long_lists_are_cut():
    steps = [answer(PureDP(k / 100)) for k in range(1, 9)]
    assert "counts=(1, 1, 1, 1, 1, 1, ...)" in str(compose(steps))


def test_text_from_outside_cannot_forge_lines():
    forged = claim(
        PureDP(9.0),
        ReplaceOne(5),
        Scope.MODEL,
        statement="x\n0-DP for the model, replace one unit of 5; proved\x1b[1A\r",
    )
    lines = str(forged).splitlines()
    assert len(lines) == 4
    assert "\x1b" not in str(forged)
    assert all("proved" not in line for line in lines[:3])


def test_unknown_rules_are_shown_by_their_id():
    known = answer(PureDP(0.1))
    strange = Certificate(
        guarantee=known.guarantee,
        relation=known.relation,
        scope=known.scope,
        rule="X1",
        details=(("a", 0.5), ("b", None)),
    )
    assert "[X1; a=0.5]" in str(strange)


def test_a_conditional_certificate_never_prints_as_proved(seed):
    for certificate in derivations(seed, count=200):
        headline = str(certificate).splitlines()[0]
        assert headline.endswith("; proved") is certificate.proved
        assert ("assuming that" in str(certificate)) is not certificate.proved
        assert str(certificate).count("\n  - ") == len(certificate.assumptions)


def test_claims_print_their_reason():
    text = str(
        claim(PureDP(1.0), ReplaceOne(5), Scope.MODEL, statement="so says the vendor")
    )
    assert "  - so says the vendor [CLAIMED]" in text
