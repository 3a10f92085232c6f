"""Names and JSON from outside."""

from __future__ import annotations

import re

import pytest

from reticent._text import NAME_PATTERN, checked_name, protected_one, strict_json
from reticent.errors import InvalidParameterError


@pytest.mark.parametrize("name", ["a", "0", "Clinic-a_2.1", "x" * 64])
def test_plain_names_are_returned(name):
    assert checked_name("a name", name) == name
    assert re.search(NAME_PATTERN, name)


@pytest.mark.parametrize(
    "name", ["", ".a", "-a", "a b", "a/b", "a\n", "é", "x" * 65, None, 3]
)
def test_other_names_are_refused(name):
    with pytest.raises(InvalidParameterError, match="a name must be 1 to 64 letters"):
        checked_name("a name", name)
    if isinstance(name, str) and name != "a\n":  # a pattern may end before a line feed
        assert not re.search(NAME_PATTERN, name)


def test_longer_names_where_they_are_allowed():
    assert checked_name("a name", "x" * 80, longest=80) == "x" * 80
    with pytest.raises(InvalidParameterError, match="1 to 80"):
        checked_name("a name", "x" * 81, longest=80)


def test_who_is_protected_is_said_only_where_it_is_known():
    assert protected_one(None) == protected_one(None, None) == "one row"
    assert protected_one("pid", "patient") == "one person"
    assert protected_one() == protected_one(None, "pid") == "one unit"


def test_plain_json_is_read():
    assert strict_json('{"a": [1, 2.5, null, "b"]}') == {"a": [1, 2.5, None, "b"]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' occurs twice"),
        ('{"b": {"a": 1, "a": 1}}', "the key 'a' occurs twice"),
        ("[NaN]", "NaN is not a JSON number"),
        ("-Infinity", "-Infinity is not a JSON number"),
        ("{", "not JSON: .* at line 1, column 2"),
        ("1 2", "not JSON: Extra data"),
        ("[" * 100_000, "nested too deeply"),
        ("1" * 5_000, "too many digits"),
    ],
)
def test_what_hides_mistakes_is_refused(text, problem):
    with pytest.raises(InvalidParameterError, match=problem):
        strict_json(text)
