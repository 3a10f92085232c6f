"""Signed checkpoints, and what a start makes of them."""

from __future__ import annotations

import asyncio
import json
import shutil
import stat
import sys
from pathlib import Path

import psycopg
import pytest

from reticent.errors import BudgetExhaustedError, InvalidParameterError, LedgerError
from reticent.ledger import (
    Cap,
    Checkpoint,
    FileCheckpoints,
    Outcome,
    SQLLedger,
    checkpoint_file,
)
from reticent.signing import Ed25519Signer, HMACSigner
from tests.ledger.accounts_and_requests import (
    ALICE,
    DATASET,
    MODEL,
    asking,
    nano,
    opened,
)

KEY = b"k" * 32
UNIT = 10**8


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder / "checkpoint.json"


@pytest.fixture
def settings(place):
    return {"checkpoints": place, "signer": KEY}


def read(place, signer=None):
    return Checkpoint.from_bytes(place.read_bytes(), signer or HMACSigner(KEY))


class Copies:
    """Take and put back copies of a whole database."""

    def __init__(self, url, postgres_server=None):
        self.url, self._server = url, postgres_server
        self._copies = 0

    def take(self):
        """Copy the (closed) database; return the copy's address."""
        self._copies += 1
        if self._server is None:
            path = Path(self.url.removeprefix("sqlite:///"))
            copy = path.with_name(f"copy{self._copies}.db")
            shutil.copy(path, copy)
            copy.chmod(0o600)
            return f"sqlite:///{copy}"
        name = self.url.partition("@/")[2].partition("?")[0]
        copy = f"{name}_{self._copies}"
        with psycopg.connect(self._server.url("postgres"), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {copy} TEMPLATE {name}")
        return self._server.url(copy)


@pytest.fixture(params=["sqlite", "postgres"])
def copies(request):
    if request.param == "sqlite":
        return Copies(request.getfixturevalue("sqlite_url"))
    server = request.getfixturevalue("postgres_server")
    return Copies(request.getfixturevalue("postgres_database"), server)


@pytest.mark.parametrize("make", [HMACSigner, Ed25519Signer])
def test_signers_know_their_own(make):
    signer, other = make(b"a" * 32), make(b"b" * 32)
    signature = signer.sign(b"message")
    assert signer.verify(b"message", signature)
    assert not signer.verify(b"messagf", signature)
    assert not signer.verify(b"message", signature[:-1] + b"\x00")
    assert not other.verify(b"message", signature)


def test_ed25519_gives_its_public_key():
    assert len(Ed25519Signer(b"a" * 32).public_key) == 32


@pytest.mark.parametrize("make", [HMACSigner, Ed25519Signer])
@pytest.mark.parametrize("key", [b"", b"short", "k" * 32, None])
def test_keys_have_a_length(make, key):
    with pytest.raises(InvalidParameterError, match="32"):
        make(key)


def test_ed25519_without_cryptography_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(LedgerError, match=r"reticent\[serve\]"):
        Ed25519Signer(b"a" * 32)


@pytest.mark.parametrize("make", [HMACSigner, Ed25519Signer])
def test_checkpoint_follows_every_commit(sql_url, open_ledger, place, make):
    signer = make(b"a" * 32)
    ledger = opened(open_ledger(sql_url, checkpoints=place, signer=signer))
    receipt = ledger.charge(asking("k"))
    signed = read(place, signer)
    reached = signed.reached
    assert (reached.sequence, reached.head) == (receipt.sequence, receipt.entry_hash)
    assert (signed.ledger, signed.epoch) == (ledger.verify().ledger, 0)
    ledger.settle(receipt, [b"yes"])
    assert read(place, signer).reached.sequence == receipt.sequence + 1


def test_heads_follow_a_checkpoint_until_there_are_many(
    sqlite_url, open_ledger, settings, place, monkeypatch
):
    monkeypatch.setattr(checkpoint_file, "_MOST_HEADS", 3000)
    ledger = opened(open_ledger(sqlite_url, **settings), epsilon=100.0)
    lines = []
    for number in range(20):
        receipt = ledger.charge(asking(f"k{number}"))
        assert read(place).reached.sequence == receipt.sequence
        lines.append(place.read_bytes().count(b"\n"))
    # Heads, then a whole checkpoint again, with what was spent by then.
    assert max(lines) > 5
    assert min(lines[5:]) == 1
    spent = read(place).accounts[str(DATASET)].spent.answers
    assert 5 < spent <= 20
    ledger.close()
    for start in ("full", "tail"):
        open_ledger(sqlite_url, **settings, start=start).close()


def test_a_head_is_as_good_as_a_checkpoint(copies, settings, place, open_ledger):
    ledger = opened(open_ledger(copies.url, **settings))
    ledger.charge(asking("k1"))
    ledger.close()
    old = copies.take()
    ledger = open_ledger(copies.url, **settings)
    for number in range(5):
        ledger.charge(asking(f"more{number}"))
    assert read(place).latest is not None
    ledger.close()
    for start in ("full", "tail"):
        with pytest.raises(LedgerError, match="behind its checkpoint"):
            SQLLedger(old, **settings, start=start)


def test_a_changed_cap_is_in_a_whole_checkpoint(
    sqlite_url, open_ledger, settings, place
):
    ledger = opened(open_ledger(sqlite_url, **settings))
    ledger.charge(asking("k"))
    ledger.set_cap(ALICE, Cap.basic(epsilon=77.0))
    found = read(place)
    assert found.latest is None
    assert found.accounts[str(ALICE)].cap == Cap.basic(epsilon=77.0)


def test_a_head_that_was_being_written_counts_for_nothing(
    sqlite_url, open_ledger, settings, place
):
    ledger = opened(open_ledger(sqlite_url, **settings))
    for number in range(3):
        ledger.charge(asking(f"k{number}"))
    ledger.close()
    whole = place.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    for cut in (1, len(last) // 2, len(last) - 1):
        place.write_bytes(whole[:-cut])
        assert read(place).reached.sequence == read_bytes(whole).reached.sequence - 1
        ledger = open_ledger(sqlite_url, **settings)
        ledger.charge(asking(f"after{cut}"))
        ledger.close()
        assert read(place).reached.sequence == ledger_length(sqlite_url)
        whole = place.read_bytes()
        last = whole.splitlines(keepends=True)[-1]


@pytest.mark.parametrize("which", [0, -1])
def test_a_changed_line_is_refused(sqlite_url, open_ledger, settings, place, which):
    ledger = opened(open_ledger(sqlite_url, **settings))
    for number in range(3):
        ledger.charge(asking(f"k{number}"))
    ledger.close()
    lines = place.read_bytes().splitlines(keepends=True)
    assert len(lines) > 1
    for place_of_bit in range(0, len(lines[which]) - 1, 7):
        changed = bytearray(lines[which])
        changed[place_of_bit] ^= 1
        broken = list(lines)
        broken[which] = bytes(changed)
        place.write_bytes(b"".join(broken))
        with pytest.raises(LedgerError, match=r"damaged|not what the checkpoint"):
            SQLLedger(sqlite_url, **settings)


def read_bytes(data):
    return Checkpoint.from_bytes(data, HMACSigner(KEY))


def ledger_length(url):
    with SQLLedger(url) as ledger:
        return ledger.verify().entries


def test_no_checkpoint_is_signed_before_answers_are_drawn(
    sqlite_url, open_ledger, settings, place
):
    """Nobody has seen anything then; the commit that stores the answers is signed."""
    ledger = opened(open_ledger(sqlite_url, **settings))
    before = read(place).reached.sequence
    seen = []

    def draw(asked):
        seen.append(read(place).reached.sequence)
        return [[b"yes"] for _ in asked]

    receipt = asyncio.run(ledger.aanswer(asking("k"), draw, None))
    assert seen == [before]
    assert read(place).reached.sequence == receipt.sequence + 1


def test_checkpoint_may_be_rarer(sql_url, open_ledger, settings, place):
    ledger = opened(open_ledger(sql_url, **settings, checkpoint_every=10))
    seen = set()
    for number in range(8):
        ledger.charge(asking(f"k{number}"))
        seen.add(read(place).reached.sequence)
    assert seen == {1, 11}


def test_checkpoint_is_for_its_owner_s_eyes(sqlite_url, open_ledger, settings, place):
    opened(open_ledger(sqlite_url, **settings))
    for path in place.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_older_copy_is_refused(copies, settings, open_ledger):
    ledger = opened(open_ledger(copies.url, **settings))
    ledger.charge(asking("k1"))
    ledger.close()
    old = copies.take()
    ledger = open_ledger(copies.url, **settings)
    ledger.charge(asking("k2"))
    ledger.close()
    for start in ("full", "tail"):
        with pytest.raises(LedgerError, match="behind its checkpoint"):
            SQLLedger(old, **settings, start=start)
    open_ledger(copies.url, **settings)  # the newest copy is still good


def test_diverged_copy_is_refused(copies, settings, open_ledger):
    opened(open_ledger(copies.url, **settings)).close()
    old = copies.take()
    ledger = open_ledger(copies.url, **settings)
    ledger.charge(asking("k1"))
    ledger.close()
    with SQLLedger(old) as other:  # used without its checkpoint, and further
        other.charge(asking("k2"))
        other.charge(asking("k3"))
    for start in ("full", "tail"):
        with pytest.raises(LedgerError, match="not what the checkpoint signed"):
            SQLLedger(old, **settings, start=start)


def test_other_ledger_is_refused(tmp_path, settings, open_ledger):
    opened(open_ledger(f"sqlite:///{tmp_path / 'a.db'}", **settings))
    with pytest.raises(LedgerError, match="the checkpoint is of ledger"):
        SQLLedger(f"sqlite:///{tmp_path / 'b.db'}", **settings)


def test_lost_checkpoint_is_refused_unless_there_never_was_one(
    sql_url, settings, place, open_ledger
):
    opened(open_ledger(sql_url)).close()
    with pytest.raises(LedgerError, match="checkpoint is missing"):
        SQLLedger(sql_url, **settings)
    assert not place.exists()
    open_ledger(sql_url, **settings, first_checkpoint=True).close()
    assert read(place).sequence == 5
    place.unlink()
    with pytest.raises(LedgerError, match="checkpoint is missing"):
        SQLLedger(sql_url, **settings)


def test_checkpoint_that_appears_during_the_start_counts(
    sqlite_url, settings, place, open_ledger
):
    # Two processes start on a fresh ledger; the other was faster.
    opened(open_ledger(sqlite_url, **settings)).close()

    class Late(FileCheckpoints):
        reads = 0

        def read(self):
            self.reads += 1
            return None if self.reads == 1 else super().read()

    ledger = open_ledger(sqlite_url, checkpoints=Late(place), signer=KEY)
    assert ledger.charge(asking("k")).outcome is Outcome.DRAW


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-10],
        lambda data: b"",
        lambda data: b"[]",
        lambda data: b"{}",
        lambda data: data.replace(b'\\"sequence\\":5', b'\\"sequence\\":1'),
        lambda data: data.replace(b"hmac-sha256", b"ed25519"),
        lambda data: data.replace(b'"signature":"', b'"signature":"zz'),
    ],
)
def test_damaged_checkpoint_is_refused(
    sqlite_url, settings, place, open_ledger, damage
):
    opened(open_ledger(sqlite_url, **settings)).close()
    data = place.read_bytes()
    assert damage(data) != data
    place.write_bytes(damage(data))
    with pytest.raises(LedgerError, match="damaged or signed with another key"):
        SQLLedger(sqlite_url, **settings)


