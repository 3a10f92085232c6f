"""What the columns are: asked one by one, because only a person can vouch for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from reticent.cli.init.asking import Asker, one_of
from reticent.cli.init.declarations import (
    PART_LEVELS,
    Declarations,
    levels_of,
    pair_of,
    range_of,
)
from reticent.errors import InvalidParameterError
from reticent.schemas import FileFormat
from reticent.schemas import checked_format as date_format

_KINDS = ("number", "category", "date", "text", "ignore")
_DATE = "%d.%m.%Y"
_PARTS = "month,weekday"


@dataclass
class Given:
    """What options say about columns; lists of 'NAME=VALUE' and of names."""

    label: str | None = None
    classes: str | None = None
    target_range: str | None = None
    unit: str | None = None
    numeric: list[str] = field(default_factory=list)
    levels: list[str] = field(default_factory=list)
    date: list[str] = field(default_factory=list)
    span: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    ignore: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def declare(
    names: list[str], written: FileFormat, given: Given, ask: Asker
) -> Declarations:
    """Return what is declared about every column of a file.

    Parameters
    ----------
    names : list of str
        The columns.
    written : FileFormat
        How the file is written.
    given : Given
        What options say.
    ask : Asker
        Asks for the rest.
    """
    known = Declarations(names, file=written)
    _given_columns(known, given)
    _label(known, given, ask)
    _unit(known, given, ask)
    if known.open_names():
        ask.say(
            "",
            "What you say about columns is published with the model. Take ranges and "
            "lists from",
            "a form, a codebook or common sense; do not read them from the file.",
        )
    for name in known.open_names() if ask.interactive else ():
        _column(known, name, ask)
    for name in given.missing:
        known.may_miss(name)
    return known


def _given_columns(known: Declarations, given: Given) -> None:
    form = _DATE
    for text in given.numeric:
        known.numeric(*pair_of("--numeric", text))
    for text in given.levels:
        known.levels(*pair_of("--levels", text))
    for text in given.date:
        name, form = pair_of("--date", text)
        known.date(name, form, _parts(_PARTS))
    for text in given.span:
        known.span(*pair_of("--span", text), form)
    for text in given.words:
        known.words(*pair_of("--words", text))
    for name in given.ignore:
        known.ignore(name)


def _label(known: Declarations, given: Given, ask: Asker) -> None:
    name = ask.ask(
        f"Which column is to be predicted ({', '.join(known.open_names())})?",
        "--label",
        one_of(*known.open_names()) if given.label is None else known.open_column,
        given=given.label,
    )
    classes, reach = given.classes, given.target_range
    if classes is None and reach is None and ask.interactive:
        kind = ask.ask(
            f"Is {name!r} one of a list, or a number?",
            "",
            one_of("list", "number"),
        )
        if kind == "list":
            question = f"All values that {name!r} can have, separated by commas"
            classes = ask.ask(question, "", _checked_classes)
        else:
            question = f"The smallest and largest {name!r} that make sense, as 0:100"
            reach = ask.ask(question, "", _checked_range)
    known.label_is(name, classes, reach)


def _unit(known: Declarations, given: Given, ask: Asker) -> None:
    ask.say(
        "",
        "Whom does the promise protect? If people have several rows, name the column "
        "with",
        "the person's id: all rows of a person are then protected together. If not, "
        "say row.",
    )
    choice = one_of(*known.open_names(), "row")
    found = ask.ask(
        "Which column says whose row it is, or row?",
        "--unit NAME, or --unit row if every row is another person",
        choice if given.unit in (None, "row") else known.open_column,
        given=given.unit,
    )
    if found != "row" or "row" in known.names:
        known.unit_is(found)


def _column(known: Declarations, name: str, ask: Asker) -> None:
    kind = ask.ask(f"{name}: {', '.join(_KINDS)}?", "", one_of(*_KINDS))
    if kind == "ignore":
        known.ignore(name)
    elif kind == "text":
        question = "  hash its words into how many buckets, or ignore?"
        found = ask.ask(question, "", _buckets, default="ignore")
        known.ignore(name) if found == "ignore" else known.words(name, found)
    elif kind == "date":
        form = ask.ask("  written as", "", date_format, default=_DATE)
        parts = ask.ask(
            f"  parts to use ({', '.join(PART_LEVELS)})", "", _parts, default=_PARTS
        )
        known.date(name, form, parts)
    elif kind == "number":
        reach = ask.ask("  smallest and largest that make sense", "", _checked_range)
        known.numeric(name, reach, missing=_missing(ask))
    else:
        levels = ask.ask("  all values, separated by commas", "", _checked_levels)
        known.levels(name, levels, missing=_missing(ask))


def _missing(ask: Asker) -> bool:
    question = "  may values be missing (yes or no)?"
    return ask.ask(question, "", one_of("yes", "no"), default="no") == "yes"


def _buckets(text: str) -> str:
    if text != "ignore" and not text.isdigit():
        raise InvalidParameterError("answer with a number such as 16, or ignore.")
    return text


def _parts(text: str) -> tuple[str, ...]:
    return tuple(one_of(*PART_LEVELS)(part.strip()) for part in text.split(","))


def _checked_range(text: str) -> str:
    low, high = range_of(text)
    if not low < high:
        raise InvalidParameterError("the smaller number comes first, as in 0:120.")
    return text


def _checked_levels(text: str) -> str:
    levels_of(text)
    return text


def _checked_classes(text: str) -> str:
    if len(set(levels_of(text))) < 2:
        raise InvalidParameterError("name at least two, separated by commas.")
    return text
