"""Answers in the order of NIST SP 800-226: its factors and the hazards it names."""

from __future__ import annotations

from reticent.dossier import words
from reticent.dossier.facts import ModelFacts
from reticent.dossier.fields import Field, Section
from reticent.dossier.registry import variant_of

_ABOUT = (
    "The factors of NIST SP 800-226, Guidelines for Evaluating Differential Privacy "
    "Guarantees (2025), from the top of its pyramid to the bottom, with the hazards "
    "that it names, in our words."
)


def nist_section(facts: ModelFacts) -> Section:
    """Return one field per factor."""
    fields = (*_guarantee(facts), *_algorithms(facts), *_deployment(facts))
    return Section("nist-800-226", "Answers to NIST SP 800-226", _ABOUT, fields)


def _guarantee(facts: ModelFacts) -> tuple[Field, ...]:
    total, curator = facts.total, facts.texts.collection
    others = curator and f"{curator} The promise covers only what passes this ledger."
    return (
        Field(
            "epsilon",
            "2.2 How large is epsilon? Hazard: a large one means little.",
            f"{total}, enforced by the ledger. {facts.plain} " + _size(total.epsilon),
            "cap of the dataset",
        ),
        Field(
            "delta",
            "2.3 Which variant, and how large is delta? Hazard: with a large delta "
            "privacy can fail completely.",
            f"The model's own promise is in {variant_of(facts)}: "
            f"{facts.promise}. Delta of the total: {_delta(facts)}",
            "certificate, cap of the dataset",
        ),
        Field(
            "unit",
            "2.4 What is the unit of privacy? Hazards: it protects events instead of "
            "people; it does not cover the harm that people fear.",
            f"{_unit(facts)} {words.neighbours(facts)}",
            "schema, relation of the certificate",
        ),
        Field(
            "comparison",
            "2.5 Can the numbers be compared with those of others? Hazard: other "
            "deltas, units or relations.",
            f"Only with promises of the same relation ({facts.certificate.relation}), "
            f"the same unit ({facts.unit}) and the same delta ({total.delta:g}).",
            "certificate, schema",
        ),
        Field(
            "other-releases",
            "2.6 What else is released from the records? Hazard: releases without "
            "differential privacy are not protected by it.",
            others,
            "text by the curator",
        ),
    )


def _size(epsilon: float) -> str:
    if epsilon <= 1:
        return "It is at most 1, which is widely taken as strong."
    return "It is above 1: judge whether the bound in the last sentence is good enough."


def _delta(facts: ModelFacts) -> str:
    delta, units = facts.total.delta, facts.stored.n_units
    if delta == 0:
        return "There is none: nothing can fail outright."
    if delta * units <= 0.01:
        return f"{delta:g}, far below one divided by the number of units ({units:,})."
    return (
        f"{delta:g}. It is NOT small compared with one divided by the number of units "
        f"({units:,}): a whole record could be given away within the promise. Choose "
        "a smaller one."
    )


def _unit(facts: ModelFacts) -> str:
    if facts.stored.schema.unit is not None:
        return (
            f"Every unit is {facts.unit}. All rows with the same value belong to one "
            "unit and are protected together."
        )
    return (
        "Every row is a unit. If one person can have several rows, only single rows "
        "are protected, not the person; declare the column that names the person."
    )


def _algorithms(facts: ModelFacts) -> tuple[Field, ...]:
    firm = (
        "The certificate is proved: it assumes only what the code enforces."
        if facts.certificate.proved
        else "The certificate is conditional. It assumes: "
        + "; ".join(words.assumptions(facts))
        + "."
    )
    return (
        Field(
            "algorithms",
            "3.1 Which algorithms, and are they right? Hazard: home-made "
            "implementations.",
            [
                firm,
                *words.rules_used(facts),
                "reticent re-derives the certificate whenever the model is loaded.",
            ],
            "derivation of the certificate",
        ),
        Field(
            "utility",
            "3.2 How useful are the answers?",
            measured(facts),
            "private evaluations ('reticent evaluate')",
        ),
        Field(
            "bias",
            "3.3 Bias. Hazard: noise weighs more on small groups.",
            None,
            "the curator: measure accuracy by group with 'reticent evaluate'",
        ),
        Field(
            "learning",
            "3.5 Machine learning. Hazard: tuning on the same records is not free.",
            "The certificate covers a private search for settings (G26)."
            if any(node.rule.startswith("G26") for node in facts.certificate.walk())
            else "The certificate covers one fit. Settings that were chosen by looking "
            "at results on the same records are not covered.",
            "derivation of the certificate",
        ),
    )


def _deployment(facts: ModelFacts) -> tuple[Field, ...]:
    model = (
        "A single release: all questions after it are free."
        if facts.released
        else "Interactive: every charge is durable before an answer is drawn, and the "
        f"ledger refuses what would exceed the cap. {words.spent(facts)}"
    )
    return (
        Field(
            "query-model",
            "4.1 Query model. Hazard: interactive answers need a budget that is kept.",
            model,
            "scope of the certificate, ledger",
        ),
        Field(
            "threat-model",
            "4.2 Threat model. Hazard: trust that does not hold in reality.",
            f"Central: the curator ({facts.texts.curator or 'not named yet'}) is "
            "trusted with the records. Clients are not trusted and may work together. "
            "Somebody who runs code on the host is outside the promise.",
            "settings, text by the curator",
        ),
        Field(
            "side-channels",
            "4.3 Implementation. Hazards: floating point, timing, errors that depend "
            "on records.",
            "Noise and votes are drawn exactly. Refusals and errors depend on "
            "questions and budgets alone. " + _time_of_answers(facts),
            "kind of the model",
        ),
        Field(
            "security",
            "4.4 Security and access control. Hazard: a breach ends every promise.",
            words.protections(facts),
            "settings",
        ),
        Field(
            "collection",
            "4.5 Exposure at collection. Hazard: more is collected than needed.",
            None
            if facts.texts.collection is None
            else f"{facts.texts.collection} The model reads "
            f"{len(facts.stored.schema.columns)} columns and ignores "
            f"{len(facts.stored.schema.ignored)}.",
            "text by the curator, schema",
        ),
    )


def measured(facts: ModelFacts) -> list[str] | None:
    """Return the private measurements, newest last; None if there are none."""
    found = [
        f"{each['time'][:10]}: {each['metric']} {_number(each['value'])}, between "
        f"{_number(each['low'])} and {_number(each['high'])} with confidence "
        f"{each['confidence']:g}; measured privately, epsilon {each['epsilon']:g}"
        for each in facts.evaluations
    ]
    return found or None


def _number(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _time_of_answers(facts: ModelFacts) -> str:
    if facts.stored.lasting is None:
        return "The work for an answer does not depend on single records."
    if facts.stored.lasting.constant_time:
        return "Each answer looks at all records, near or not."
    return (
        "Answers look up the records near a question, and the time of that may depend "
        "on them. A model that is fitted with --constant-time looks at all records."
    )
