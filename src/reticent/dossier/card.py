"""A model card: what the model is, for whom, and how good it is."""

from __future__ import annotations

from reticent.dossier import words
from reticent.dossier.facts import Facts
from reticent.dossier.fields import Field, Section
from reticent.dossier.nist import measured

_ABOUT = "What a user of the model should know."


def card_section(facts: Facts) -> Section:
    """Return the model card."""
    stored = facts.stored
    promise = facts.certificate
    return Section(
        "model-card",
        "Model card",
        _ABOUT,
        (
            Field(
                "model",
                "What is it?",
                f"{facts.name}: {words.kind_of_model(facts)}; kind {stored.kind!r}, id "
                f"{stored.id}; {facts.software}.",
                "manifest of the model",
            ),
            Field("owner", "Whose is it?", facts.texts.curator, "text by the curator"),
            Field(
                "use",
                "What is it for, and what not?",
                facts.texts.intended_use,
                "text by the curator",
            ),
            Field(
                "input",
                "What does it read?",
                words.columns_in_words(facts),
                "schema",
            ),
            Field("output", "What does it say?", words.answered_with(facts), "schema"),
            Field(
                "training-data",
                "What was it trained on?",
                f"{stored.n_units:,} units of the dataset {stored.dataset.name!r}, "
                f"version {stored.dataset.version!r}. A unit is {facts.unit}.",
                "manifest of the model, schema",
            ),
            Field(
                "metrics",
                "How good is it?",
                measured(facts),
                "private evaluations ('reticent evaluate')",
            ),
            Field(
                "promise",
                "What does it promise to the people in the data?",
                f"{promise.headline()}. All that is released from the dataset stays "
                f"within ({facts.total.epsilon:g}, {facts.total.delta:g}). "
                f"{facts.plain}",
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
        ),
    )
