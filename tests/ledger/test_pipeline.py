"""Statements that travel to PostgreSQL together."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus

from reticent.ledger.sql.arrays import array_literal
from reticent.ledger.sql.pipeline import COMMIT, run_pipelined


@pytest.fixture
def driver(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE noted (what TEXT)")
        connection.commit()
        yield connection


def noted(driver):
    with driver.transaction():
        return [row[0] for row in driver.execute("SELECT what FROM noted ORDER BY 1")]


def test_rows_come_back_in_order_as_numbers_texts_and_gaps(driver):
    asks = [
        ("SELECT %s::bigint, %s::text, NULL", (2**62, "ö\\\"'")),
        ("SELECT 1 WHERE false", ()),
        ("SELECT * FROM generate_series(1, 3)", ()),
    ]
    expected = [[(2**62, "ö\\\"'", None)], [], [(1,), (2,), (3,)]]
    prepared = {}
    assert run_pipelined(driver, asks, prepared) == expected
    assert run_pipelined(driver, asks, prepared) == expected
    assert {statement for statement, _ in asks} < prepared.keys()


def test_a_statement_may_occur_twice_in_its_first_journey(driver):
    asks = [("SELECT %s::bigint", (number,)) for number in range(5)]
    assert run_pipelined(driver, asks, {}) == [[(number,)] for number in range(5)]


def test_nothing_after_a_failure_is_run(driver):
    asks = [
        ("INSERT INTO noted VALUES (%s)", ("before",)),
        ("SELECT 1 / %s::int", (0,)),
        ("INSERT INTO noted VALUES (%s)", ("after",)),
        (COMMIT, ()),
    ]
    prepared = {}
    with pytest.raises(psycopg.errors.DivisionByZero):
        run_pipelined(driver, asks, prepared)
    assert driver.pgconn.transaction_status == TransactionStatus.INERROR
    driver.rollback()
    assert noted(driver) == []
    # What was prepared before the failure is known, the rest is prepared later.
    asks[1] = ("SELECT 1 / %s::int", (1,))
    run_pipelined(driver, asks, prepared)
    assert driver.pgconn.transaction_status == TransactionStatus.IDLE
    assert noted(driver) == ["after", "before"]


def test_a_commit_that_rolls_back_is_an_error(driver):
    prepared = {}
    with pytest.raises(psycopg.errors.DivisionByZero):
        run_pipelined(driver, [("SELECT 1 / %s::int", (0,))], prepared)
    # To the server this is no error: the transaction ends, and nothing is written.
    with pytest.raises(psycopg.OperationalError, match="not committed"):
        run_pipelined(driver, [(COMMIT, ())], prepared)


@pytest.mark.parametrize("level", [None, *IsolationLevel], ids=str)
def test_a_transaction_is_begun_once_at_the_level_of_the_connection(driver, level):
    driver.isolation_level = level
    asked = "SELECT current_setting('transaction_isolation')"
    prepared = {}
    ((first,),) = run_pipelined(driver, [(asked, ())], prepared)[0]
    expected = (level or IsolationLevel.READ_COMMITTED).name
    assert first.upper().replace(" ", "_") == expected
    assert driver.pgconn.transaction_status == TransactionStatus.INTRANS
    # The driver goes on in the same transaction, and so do we.
    driver.execute("INSERT INTO noted VALUES ('ours')")
    assert run_pipelined(driver, [("SELECT what FROM noted", ())], prepared) == [
        [("ours",)]
    ]
    driver.rollback()
    assert noted(driver) == []


def test_pipeline_larger_than_every_buffer_do_not_block(driver):
    long = "x" * 4_000_000
    asks = [("SELECT %s::text", (long,)) for _ in range(8)]
    assert run_pipelined(driver, asks, {}) == [[(long,)]] * 8


def test_a_lost_connection_is_an_error(driver, postgres_url):
    pid = driver.info.backend_pid
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
    with pytest.raises(psycopg.OperationalError):
        run_pipelined(driver, [("SELECT 1", ())], {})


@pytest.mark.parametrize(
    "values",
    [
        [],
        [1, -(2**62)],
        ["a", "b"],
        [""],
        ["NULL", "null", "{}", ","],
        ['say "no"', "back\\slash\\", "new\nline", "ö\u2028"],
        ["with\x1fseparator", "plain"],
        [None, "a", None],
        [None, None],
        [3, None],
    ],
    ids=str,
)
def test_arrays_arrive_as_they_are(driver, values):
    kind = "bigint" if any(isinstance(value, int) for value in values) else "text"
    asked = f"SELECT * FROM unnest(%s::{kind}[])"
    (rows,) = run_pipelined(driver, [(asked, (array_literal(values),))], {})
    assert [value for (value,) in rows] == values
