"""Replicas that start together on an empty database do not get in each other's way."""

import threading

import pytest

from reticent.home import Keyring, SQLKeys
from reticent.ledger import SQLLedger

REPLICAS = 16


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_replicas_start_together_on_an_empty_database(kind, tmp_path, request):
    url = f"sqlite:///{tmp_path}/ledger.db"
    if kind == "postgres":
        url = request.getfixturevalue("postgres_url")
    barrier, problems, names = threading.Barrier(REPLICAS), [], set()

    def start():
        barrier.wait()
        try:
            with SQLLedger(url) as ledger:
                names.add(ledger.verify().ledger)
            store = SQLKeys(url)
            try:
                Keyring(store, b"p" * 32).create("ward-7")
            finally:
                store.close()
        except BaseException as error:  # noqa: BLE001 - reported below
            problems.append(error)

    replicas = [threading.Thread(target=start) for _ in range(REPLICAS)]
    for replica in replicas:
        replica.start()
    for replica in replicas:
        replica.join()
    assert problems == []
    assert len(names) == 1
    store = SQLKeys(url)
    assert len(Keyring(store, b"p" * 32).records()) == REPLICAS
    store.close()
