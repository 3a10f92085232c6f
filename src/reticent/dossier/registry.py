"""An entry for the Differential Privacy Deployments Registry, at its fullest tier."""

from __future__ import annotations

import re
from typing import Any

from reticent.dossier import words
from reticent.dossier.facts import ModelFacts
from reticent.dossier.fields import Field, Section
from reticent.guarantees import ApproxDP, GaussianDP, PureDP, Scope, Stated

_ABOUT = (
    "The fields of the registry's schema (registry.opendp.org), tier 3. The curator "
    "has to fill in all open fields before the entry is submitted."
)
_CURATOR = "text by the curator"


def registry_section(facts: ModelFacts) -> Section:
    """Return the fields of the registry, named as in its schema."""
    fields = (
        *_basic(facts),
        *_promise(facts),
        *_deployment(facts),
        *_accounting(facts),
        *_implementation(facts),
        *_administrative(facts),
    )
    return Section("registry", "Entry for the deployments registry", _ABOUT, fields)


def registry_entry(section: Section, facts: ModelFacts) -> dict[str, Any]:
    """Return the entry in the registry's format; open fields are left out.

    Parameters
    ----------
    section : Section
        What `registry_section` returned.
    facts : ModelFacts
        The facts.
    """
    deployment: dict[str, dict[str, Any]] = {}
    for field in section.fields:
        if field.open:
            continue
        group, name = field.id.split(".", 1)
        answer = field.answer
        if isinstance(answer, list) and name not in (
            "data_curators",
            "registry_authors",
        ):
            answer = "\n".join(f"- {line}" for line in answer)
        deployment.setdefault(group, {})[name] = answer
    slug = re.sub(r"[^a-z0-9]+", "-", f"{facts.name} {facts.stored.id[:8]}".lower())
    return {
        "url_slug": slug.strip("-"),
        "status": "Draft",
        "tier": 3,
        "deployment": deployment,
    }


def _basic(facts: ModelFacts) -> tuple[Field, ...]:
    texts = facts.texts
    product = "Machine learning model" if facts.released else "Interactive API"
    described = (
        f"{words.kind_of_model(facts).capitalize()}. An answer is "
        f"{words.answered_with(facts)}, from {len(facts.stored.schema.columns)} "
        f"columns. Trained on {facts.stored.n_units:,} units of the dataset "
        f"{facts.stored.dataset.name!r}."
    )
    return (
        Field("basic.name", "Name of the data product", facts.name, "settings"),
        Field(
            "basic.data_curators",
            "Who publishes it?",
            None if texts.curator is None else [texts.curator],
            _CURATOR,
        ),
        Field("basic.intended_use", "Intended use", texts.intended_use, _CURATOR),
        Field("basic.data_product_type", "Type", product, "scope of the certificate"),
        Field("basic.data_product_region", "Region", texts.region, _CURATOR),
        Field("basic.description", "Description", described, "schema, certificate"),
        Field(
            "basic.publication_date",
            "Date of first publication",
            facts.first_charge,
            "the ledger's first charge to the dataset",
        ),
        Field(
            "basic.data_product_sector",
            "Sector",
            None,
            "the curator; the registry has a list",
        ),
    )


