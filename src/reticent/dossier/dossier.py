"""The dossier of one model: its sections, its files, and whether it still holds."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reticent._text import strict_json
from reticent.dossier.card import card_section
from reticent.dossier.edpb import edpb_section
from reticent.dossier.facts import ModelFacts
from reticent.dossier.fields import Field, Section
from reticent.dossier.nist import nist_section
from reticent.dossier.registry import registry_entry, registry_section
from reticent.errors import InvalidParameterError
from reticent.guarantees import recheck

FORMAT = 1
_WITHHELD = "left out of what is published: it was computed from records"
# These change on their own: with the day, and with the budget that is spent.
_MOVING = ("administrative.notes", "release_type_details", "query-model")


@dataclass(frozen=True)
class Dossier:
    """All sections about one model.

    Attributes
    ----------
    name : str
        The model.
    model_id, certificate_id : str
        Which model and which promise it is about, exactly.
    written : str
        The day.
    sections : tuple of Section
        Registry entry, NIST sheet, EDPB annex, model card.
    entry : dict
        The registry entry in the registry's format.
    derivation : str
        The certificate as a tree.
    answers_with_numbers : bool
        Whether the model predicts numbers, not labels.
    """

    name: str
    model_id: str
    certificate_id: str
    written: str
    sections: tuple[Section, ...]
    entry: dict[str, Any]
    derivation: str
    answers_with_numbers: bool = False

    @classmethod
    def of(cls, facts: ModelFacts) -> Dossier:
        """Derive every field; the certificate is derived again first."""
        recheck(facts.certificate)
        registry = registry_section(facts)
        return cls(
            facts.name,
            facts.stored.id,
            facts.certificate.id,
            facts.written,
            (registry, nist_section(facts), edpb_section(facts), card_section(facts)),
            registry_entry(registry, facts),
            str(facts.certificate),
            facts.stored.classes is None,
        )

    def published(self) -> Dossier:
        """Return the dossier without what was computed from records."""
        return replace(self, sections=tuple(map(_public, self.sections)))

    @property
    def from_records(self) -> bool:
        """Whether anything in it was computed from records without privacy."""
        return any(each.from_records and not each.open for each in self.fields())

    def fields(self) -> list[Field]:
        """Return all fields of all sections."""
        return [field for section in self.sections for field in section.fields]

    def open_fields(self) -> list[str]:
        """Return the names of fields that nobody has filled in."""
        return [
            f"{section.id}/{field.id}"
            for section in self.sections
            for field in section.fields
            if field.open
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "format": FORMAT,
            "model": self.name,
            "model_id": self.model_id,
            "certificate": self.certificate_id,
            "written": self.written,
            "from_records": self.from_records,
            "open": self.open_fields(),
            "sections": [section.as_dict() for section in self.sections],
            "registry_entry": self.entry,
            "derivation": self.derivation,
        }

    def to_json(self) -> str:
        """Return the dossier as JSON."""
        return json.dumps(self.as_dict(), indent=1, allow_nan=False) + "\n"


def _public(section: Section) -> Section:
    return replace(
        section,
        fields=tuple(
            replace(field, answer=None, source=_WITHHELD, from_records=False)
            if field.from_records
            else field
            for field in section.fields
        ),
    )


def write_dossier(dossier: Dossier, folder: str | os.PathLike[str]) -> list[Path]:
    """Write a dossier as HTML, Markdown and JSON, with registry entry and model card.

    Files are readable by their owner alone: an attack's result may be among them.

    Parameters
    ----------
    dossier : Dossier
        What to write.
    folder : path
        Where; made if it is not there.
    """
    from reticent.dossier.rendering import as_card, as_html, as_markdown

    place = Path(folder)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    contents = {
        "dossier.html": as_html(dossier),
        "dossier.md": as_markdown(dossier),
        "dossier.json": dossier.to_json(),
        "card.md": as_card(dossier, number=dossier.answers_with_numbers),
        "registry.json": json.dumps(dossier.entry, indent=1) + "\n",
    }
    written = []
    for name, text in contents.items():
        path = place / name
        path.touch(mode=0o600)
        path.chmod(0o600)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def recheck_dossier(path: str | os.PathLike[str], now: Dossier) -> list[str]:
    """Derive a dossier again and name the fields that have changed since.

    Parameters
    ----------
    path : path
        A ``dossier.json``.
    now : Dossier
        The dossier of the same model as it is now, with the same texts.

    Returns
    -------
    list of str
        The fields that differ, as section/field; empty if it still holds. What changes
        on its own, the day and the share of the budget that is spent, is left out.
    """
    then = _read(path)
    if then["model_id"] != now.model_id or then["certificate"] != now.certificate_id:
        return ["model_id"]
    return [
        place
        for place, answer in _answers(now.as_dict()).items()
        if not place.endswith(_MOVING) and _answers(then).get(place) != answer
    ]


def _answers(data: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{section['id']}/{field['id']}": field["answer"]
        for section in data["sections"]
        for field in section["fields"]
    }


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        found = strict_json(Path(path).read_text("utf-8"))
        if found["format"] == FORMAT:
            _answers(found)
            return {**found, "model_id": str(found["model_id"])}
    except (KeyError, TypeError, ValueError, InvalidParameterError):
        pass
    raise InvalidParameterError(
        f"{os.fspath(path)} is not a dossier of this version; give the dossier.json "
        "that 'reticent dossier' wrote."
    )
