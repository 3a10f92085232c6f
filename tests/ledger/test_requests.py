"""Requests are checked before anything is charged."""

from __future__ import annotations

import pytest

from reticent.errors import InvalidParameterError
from reticent.ledger import AccountId, AccountScope
from tests.ledger.accounts_and_requests import ALICE, BOB, DATASET, MEMORY, asking


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 201, "a\n", None, 7])
def test_keys_are_visible_ascii(key):
    with pytest.raises(InvalidParameterError, match="idempotency key"):
        asking(key, b"x")


@pytest.mark.parametrize(
    "accounts",
    [
        (),
        (ALICE, ALICE),
        tuple(AccountId(AccountScope.CLIENT, str(i)) for i in range(17)),
    ],
)
def test_accounts_are_few_and_different(accounts):
    with pytest.raises(InvalidParameterError, match="accounts="):
        asking("k", accounts=accounts)


@pytest.mark.parametrize("queries", [(), (b"x",) * 100_001])
def test_batches_have_a_size(queries):
    with pytest.raises(InvalidParameterError, match="n_queries="):
        asking("k", queries=queries)


@pytest.mark.parametrize("queries", [("text",), (b"x", 3)])
def test_queries_are_bytes(queries):
    with pytest.raises(InvalidParameterError, match="bytes"):
        asking("k", queries=queries)


@pytest.mark.parametrize("memory", ["", "a b", 3, "x" * 201])
def test_memory_names_are_visible_ascii(memory):
    with pytest.raises(InvalidParameterError, match="memory"):
        asking("k", memory=memory)


def test_fingerprint_covers_everything_but_the_key():
    one = asking("k", b"x", b"y")
    assert one.fingerprint == asking("other", b"x", b"y").fingerprint
    different = {
        asking("k", b"x", b"z").fingerprint,
        asking("k", b"y", b"x").fingerprint,
        asking("k", b"xy").fingerprint,
        asking("k", b"x", b"y", client=BOB).fingerprint,
        asking("k", b"x", b"y", memory=MEMORY).fingerprint,
        asking("k", b"x", b"y", accounts=(ALICE, DATASET)).fingerprint,
        one.fingerprint,
    }
    assert len(different) == 7


def test_request_prints_no_query():
    assert "canary" not in repr(asking("k", b"canary-4711"))