def _promise(facts: ModelFacts) -> tuple[Field, ...]:
    total, own = facts.total, facts.certificate
    variant = "Approximate DP" if total.delta > 0 else "Pure DP"
    per = {
        Scope.ANSWER: "One answer",
        Scope.INTERFACE: "All answers together",
        Scope.MODEL: "The released model",
    }[own.scope]
    details = (
        f"The numbers are the enforced cap on everything that is released from the "
        f"dataset {facts.stored.dataset.name!r}, by all of its models "
        f"({', '.join(facts.models)}). {per} of this model: {facts.promise}. "
        f"{facts.plain}"
    )
    unprotected = [
        f"the number of units ({facts.stored.n_units:,})"
        if hasattr(own.relation, "n")
        else "nothing about the number of units is needed",
        "the schema: names, ranges and levels of columns, and the labels, as declared",
        "which questions were asked, and what was charged for them",
        *(f"assumed, not checked: {each}" for each in words.assumptions(facts)),
    ]
    domain = [
        f"tables with {len(facts.stored.schema.columns)} declared columns:",
        *words.columns_in_words(facts),
        f"to be predicted: {words.answered_with(facts)}",
    ]
    return (
        Field("dp_variant.variant_name", "Variant", variant, "cap of the dataset"),
        Field("dp_variant.data_domain", "Data domain", domain, "schema"),
        Field(
            "dp_variant.unprotected_quantities",
            "Quantities left unprotected",
            unprotected,
            "relation and assumptions of the certificate, schema",
        ),
        Field("privacy_loss.privacy_unit", "Privacy unit", facts.unit, "schema"),
        Field(
            "privacy_loss.privacy_unit_details",
            "What are neighbouring datasets?",
            words.neighbours(facts),
            "relation of the certificate",
        ),
        Field(
            "privacy_loss.privacy_parameters",
            "Privacy parameters",
            {"epsilon": total.epsilon, "delta": total.delta}
            if total.delta > 0
            else {"epsilon": total.epsilon},
            "cap of the dataset in the ledger",
        ),
        Field(
            "privacy_loss.privacy_parameters_details",
            "More about the parameters",
            details,
            "certificate, ledger",
        ),
    )


def _deployment(facts: ModelFacts) -> tuple[Field, ...]:
    return (
        Field(
            "deployment_model.model_name",
            "Deployment model",
            "Central",
            "always: the curator holds the records",
        ),
        Field(
            "deployment_model.model_name_details",
            "More about the model",
            f"Trained where the records are. People get {words.kind_of_model(facts)}.",
            "scope of the certificate",
        ),
        Field(
            "deployment_model.actors", "Actors and trust", _actors(facts), "settings"
        ),
        *_releases(facts),
        Field(
            "deployment_model.data_source_type",
            "Does the data change?",
            "Static",
            "a model is trained on one version of a dataset",
        ),
        Field(
            "deployment_model.data_source_type_details",
            "More about the data",
            f"Version {facts.stored.dataset.version!r} of the dataset "
            f"{facts.stored.dataset.name!r}. All versions share one budget, because "
            "they share people.",
            "manifest of the model",
        ),
        *_access(facts),
    )


def _actors(facts: ModelFacts) -> list[str]:
    return [
        "The curator holds the records and the stored model, and is trusted with both.",
        f"Clients with a key ask up to {facts.settings.max_rows:,} rows at once. They "
        "are not trusted: they may choose every question and work together.",
        "Whoever gets the released model may do with it what they like."
        if facts.released
        else "Others have no access; the service answers nobody without a key.",
    ]


def _periods(facts: ModelFacts) -> str:
    """Say how a budget is given out by period; the total is what is promised."""
    known = facts.over_periods
    if known is None:
        return ""
    return (
        f" The budget is given out in {known.periods} equal parts, one per period; "
        f"this is period {known.period}. A person who stays in the data pays in every "
        "period, so the total over all periods is what is promised "
        f"({known.certificate.headline()}). Nothing smaller is promised to those who "
        "are in the data for one period only."
    )


def _releases(facts: ModelFacts) -> tuple[Field, ...]:
    if facts.released:
        managed = (
            "The model was charged once to the dataset's budget. Other models on the "
            "same dataset share that budget."
        )
    elif facts.lasting:
        managed = (
            "One total was charged before the first answer and covers all of them. "
            "Nobody is refused."
        )
    else:
        managed = (
            "Answers are refused once the budget is spent. It is not refilled over "
            "time."
        )
    managed += _periods(facts)
    return (
        Field(
            "deployment_model.release_type",
            "Releases",
            "One release" if facts.released else "Many releases",
            "certificate",
        ),
        Field(
            "deployment_model.release_type_details",
            "How is the loss managed over time?",
            f"{managed} {words.spent(facts)}",
            "ledger",
        ),
    )


