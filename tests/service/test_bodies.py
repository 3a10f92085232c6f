"""JSON is read as strictly by the compiled reader as by the plain one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent._text import strict_json
from reticent.errors import InvalidParameterError
from reticent.service.requests.bodies import json_value
from reticent.service.requests.problems import ProblemError

CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
VALUES = st.recursive(
    CELLS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=20,
)


def typed(value):
    """Return a value with the types of its parts: 1, 1.0 and True are equal."""
    if isinstance(value, dict):
        return {name: typed(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [typed(inner) for inner in value]
    return type(value).__name__, repr(value)


@given(VALUES)
def test_both_readers_find_the_same(value):
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    try:
        wanted = strict_json(body.decode())
    except UnicodeDecodeError:
        with pytest.raises(ProblemError):
            json_value(body)
    else:
        assert typed(json_value(body)) == typed(wanted)


@given(st.text(alphabet='{}[]":,0129.eE+-truefalsn \\u\n', max_size=30))
def test_both_readers_refuse_the_same(text):
    try:
        wanted = strict_json(text)
    except InvalidParameterError:
        with pytest.raises(ProblemError):
            json_value(text.encode())
    else:
        assert typed(json_value(text.encode())) == typed(wanted)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"rows":[{"a":1,"a":2}]}',
        '{"rows":[{"a":1}],"rows":[{"a":1}]}',
        '{"rows":[{"a":{"b":1,"b":1}}]}',
        '[{"a":1,"a":1}]',
        '{"a":[[{"b":1,"b":1}]]}',
        '{"a":NaN}',
        "[" * 100_000,
    ],
)
def test_doubtful_texts_are_refused(text):
    with pytest.raises(ProblemError) as refusal:
        json_value(text.encode())
    assert refusal.value.code == "invalid_json"
