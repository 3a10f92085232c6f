"""The words that people meet here, each in plain language.

The command ``reticent explain``, the dashboard and the documentation show these texts.
They are in ``glossary.toml`` beside this module.
"""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from reticent.errors import InvalidParameterError

__all__ = ["Term", "explained", "glossary"]


@dataclass(frozen=True, slots=True)
class Term:
    """A word with its meaning.

    Attributes
    ----------
    key : str
        What identifies it in addresses and commands.
    name : str
        How it is written.
    short : str
        One sentence.
    more : str
        What else helps to understand it; may be empty.
    also : tuple of str
        Other words for it.
    see : tuple of str
        The keys of related words.
    """

    key: str
    name: str
    short: str
    more: str = ""
    also: tuple[str, ...] = ()
    see: tuple[str, ...] = ()


@cache
def glossary() -> dict[str, Term]:
    """Return all words by their keys, in alphabetical order of their names."""
    text = files("reticent").joinpath("glossary.toml").read_text("utf-8")
    terms = [
        Term(
            key=key,
            name=data.pop("name", key),
            also=tuple(data.pop("also", ())),
            see=tuple(data.pop("see", ())),
            **data,
        )
        for key, data in tomllib.loads(text).items()
    ]
    return {term.key: term for term in sorted(terms, key=lambda t: t.name.lower())}


def explained(word: str) -> Term:
    """Return the term for a word, however it is written.

    Parameters
    ----------
    word : str
        A term, its key, or another word for it. Capitals, spaces and hyphens do not
        matter.

    Examples
    --------
    >>> explained("zCDP").key
    'zcdp'
    >>> explained("privacy budget").key
    'budget'
    """
    known = _spellings()
    wanted = _plain(word)
    if wanted in known:
        return glossary()[known[wanted]]
    close = difflib.get_close_matches(wanted, known, n=3, cutoff=0.6)
    near = ", ".join(dict.fromkeys(known[each] for each in close))
    hint = f"Close to it: {near}." if near else "'reticent explain' lists all words."
    raise InvalidParameterError(f"the glossary has no word {word[:60]!r}. {hint}")


@cache
def _spellings() -> dict[str, str]:
    return {
        _plain(spelling): term.key
        for term in glossary().values()
        for spelling in (term.key, term.name, *term.also)
    }


def _plain(word: str) -> str:
    return "".join(mark for mark in word.lower() if mark.isalnum())
