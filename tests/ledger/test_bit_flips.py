"""A flipped bit in the ledger's file: the start is refused, or all is as it was."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

import pytest

from reticent.errors import BudgetExhaustedError, LedgerError
from reticent.ledger import Outcome, SQLLedger
from tests.ledger.accounts_and_requests import (
    ALICE,
    BOB,
    DATASET,
    MEMORY,
    TENTH,
    asking,
    opened,
)

ASKED, LEFT = 30, 2


KEY = b"k" * 32
LOG = "ledger.db-wal"


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The bytes of a ledger with a few answers left, and its accounts."""
    files, balances = written(tmp_path_factory.mktemp("book"))
    return files["closed"], balances


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    """The files of the same ledger while it is open, with its second place."""
    files, balances = written(
        tmp_path_factory.mktemp("crashed"), checkpoints="checkpoint", signer=KEY
    )
    del files["closed"]
    return files, balances


def written(folder, **settings):
    path = folder / "ledger.db"
    if settings:
        settings["checkpoints"] = folder / settings["checkpoints"]
    with SQLLedger(f"sqlite:///{path}", **settings) as ledger:
        opened(ledger, epsilon=20.0, adult=(ASKED + LEFT) * 0.1)
        for number in range(ASKED):
            query = b"q%d" % number
            receipt = ledger.charge(asking(f"k{number}", query, memory=MEMORY))
            ledger.settle(receipt, [b"answer %d" % number])
        ledger.charge(asking("seen", b"q1", client=BOB, memory=MEMORY))
        balances = ledger.balances()
        # What a killed process leaves; the index of the log is made again.
        kept = [each for each in folder.iterdir() if each.suffix != ".db-shm"]
        files = {each.name: each.read_bytes() for each in kept}
    return {**files, "closed": path.read_bytes()}, balances


def behaves(url, balances, **settings):
    """Fail unless the ledger knows everything and keeps to its cap."""
    with SQLLedger(url, **settings) as ledger:
        assert ledger.balances() == balances
        for number in (0, 7, ASKED - 1):
            query, answer = b"q%d" % number, b"answer %d" % number
            again = ledger.charge(asking(f"k{number}", query, memory=MEMORY))
            assert (again.outcome, again.answers) == (Outcome.ANSWERED, (answer,))
            new = asking(f"n{number}", query, memory=MEMORY, record=False)
            free = ledger.charge(new)
            assert (free.accounts, free.answers) == ({}, (answer,))
        answered = 0
        try:
            while True:
                receipt = ledger.charge(asking(f"more{answered}"))
                assert ledger.settle(receipt, [b"more"]).answers == (b"more",)
                answered += 1
        except BudgetExhaustedError:
            assert answered == LEFT
        assert ledger.balance(DATASET).answers_left(TENTH) == 0
        assert ledger.balance(ALICE).spent.answers == ASKED + LEFT
        ledger.verify()
    SQLLedger(url, **settings).close()


@pytest.fixture
def folder():
    """A folder in memory where there is one: no sync has to wait for a disk."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


def flip(book: tuple[bytes, list[object]], folder: Path, flips: int, seed: int) -> int:
    """Flip random bits, one at a time; return how many starts were refused."""
    content, balances = book
    draw, refused = random.Random(seed), 0
    path = folder / "ledger.db"
    for _ in range(flips):
        bit = draw.randrange(8 * len(content))
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        for left in folder.iterdir():
            left.unlink()
        path.touch(0o600)
        path.write_bytes(changed)
        try:
            behaves(f"sqlite:///{path}", balances)
        except LedgerError:
            refused += 1
        except BaseException as error:
            raise AssertionError(f"bit {bit} of the file") from error
    return refused


def change_log(crashed, folder: Path, changes: int, seed: int) -> int:
    """Flip a bit of the log, or cut it off; return how many starts were refused."""
    files, balances = crashed
    draw, refused = random.Random(seed), 0
    settings = {"checkpoints": folder / "checkpoint", "signer": KEY}
    for number in range(changes):
        changed, place = bytearray(files[LOG]), draw.randrange(len(files[LOG]))
        if number % 4:
            changed[place] ^= 1 << draw.randrange(8)
        else:
            del changed[place:]
        for left in folder.iterdir():
            left.unlink()
        for name, content in {**files, LOG: changed}.items():
            (folder / name).touch(0o600)
            (folder / name).write_bytes(content)
        try:
            behaves(f"sqlite:///{folder}/ledger.db", balances, **settings)
        except LedgerError:
            refused += 1
        except BaseException as error:
            raise AssertionError(f"byte {place} of the log") from error
    return refused


def test_changed_log_is_refused_or_harmless(crashed, folder, seed):
    """SQLite drops what follows a damaged part of its log; the second place tells."""
    files, balances = crashed
    assert len(files[LOG]) > 50_000
    for name, content in files.items():
        (folder / name).touch(0o600)
        (folder / name).write_bytes(content)
    settings = {"checkpoints": folder / "checkpoint", "signer": KEY}
    behaves(f"sqlite:///{folder}/ledger.db", balances, **settings)
    assert change_log(crashed, folder, 60, seed) > 20


@pytest.mark.long
def test_much_changed_logs_are_refused_or_harmless(crashed, folder, seed):
    assert change_log(crashed, folder, 1_000, 1_000 + seed) > 300


def test_unchanged_file_behaves(book, tmp_path):
    content, balances = book
    path = tmp_path / "ledger.db"
    path.touch(0o600)
    path.write_bytes(content)
    behaves(f"sqlite:///{path}", balances)


def test_flipped_bits_are_refused_or_harmless(book, folder, seed):
    assert flip(book, folder, 100, seed) > 20


@pytest.mark.long
def test_many_flipped_bits_are_refused_or_harmless(book, folder, seed):
    assert flip(book, folder, 2_000, 1_000 + seed) > 400
