"""The quick replay of a chain misses nothing: one change anywhere is refused."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import sqlite3

import pytest

from reticent.errors import LedgerError
from reticent.ledger import MemoryLedger, SQLLedger, verification
from reticent.ledger.entries import GENESIS, MARK, mark_text, seal
from reticent.ledger.sql import integrity
from reticent.ledger.sql.store import Store
from reticent.ledger.verification import ChainReplay, Repeats
from tests.ledger.accounts_and_requests import BOB, MEMORY, asking, opened


def filled(ledger):
    opened(ledger, epsilon=5.0)
    for number in range(4):
        asked = [b"%d.%d" % (number, place) for place in range(number)]
        receipt = ledger.charge(asking(f"k{number}", *asked or [b"x"], memory=MEMORY))
        ledger.settle(receipt, [b"yes"] * len(receipt.draw))
    ledger.charge(asking("seen", b"3.1", client=BOB, memory=MEMORY))
    return ledger


@pytest.fixture(scope="module")
def chain():
    """Rows of entries and of marks, as a database returns them."""
    entries = list(filled(MemoryLedger()).entries())
    marks = [
        (entry.sequence, position, *mark)
        for entry in entries
        for position, mark in enumerate(entry.marks)
    ]
    return [entry[:-1] for entry in entries], marks


def read(rows, marks, size):
    """Replay in blocks, as a start does."""
    replay = ChainReplay()
    for start in range(0, len(rows), size):
        block = rows[start : start + size]
        inside = [mark for mark in marks if block[0][0] <= mark[0] <= block[-1][0]]
        replay.read(block, inside)
    return replay


def changes(row):
    """Yield a row with one field changed a little, for each field."""
    for place, value in enumerate(row):
        other = [value + 1, value - 1] if isinstance(value, int) else [f"{value}0", ""]
        if isinstance(value, str):
            other += [value[:-1], None]
        if value is None:
            other = [7, "x"]
        for changed in other:
            if changed != value:
                yield (*row[:place], changed, *row[place + 1 :])


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_each_change_of_one_field_is_refused(chain, size):
    rows, marks = chain
    whole = read(rows, marks, size)
    assert (whole.sequence, whole.head) == (rows[-1][0], rows[-1][6])
    assert (whole.marks, whole.doubtful()) == (len(marks), [])
    tried = 0
    for place, row in enumerate(rows):
        for changed in changes(row):
            tried += 1
            with pytest.raises((LedgerError, TypeError)):
                read([*rows[:place], changed, *rows[place + 1 :]], marks, size)
    assert tried > 10 * len(rows)


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_each_change_of_one_mark_is_refused(chain, size):
    rows, marks = chain
    assert len({mark[0] for mark in marks}) < len(marks)  # some entries have several
    for place, mark in enumerate(marks):
        rest = [*marks[:place], *marks[place + 1 :]]
        for changed in [None, (mark[0], mark[1] + 1, *mark[2:]), *changes(mark)]:
            others = rest if changed is None else sorted([*rest, changed], key=str)
            found = read_or_refuse(rows, sorted(others, key=lambda m: m[:2]), size)
            # A mark of no entry is in no block; the database looks for such marks.
            assert found is None or found.marks < len(marks)


def read_or_refuse(rows, marks, size):
    try:
        return read(rows, marks, size)
    except (LedgerError, TypeError):
        return None


def test_rows_that_are_lost_doubled_or_exchanged_are_refused(chain):
    rows, marks = chain
    for place, row in enumerate(rows[:-1]):
        swapped = [*rows[:place], rows[place + 1], row, *rows[place + 2 :]]
        for other in (rows[:place] + rows[place + 1 :], [row, *rows], swapped):
            with pytest.raises(LedgerError):
                read(other, marks, 100)


def moved_mark(rows, marks):
    """Let the last mark of an entry hide at the end of its body."""
    sequence, _, query, account, release = marks[-1]
    hidden = f"{MARK}{query}\x1f{account}\x1f{release}"
    rows = [
        (*row[:5], row[5] + hidden, row[6]) if row[0] == sequence else row
        for row in rows
    ]
    return rows, marks[:-1]


def test_mark_moved_into_the_body_is_refused(chain):
    rows, marks = moved_mark(*chain)
    # The hash is of the same text: it alone would not tell.
    (row,) = [row for row in rows if MARK in row[5]]
    before = {each[0]: each[6] for each in rows}[row[0] - 1]
    kept = [mark[2:] for mark in marks if mark[0] == row[0]]
    assert seal(before, *row[:6], kept) == row[6]
    with pytest.raises(LedgerError, match=f"sequence={row[0]} does not match"):
        read(rows, marks, 100)


def split_otherwise(row, marks):
    """Yield an entry with its marks in every way in which its hashed text can be split.

    The fields of a database may hold any text, whatever their declared types.
    """
    sequence, *fields, sealed = row
    text = verification.sealed_text(
        "", sequence, *fields, "".join(mark_text(*mark[2:]) for mark in marks)
    )
    _, _, *parts = text.split("\x1f")
    for ends in itertools.combinations(range(1, len(parts)), 4):
        cuts = [0, *ends, len(parts)]
        kind, request, settles, charges, rest = (
            "\x1f".join(parts[one:other]) for one, other in itertools.pairwise(cuts)
        )
        if request[:1] not in ("=", "-") or (request[0] == "-" and len(request) > 1):
            continue
        request = None if request == "-" else request[1:]
        places = [place for place, letter in enumerate(rest) if letter == MARK]
        for count in range(len(places) + 1):
            for chosen in itertools.combinations(places, count):
                body, *noted = (
                    rest[one:other]
                    for one, other in itertools.pairwise([0, *chosen, len(rest)])
                )
                for found in itertools.product(*map(marks_of, noted)):
                    for about in (settles, None) if settles == "-" else (settles,):
                        whole = int(about) if str(about).isdigit() else about
                        yield (
                            (sequence, kind, request, whole, charges, body, sealed),
                            [(sequence, n, *one) for n, one in enumerate(found)],
                        )


def marks_of(text):
    """Return every split of the text of one mark into query, account and release."""
    parts = text.removeprefix(MARK).split("\x1f")
    found = []
    for one, other in itertools.combinations(range(1, len(parts)), 2):
        query, account, release = (
            "\x1f".join(parts[start:end])
            for start, end in itertools.pairwise([0, one, other, len(parts)])
        )
        found.append((query, account, int(release) if release.isdigit() else release))
    return found


@pytest.mark.parametrize("size", [1, 100])
def test_an_entry_can_be_read_in_one_way_only(chain, size):
    """The hash covers one text, and each other way to split it must be refused.

    One of them hides a charge: its price in the column that says what an answer
    settles, and its mark in the body.
    """
    rows, marks = chain
    tried, same = 0, 0
    for place, row in enumerate(rows):
        own = [mark for mark in marks if mark[0] == row[0]]
        for other, noted in split_otherwise(row, own):
            if (other, noted) == (row, own):
                same += 1
                continue
            tried += 1
            rest = [mark for mark in marks if mark[0] != row[0]]
            changed = [*rows[:place], other, *rows[place + 1 :]]
            with pytest.raises(LedgerError, match=f"sequence={row[0]} does|belong to"):
                read(changed, sorted([*rest, *noted]), size)
    assert same == len(rows)
    assert tried > 100


def test_a_charge_is_not_hidden_from_a_start(sqlite_url, tmp_path):
    """As whoever may write to the database would try."""
    kept = {"checkpoints": tmp_path / "second", "signer": b"k" * 32}
    with SQLLedger(sqlite_url, **kept) as ledger:
        filled(ledger)
    path = sqlite_url.removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(path)) as other, other:
        sequence, charges, body, query, release = other.execute(
            "SELECT e.sequence, charges, body, query, release FROM ledger_entries e "
            "JOIN ledger_marks m ON m.sequence = e.sequence GROUP BY e.sequence "
            "HAVING count(*) = 1 AND kind = 'charge' AND account = '' LIMIT 1"
        ).fetchone()
        hidden = f"-\x1f{charges}\x1f{body}{MARK}{query}"
        other.execute(
            "UPDATE ledger_entries SET settles = ?, charges = '', body = ? "
            "WHERE sequence = ?",
            (hidden, str(release), sequence),
        )
        other.execute("DELETE FROM ledger_marks WHERE sequence = ?", (sequence,))
        for name, cost in json.loads(charges).items():
            other.execute(
                "UPDATE ledger_accounts SET spent_epsilon = spent_epsilon - ?, "
                "spent_answers = spent_answers - ? WHERE name = ?",
                (cost[0], cost[3], name),
            )
    with pytest.raises(LedgerError, match=f"sequence={sequence} does not match"):
        SQLLedger(sqlite_url, **kept)


def test_two_marks_in_one_row_are_refused(sqlite_url):
    with SQLLedger(sqlite_url) as ledger:
        filled(ledger)
    path = sqlite_url.removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(path)) as other, other:
        where = "FROM ledger_marks WHERE sequence = (SELECT sequence FROM ledger_marks "
        where += "WHERE position = 1 LIMIT 1) AND position"
        of = "SELECT sequence, query, account, release"
        ((sequence, _, account, release),) = other.execute(f"{of} {where} = 0")
        ((_, query, last_account, last),) = other.execute(f"{of} {where} = 1")
        joined = f"{account}\x1f{release}{MARK}{query}\x1f{last_account}"
        other.execute(f"DELETE {where} = 1")
        other.execute(
            "UPDATE ledger_marks SET account = ?, release = ? WHERE sequence = ? "
            "AND position = 0",
            (joined, last, sequence),
        )
    with pytest.raises(LedgerError, match="stand in one row"):
        SQLLedger(sqlite_url)


def test_a_mark_between_two_entries_is_refused(sqlite_url):
    """SQLite keeps 12.5 in a column of whole numbers.

    Such a mark once made an answer free for whoever it named. Its row was made up for
    by two other marks in one row.
    """
    with SQLLedger(sqlite_url) as ledger:
        filled(ledger)
    path = sqlite_url.removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(path)) as other, other:
        found = "SELECT query FROM ledger_marks WHERE sequence = ? ORDER BY position"
        first, second = (row[0] for row in other.execute(found, (10,)))
        other.execute("DELETE FROM ledger_marks WHERE sequence = 10 AND position = 1")
        other.execute(
            "UPDATE ledger_marks SET account = ? WHERE sequence = 10",
            (f"\x1f10{MARK}{second}\x1f",),
        )
        (query, *_), *_ = other.execute(found, (12,))
        other.execute(
            "INSERT INTO ledger_marks VALUES (12.5, 0, ?, 'client:bob', 12)", (query,)
        )
        assert first != second
    with pytest.raises(LedgerError, match="belong to no entry"):
        SQLLedger(sqlite_url)


def test_marks_that_come_back_after_others_are_refused(chain):
    rows, marks = chain
    with pytest.raises(LedgerError, match="wrong place"):
        read(rows, [*marks, marks[0]], size=1000)


@pytest.mark.parametrize("column", ["request", "settles"])
def test_value_that_occurs_twice_is_doubtful_even_in_a_sound_chain(chain, column):
    rows, _ = chain
    place = {"request": 2, "settles": 3}[column]
    twice = [row for row in rows if row[place] is not None][-1]
    head, forged = GENESIS, []
    for row in [*rows, (len(rows) + 1, *twice[1:])]:
        head = seal(head, *row[:6])
        forged.append((*row[:6], head))
    assert read(forged, [], 3).doubtful() == [column]
    assert read(forged[:-1], [], 3).doubtful() == []


@pytest.mark.parametrize("most", [0, 3, 10**6])
def test_long_ledgers_ask_the_database(chain, monkeypatch, most):
    monkeypatch.setattr(verification, "_MOST_KEYS", most)
    doubtful = read(*chain, 2).doubtful()
    assert doubtful == ([] if most == 10**6 else ["request", "settles"])


def test_repeats_are_never_missed(seed):
    draw = random.Random(seed)
    for _ in range(200):
        values = [f"k{draw.randrange(100)}" for _ in range(draw.randrange(20))]
        seen = Repeats()
        for value in values:
            seen.note(hash(value))
            seen.trim()
        assert seen.possible() == (len(set(values)) < len(values))


def test_equal_hashes_of_different_values_are_looked_at(sql_url, monkeypatch):
    """Then the database compares the values, and finds nothing wrong."""
    asked = []
    real = integrity.check_keys

    def watched(connection, **found):
        asked.append(found["doubtful"])
        real(connection, **found)

    monkeypatch.setattr("reticent.ledger.sql.opening.check_keys", watched)
    with SQLLedger(sql_url) as ledger:
        filled(ledger)
        monkeypatch.setattr(Repeats, "possible", lambda _: True)
        ledger.verify()
    assert asked == [[], ["request", "settles"]]


def test_long_chains_are_read_in_blocks(sql_url, monkeypatch):
    with SQLLedger(sql_url) as ledger:
        filled(ledger)
        whole = ledger.verify()
        monkeypatch.setattr("reticent.ledger.sql.store._READING", 2)
        assert ledger.verify() == whole


def test_larger_cache_is_given_back(sqlite_url):
    with contextlib.closing(Store(sqlite_url)) as store, store.reading() as connection:
        usual = connection.exec_driver_sql("PRAGMA cache_size").scalar()
        integrity.check_file(connection)
        assert connection.exec_driver_sql("PRAGMA cache_size").scalar() == usual
