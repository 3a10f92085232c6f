"""A key is looked up once for all who bring it at the same moment."""

import asyncio
import threading

import pytest

from reticent.home import Keyring, MemoryKeys, Registry
from reticent.service.requests.access import Access
from reticent.service.requests.limits import RateLimit
from reticent.service.requests.problems import ProblemError


class SlowKeys(MemoryKeys):
    """Answers when it is let go, and counts what it is asked."""

    def __init__(self):
        super().__init__()
        self.asked = []
        self.gate = threading.Event()

    def find(self, key_id):
        self.asked.append(key_id)
        self.gate.wait()
        return super().find(key_id)


@pytest.fixture
def keys():
    return SlowKeys()


@pytest.fixture
def access(keys):
    keyring = Keyring(keys, b"p" * 32)
    return Access(keyring, Registry({}, "replace-one"), RateLimit(0, 1))


def let_go_soon(keys):
    asyncio.get_running_loop().call_later(0.05, keys.gate.set)


def test_a_crowd_with_one_key_asks_once(access, keys):
    key, record = access.keyring.create("a")

    async def crowd():
        let_go_soon(keys)
        return await asyncio.gather(*(access.recognised(key) for _ in range(50)))

    assert asyncio.run(crowd()) == [record] * 50
    assert keys.asked == [record.id]
    # Nothing is left behind: the next lookup is a new one.
    assert asyncio.run(access.recognised(key)) == record
    assert len(keys.asked) == 2


def test_a_wrong_secret_does_not_share_the_lookup_of_the_right_one(access, keys):
    key, record = access.keyring.create("a")
    wrong = key[:-1] + ("A" if key[-1] != "A" else "B")

    async def both():
        let_go_soon(keys)
        return await asyncio.gather(
            access.recognised(key), access.recognised(wrong), return_exceptions=True
        )

    right, refused = asyncio.run(both())
    assert right == record
    assert isinstance(refused, ProblemError)
    assert refused.status == 401
    assert keys.asked == [record.id, record.id]


def test_one_who_goes_away_does_not_take_the_answer_along(access, keys):
    key, record = access.keyring.create("a")

    async def two():
        leaving = asyncio.ensure_future(access.recognised(key))
        staying = asyncio.ensure_future(access.recognised(key))
        await asyncio.sleep(0.01)
        leaving.cancel()
        let_go_soon(keys)
        return await staying

    assert asyncio.run(two()) == record
    assert keys.asked == [record.id]