def test_checkpoint_of_another_key_is_refused(sqlite_url, place, open_ledger):
    opened(open_ledger(sqlite_url, checkpoints=place, signer=KEY)).close()
    with pytest.raises(LedgerError, match="another key"):
        SQLLedger(sqlite_url, checkpoints=place, signer=b"x" * 32)


def test_place_and_key_go_together(sqlite_url, place):
    for half in ({"checkpoints": place}, {"signer": KEY}):
        with pytest.raises(InvalidParameterError, match="go together"):
            SQLLedger(sqlite_url, **half)


def test_tail_start_reads_what_the_checkpoint_does_not_vouch_for(
    sql_url, settings, open_ledger
):
    ledger = opened(open_ledger(sql_url, **settings))
    ledger.charge(asking("k1"))
    ledger.close()
    ledger = open_ledger(sql_url)  # entries after the checkpoint
    ledger.charge(asking("k2"))
    ledger.close()
    ledger = open_ledger(sql_url, **settings, start="tail")
    assert nano(ledger, DATASET) == 2 * UNIT
    assert ledger.verify().charges == 2


def test_tail_start_without_checkpoints_is_a_full_one(sqlite_url, open_ledger):
    opened(open_ledger(sqlite_url)).close()
    open_ledger(sqlite_url, start="tail")


