"""What a key promises is under its seal; records of older versions are taken over."""

from dataclasses import replace

import pytest
from sqlalchemy import create_engine, text

from reticent.home import Keyring, MemoryKeys, Role, SQLKeys, api_keys
from reticent.ledger import SQLLedger

# As SQLAlchemy wrote it.
OLD_TABLE = "\n".join(
    [
        "CREATE TABLE service_keys (",
        "\tid VARCHAR(16) NOT NULL, ",
        "\tclient VARCHAR(64) NOT NULL, ",
        "\trole VARCHAR(16) NOT NULL, ",
        "\tmodels VARCHAR, ",
        "\tdigest VARCHAR(64) NOT NULL, ",
        "\tcreated INTEGER NOT NULL, ",
        "\trevoked BOOLEAN NOT NULL, ",
        "\tPRIMARY KEY (id)",
        ")",
    ]
)


def test_revocation_cannot_be_edited_away():
    store = MemoryKeys()
    ring = Keyring(store, b"p" * 32)
    text, record = ring.create("ward-7")
    assert ring.revoke(record.id)
    store._records[record.id] = replace(store.find(record.id), revoked=False)
    assert ring.recognise(text) is None
    assert ring.current(record.id) is None


def test_keys_expire(monkeypatch):
    now, clock = [10**9], [0.0]
    monkeypatch.setattr(api_keys, "seconds", lambda: int(now[0]))
    monkeypatch.setattr(api_keys, "milliseconds", lambda: int(1000 * now[0]))
    ring = Keyring(MemoryKeys(), b"p" * 32, cache_seconds=60, clock=lambda: clock[0])
    text, record = ring.create("ward-7", days=2)
    assert record.as_dict()["expires"] == 10**9 + 2 * 86_400
    now[0] = record.expires - 1
    assert ring.recognise(text) == record
    clock[0] = 0.5
    assert ring.cached(text) == record
    clock[0] = 1.5  # no longer than until it expires
    assert ring.cached(text) is None
    now[0] = record.expires - 0.25  # not until the end of a second that has begun
    assert ring.recognise(text) == record
    clock[0] = 1.8
    assert ring.cached(text) is None
    now[0] = record.expires
    assert ring.recognise(text) is None
    assert ring.current(record.id) is None
    assert ring.records() == [record]
    with pytest.raises(ValueError, match="days"):
        ring.create("ward-7", days=0)


class Interrupted(MemoryKeys):
    """Something happens after a record was read, before it is used."""

    then = None

    def find(self, key_id):
        found, then, self.then = super().find(key_id), self.then, None
        if then is not None:
            then()
        return found


def test_a_key_revoked_while_its_record_is_read_is_refused_at_once():
    ring = Keyring(store := Interrupted(), b"p" * 32)
    text, record = ring.create("ward-7")
    store.then = lambda: ring.revoke(record.id)
    assert ring.recognise(text) is None
    assert ring.cached(text) is None


def test_a_record_that_was_read_slowly_is_not_trusted_for_longer():
    now = [100.0]
    ring = Keyring(store := Interrupted(), b"p" * 32, clock=lambda: now[0])
    text, record = ring.create("ward-7")

    def slow():
        Keyring(store, b"p" * 32).revoke(record.id)  # by another worker
        now[0] += 0.75

    store.then = slow
    assert ring.recognise(text) == record
    assert ring.cached(text) == record
    now[0] += 0.5  # more than a second after it was read
    assert ring.cached(text) is None


def old_keys(url, ring, *records):
    """Make the table that an older version kept its keys in."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text(OLD_TABLE))
        for record, revoked in records:
            connection.execute(
                text(
                    "INSERT INTO service_keys VALUES (:id, :client, :role, :models, "
                    ":digest, :created, :revoked)"
                ),
                {
                    "id": record.id,
                    "client": record.client,
                    "role": record.role.value,
                    "models": None,
                    "digest": record.digest,
                    "created": record.created,
                    "revoked": revoked,
                },
            )
    engine.dispose()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_keys_of_an_older_version_are_taken_over(kind, tmp_path, request):
    url = f"sqlite:///{tmp_path}/ledger.db"
    if kind == "postgres":
        url = request.getfixturevalue("postgres_url")
    ring = Keyring(MemoryKeys(), b"p" * 32)
    made = []
    for _ in range(2):
        text, record = ring.create("ward-7", Role.ADMIN)
        secret = text.split("_", 2)[2]
        plain = replace(record, digest="")
        made.append((text, replace(record, digest=ring._digest(plain, secret))))
    SQLLedger(url).close()
    old_keys(url, ring, (made[0][1], False), (made[1][1], True))
    SQLLedger(url).close()  # a ledger opens beside the old table
    store = SQLKeys(url)
    taken = Keyring(store, b"p" * 32)
    assert taken.recognise(made[0][0]).role is Role.ADMIN
    assert taken.recognise(made[1][0]) is None
    assert sorted(record.revoked for record in taken.records()) == [False, True]
    assert Keyring(store, b"p" * 32).recognise(made[0][0]) is not None
    store.close()
    SQLLedger(url).close()


def test_keys_made_after_2038_work(postgres_url, monkeypatch):
    monkeypatch.setattr(api_keys, "seconds", lambda: 2**31 + 5)
    store = SQLKeys(postgres_url)
    ring = Keyring(store, b"p" * 32)
    text, record = ring.create("ward-7", days=10_000)
    assert ring.recognise(text) == record
    assert record.created == 2**31 + 5
    store.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_id_that_no_key_can_have_is_not_found(kind, tmp_path, request):
    """PostgreSQL once refused the text, and the service answered with an error."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    if kind == "postgresql":
        url = request.getfixturevalue("postgres_url")
    SQLLedger(url).close()
    keys = SQLKeys(url)
    try:
        for key_id in ("\0", "0" * 15 + "\0", "x" * 500, ""):
            assert keys.find(key_id) is None
    finally:
        keys.close()