def _access(facts: ModelFacts) -> tuple[Field, ...]:
    own = facts.settings.client_budget
    if facts.released or facts.lasting:
        # Nothing that a client asks is charged to it.
        share = "Clients share one total, and each of them may learn all of it."
    elif own is None:
        share = "There is no budget of their own for clients."
    else:
        share = f"A client may learn at most {Stated(own.epsilon, own.delta)}."
    return (
        Field(
            "deployment_model.access_type",
            "Access",
            "Non-interactive" if facts.released else "Interactive",
            "certificate",
        ),
        Field(
            "deployment_model.access_type_details",
            "How is the budget shared?",
            f"{share} All clients together stay within {facts.total}, so it does not "
            "matter whether they work together.",
            "settings, ledger",
        ),
    )


def _accounting(facts: ModelFacts) -> tuple[Field, ...]:
    after = ["An answer is one of the declared labels, or lies in the declared range."]
    model = facts.settings.models[facts.name]
    if facts.lasting:
        after.append("Each answer comes with the evidence that it rests on.")
    if not facts.released:
        after.append(
            "A client who asks the same row again gets the same answer, free."
            if model.remember
            else "Answers are not remembered; the same row again is a new answer."
        )
    return (
        Field("accounting.post_processing", "Post-processing", after, "settings"),
        Field(
            "accounting.composition",
            "Composition",
            [
                f"In the ledger {words.how_charges_add_up(facts)}.",
                *words.rules_used(facts),
            ],
            "cap of the dataset, derivation of the certificate",
        ),
    )


def _implementation(facts: ModelFacts) -> tuple[Field, ...]:
    searched = any(node.rule.startswith("G26") for node in facts.certificate.walk())
    before = [
        "Rows are encoded by declared ranges and levels alone; no statistic of the "
        "records decides an encoding.",
        "Settings were searched privately; the certificate covers the search (G26)."
        if searched
        else "No private search is on the certificate. How settings were chosen is for "
        "the curator to say; see the rationale.",
    ]
    mechanisms = [
        *words.rules_used(facts),
        f"Implemented by reticent: {facts.software}.",
        "Noise is drawn exactly, in whole numbers or on a grid, from the operating "
        "system's randomness; floating-point errors do not enter.",
        "The time of an answer is not padded, except where a predictor offers it; see "
        "the page on limits.",
        *words.protections(facts),
    ]
    return (
        Field(
            "implementation.preprocessing_and_hyperparameter_tuning",
            "Preprocessing and tuning",
            before,
            "encoder, derivation of the certificate",
        ),
        Field(
            "implementation.mechanisms",
            "Mechanisms, implementation and security",
            mechanisms,
            "derivation of the certificate, settings",
        ),
        Field(
            "implementation.justification",
            "Why these choices?",
            facts.texts.rationale,
            _CURATOR,
        ),
    )


def _administrative(facts: ModelFacts) -> tuple[Field, ...]:
    curator = facts.texts.curator
    return (
        Field(
            "administrative.sources",
            "Sources",
            f"Certificate {facts.certificate.id} of model {facts.stored.id}.",
            "certificate",
        ),
        Field(
            "administrative.notes",
            "Notes",
            f"Written on {facts.written} by reticent from certificate, ledger, schema "
            "and settings.",
            "the day of the dossier",
        ),
        Field(
            "administrative.registry_authors",
            "Who wrote this entry?",
            None if curator is None else [curator],
            _CURATOR,
        ),
    )


def variant_of(facts: ModelFacts) -> str:
    """Name the definition that the model's own certificate is in."""
    guarantee = facts.certificate.guarantee
    if isinstance(guarantee, PureDP):
        return "pure differential privacy"
    if isinstance(guarantee, ApproxDP):
        return "approximate differential privacy"
    if isinstance(guarantee, GaussianDP):
        return "Gaussian differential privacy"
    return str(guarantee)