def test_late_writer_does_not_turn_a_checkpoint_back(place):
    file, signer = FileCheckpoints(place), HMACSigner(KEY)

    def write(epoch, sequence, *, force=False):
        checkpoint = Checkpoint("l", epoch, sequence, "h", {})
        data = checkpoint.to_bytes(signer)
        file.write(data, progress=checkpoint.progress, force=force)
        return read(place).progress

    assert file.read() is None
    assert write(0, 5) == (0, 5)
    assert write(0, 4) == (0, 5)
    assert write(0, 6) == (0, 6)
    assert write(1, 2) == (1, 2)
    assert write(0, 9) == (1, 2)
    assert write(0, 9, force=True) == (0, 9)
    place.write_bytes(b"garbage")
    assert write(0, 1) == (0, 1)


def test_folder_that_is_not_there_is_named(sqlite_url, tmp_path):
    place = tmp_path / "nowhere" / "checkpoint.json"
    with pytest.raises(LedgerError, match="Make its folder"):
        SQLLedger(sqlite_url, checkpoints=place, signer=KEY)


def test_unreadable_checkpoint_is_no_missing_checkpoint(tmp_path):
    with pytest.raises(LedgerError, match="not a plain file"):
        FileCheckpoints(tmp_path).read()  # a folder


def test_checkpoint_that_cannot_be_stored_stops_the_ledger(
    sqlite_url, settings, place, open_ledger
):
    told = []
    ledger = opened(open_ledger(sqlite_url, **settings, on_fatal=told.append))
    receipt = ledger.charge(asking("k"))
    shutil.rmtree(place.parent)
    with pytest.raises(LedgerError, match="FileNotFoundError"):
        ledger.settle(receipt, [b"yes"])
    with pytest.raises(LedgerError, match="answers nothing more"):
        ledger.charge(asking("k2"))
    assert [type(error) for error in told] == [FileNotFoundError]


