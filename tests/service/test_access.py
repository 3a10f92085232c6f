"""A key is looked up once for all who bring it at the same moment."""

import asyncio
import threading
from dataclasses import replace

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


def test_a_key_in_use_is_read_again_while_its_record_still_holds(keys):
    now = [0.0]
    keyring = Keyring(keys, b"p" * 32, clock=lambda: now[0])
    access = Access(keyring, Registry({}, "replace-one"), RateLimit(0, 1))
    key, record = keyring.create("a")
    headers = [(b"x-api-key", key.encode())]

    async def looked_up():
        while access._looking:
            await asyncio.sleep(0.001)

    async def in_use():
        keys.gate.set()
        await access.recognised(key)
        now[0] = 0.4
        assert access.seen(headers) == record
        assert len(keys.asked) == 1  # young enough
        now[0] = 0.6
        assert [access.seen(headers) for _ in range(20)] == [record] * 20
        await looked_up()
        assert len(keys.asked) == 2  # once for all of them, and nobody waited
        now[0] = 1.4  # beyond the first reading, within the second
        assert access.seen(headers) == record
        await looked_up()
        keyring.store.replace(keyring._sealed(replace(record, revoked=True)))
        now[0] = 2.0
        access.seen(headers)
        await looked_up()
        assert access.seen(headers) is None  # revoked: noticed before its time is over
        now[0] = 9.0
        assert access.seen(headers) is None

    asyncio.run(in_use())


def test_a_record_is_not_trusted_longer_if_it_cannot_be_read_again(keys, monkeypatch):
    now = [0.0]
    keyring = Keyring(keys, b"p" * 32, clock=lambda: now[0])
    access = Access(keyring, Registry({}, "replace-one"), RateLimit(0, 1))
    key, record = keyring.create("a")
    headers = [(b"x-api-key", key.encode())]

    def away(key_id):
        raise OSError("the store is away")

    async def in_use():
        keys.gate.set()
        await access.recognised(key)
        monkeypatch.setattr(keys, "find", away)
        now[0] = 0.9
        assert access.seen(headers) == record
        while access._looking:
            await asyncio.sleep(0.001)
        assert access.seen(headers) == record
        now[0] = 1.1
        assert access.seen(headers) is None

    asyncio.run(in_use())


class LateKeys(SlowKeys):
    """Reads at once, and answers when it is let go."""

    def find(self, key_id):
        found = MemoryKeys.find(self, key_id)
        super().find(key_id)
        return found


def test_who_comes_later_does_not_share_a_lookup_that_is_too_old():
    now, keys = [0.0], LateKeys()
    keyring = Keyring(keys, b"p" * 32, clock=lambda: now[0])
    access = Access(keyring, Registry({}, "replace-one"), RateLimit(0, 1))
    key, record = keyring.create("a")

    async def three():
        first = asyncio.ensure_future(access.recognised(key))
        while not keys.asked:
            await asyncio.sleep(0.001)
        soon = asyncio.ensure_future(access.recognised(key))
        await asyncio.sleep(0)
        keys.replace(
            keyring._sealed(replace(record, revoked=True))
        )  # by another worker
        now[0] = 2.0
        late = asyncio.ensure_future(access.recognised(key))
        await asyncio.sleep(0)
        keys.gate.set()
        return await asyncio.gather(first, soon, late, return_exceptions=True)

    first, _, late = asyncio.run(three())
    assert first == record  # its reading began after it came
    assert isinstance(late, ProblemError)
    assert late.status == 401
