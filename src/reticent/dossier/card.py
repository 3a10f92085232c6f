"""A model card: what the model is, for whom, and how good it is."""

from __future__ import annotations

from reticent.dossier import words
from reticent.dossier.facts import ModelFacts
from reticent.dossier.fields import Field, Section
from reticent.dossier.nist import measured

_ABOUT = "What a user of the model should know."


def card_section(facts: ModelFacts) -> Section:
    """Return the model card."""
    fields = (*_what_it_is(facts), *_what_it_promises(facts))
    return Section("model-card", "Model card", _ABOUT, fields)


def _what_it_is(facts: ModelFacts) -> tuple[Field, ...]:
    stored, texts = facts.stored, facts.texts
    named = (
        f"{facts.name}: {words.kind_of_model(facts)}; kind {stored.kind!r}, id "
        f"{stored.id}; {facts.software}."
    )
    trained = (
        f"{stored.n_units:,} units of the dataset {stored.dataset.name!r}, version "
        f"{stored.dataset.version!r}. A unit is {facts.unit}."
    )
    curator = "text by the curator"
    columns = words.columns_in_words(facts)
    return (
        Field("model", "What is it?", named, "manifest of the model"),
        Field("owner", "Whose is it?", texts.curator, curator),
        Field("use", "What is it for, and what not?", texts.intended_use, curator),
        Field("input", "What does it read?", columns, "schema"),
        Field("output", "What does it say?", words.answered_with(facts), "schema"),
        Field(
            "training-data",
            "What was it trained on?",
            trained,
            "manifest of the model, schema",
        ),
        Field(
            "metrics",
            "How good is it?",
            measured(facts),
            "private evaluations ('reticent evaluate')",
        ),
    )


def _what_it_promises(facts: ModelFacts) -> tuple[Field, ...]:
    return (
        Field(
            "promise",
            "What does it promise to the people in the data?",
            f"{facts.promise}. All that is released from the dataset "
            f"stays within {facts.total}. {facts.plain}",
            "certificate, cap of the dataset",
        ),
        Field(
            "assumptions",
            "On what does the promise depend?",
            words.assumptions(facts) or "On nothing but what the code enforces.",
            "certificate",
        ),
        Field(
            "limits",
            "What does it not promise?",
            "That nothing true of people in general is learned; that answers are "
            "right; anything to those whose records are outside this dataset; "
            "anything if the host or the stored files are in other hands.",
            "definition of differential privacy, attack model",
        ),
    )
