"""An annex in the sense of EDPB Opinion 28/2024: what the model gives away."""

from __future__ import annotations

import math
from typing import Any

from reticent.dossier import words
from reticent.dossier.facts import ModelFacts
from reticent.dossier.fields import Field, Section
from reticent.guarantees import ReplaceOne, best_guess

_ABOUT = (
    "EDPB Opinion 28/2024 calls a model anonymous only if two likelihoods are "
    "insignificant, considering all means that are reasonably likely to be used: that "
    "personal data of those whose data were used are extracted from the model, and "
    "that they are obtained by queries. This annex gives the facts for that judgement. "
    "It does not make it: whether a bound is insignificant is for the controller and "
    "the authority to say."
)


def edpb_section(facts: ModelFacts) -> Section:
    """Return the facts about extraction and queries."""
    return Section(
        "edpb-28-2024",
        "Annex on EDPB Opinion 28/2024",
        _ABOUT,
        (*_bounds(facts), *_evidence(facts), *_documents(facts)),
    )


def _bounds(facts: ModelFacts) -> tuple[Field, ...]:
    if facts.released:
        extraction = (
            "Whoever holds the released model, with unlimited time and any other "
            "knowledge, is bound by the promise about the model: "
            f"{facts.promise}. {facts.plain}"
        )
    else:
        extraction = (
            "The model stays with the curator and is not given to anybody. It is as "
            "sensitive as the records, and is protected like them: "
            + " ".join(words.protections(facts))
        )
    times = math.ceil(100 * best_guess(facts.total))
    between = f"Between two equally likely facts about {facts.unit}"
    if facts.balance.cap.relation != ReplaceOne.name:
        # Two facts are further apart than one of them and nothing.
        between = f"Whether {facts.unit} contributed at all, both equally likely"
    queries = (
        f"All answers to all clients together stay within {facts.total}. {facts.plain}"
    )
    return (
        Field(
            "extraction",
            "How likely is it that personal data are extracted from the model itself?",
            extraction,
            "certificate, settings",
        ),
        Field(
            "queries",
            "How likely is it that personal data are obtained by queries?",
            queries,
            "cap of the dataset in the ledger",
        ),
        Field(
            "means",
            "Which means are considered?",
            "Every one: the bound holds for any computation on what was released, with "
            "any knowledge about everybody else, now and later. It does not hold for "
            "somebody who has the records, the stored model or the host itself.",
            "definition of differential privacy, attack model",
        ),
        Field(
            "singling-out",
            "Can a person be singled out, linked or inferred about?",
            f"{between}, nobody guesses "
            f"right more than {times} times in 100 from what is released. What is true "
            "of people in general can be learned, also about those who are not in "
            "the data.",
            "cap of the dataset",
        ),
    )


def _evidence(facts: ModelFacts) -> tuple[Field, ...]:
    audit = facts.audit
    source = "reticent audit" if audit is None else f"audit of {audit['made'][:10]}"
    verdict = None if audit is None else audit["verdict"]
    seen = bool(audit is not None and audit["uses_records"])
    return (
        Field(
            "audit",
            "Did tests refute the promise?",
            verdict,
            source,
            from_records=seen,
        ),
        Field(
            "attacks",
            "What did attacks achieve?",
            None if audit is None else _attack(audit),
            source,
            from_records=seen,
        ),
    )


def _attack(audit: Any) -> str | None:
    """Return the finding of the attack, if there was one."""
    for check in audit["checks"]:
        if check["name"] == "attack" and check["status"] != "not run":
            return str(check["finding"])
    return None


def _documents(facts: ModelFacts) -> tuple[Field, ...]:
    texts = facts.texts
    return (
        Field(
            "collection",
            "How were the records collected, and on which legal basis?",
            texts.collection,
            "text by the curator",
        ),
        Field(
            "minimisation",
            "Which columns does the model read, and which are left out?",
            [
                *words.columns_in_words(facts),
                f"not read: {', '.join(facts.stored.schema.ignored) or 'nothing'}",
            ],
            "schema",
        ),
        Field(
            "assessment",
            "Is there a data protection impact assessment, and what did the officer "
            "advise?",
            None,
            "the controller",
        ),
        Field(
            "choices",
            "Why is the remaining risk acceptable?",
            texts.rationale,
            "text by the curator",
        ),
    )
