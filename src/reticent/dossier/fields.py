"""Fields and sections of a dossier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Field:
    """One question and its answer.

    Attributes
    ----------
    id : str
        A name for programs; unique within its section.
    question : str
        What is asked, for people.
    answer : str, number, list or None
        None if it is open: nothing here knows it.
    source : str
        What the answer was derived from, or who has to give it.
    from_records : bool
        Whether the answer was computed from records without privacy. It is then as
        sensitive as they are, and left out of what is published.
    """

    id: str
    question: str
    answer: Any
    source: str
    from_records: bool = False

    @property
    def open(self) -> bool:
        """Whether nothing is known."""
        return self.answer is None

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "id": self.id,
            "question": self.question,
            "answer": self.answer,
            "open": self.open,
            "source": self.source,
            "from_records": self.from_records,
        }


@dataclass(frozen=True)
class Section:
    """Fields that belong together.

    Attributes
    ----------
    id : str
        A name for programs.
    title : str
        For people.
    about : str
        What the section is and where its questions come from.
    fields : tuple of Field
        In the order of its source.
    """

    id: str
    title: str
    about: str
    fields: tuple[Field, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "id": self.id,
            "title": self.title,
            "about": self.about,
            "fields": [field.as_dict() for field in self.fields],
        }