def test_writing_off_spends_everything(copies, settings, place, open_ledger):
    ledger = opened(open_ledger(copies.url, **settings))
    ledger.charge(asking("k1"))
    ledger.close()
    old = copies.take()
    ledger = open_ledger(copies.url, **settings)
    ledger.charge(asking("k2"))
    ledger.close()

    done = SQLLedger.write_off(old, reason="disk lost", **settings)
    assert done.epoch == 1
    assert read(place).epoch == 1
    ledger = open_ledger(old, **settings)
    assert [balance.remaining.epsilon for balance in ledger.balances()] == [0] * 4
    with pytest.raises(BudgetExhaustedError):
        ledger.charge(asking("k3"))
    assert ledger.charge(asking("k1")).outcome is Outcome.SPENT
    (entry,) = [entry for entry in ledger.entries() if entry.kind == "write-off"]
    assert entry.content()["reason"] == "disk lost"
    # A later decision, on record: some budget is granted again.
    for account in (DATASET, MODEL, ALICE):
        ledger.set_cap(account, Cap.basic(epsilon=1.1))
    assert ledger.charge(asking("k3")).outcome is Outcome.DRAW
    ledger.close()
    # The copy that was thought lost is now behind, although it is longer.
    with pytest.raises(LedgerError, match="behind its checkpoint"):
        SQLLedger(copies.url, **settings)
    open_ledger(old, **settings, start="tail").verify()


def test_writing_off_a_lost_database_remembers_its_accounts(
    tmp_path, settings, open_ledger
):
    opened(open_ledger(f"sqlite:///{tmp_path / 'a.db'}", **settings)).close()
    fresh = f"sqlite:///{tmp_path / 'b.db'}"
    SQLLedger.write_off(fresh, reason="all gone", **settings)
    ledger = open_ledger(fresh, **settings)
    assert ledger.balance(ALICE).remaining.epsilon == 0
    with pytest.raises(BudgetExhaustedError):
        ledger.charge(asking("k"))


def test_writing_off_twice_counts_up(sqlite_url, settings, place, open_ledger):
    opened(open_ledger(sqlite_url, **settings)).close()
    place.write_bytes(b"damaged")
    assert SQLLedger.write_off(sqlite_url, reason="1", **settings).epoch == 1
    assert SQLLedger.write_off(sqlite_url, reason="2", **settings).epoch == 2
    open_ledger(sqlite_url, **settings)


def test_writing_off_an_empty_ledger_without_checkpoints(sqlite_url, open_ledger):
    assert SQLLedger.write_off(sqlite_url, reason="to be sure").epoch == 1
    assert open_ledger(sqlite_url).verify().epoch == 1


def test_crash_between_writing_off_and_its_checkpoint_is_survived(
    sqlite_url, settings, place, open_ledger
):
    opened(open_ledger(sqlite_url, **settings)).close()
    before = place.read_bytes()
    SQLLedger.write_off(sqlite_url, reason="crash", **settings)
    place.write_bytes(before)
    open_ledger(sqlite_url, **settings)
    assert read(place).epoch == 1


def test_checkpoint_is_json_for_people(sqlite_url, settings, place, open_ledger):
    opened(open_ledger(sqlite_url, **settings))
    content = json.loads(json.loads(place.read_text())["checkpoint"])
    assert content["sequence"] == 5
