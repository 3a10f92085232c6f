"""Overload sheds before any charge; rates hold; many keys are one budget."""

import asyncio
import time

import pytest

from reticent.ledger import MemoryLedger, SQLLedger
from reticent.service.requests.limits import Gate, RateLimit
from reticent.service.requests.problems import ProblemError
from tests.service.clinic import ROW, clinic, settings_for


def request(running, age, key=None):
    return {
        "method": "POST",
        "url": "/v1/models/triage/predict",
        "json": {"rows": [{**ROW, "age": age}]},
        "headers": {"x-api-key": key or running.analyst},
    }


class SlowLedger(MemoryLedger):
    """Takes its time over every charge, and longer while it is told to wait."""

    waits = staticmethod(lambda: False)

    async def aanswer(self, request, draw, about):
        await asyncio.sleep(0.2)
        while self.waits():
            await asyncio.sleep(0.01)
        return await super().aanswer(request, draw, about)


def test_overload_is_refused_with_503_and_charges_nothing(tmp_path):
    settings = settings_for(tmp_path, max_in_flight=5)  # four of them for one client
    ledger = SlowLedger()
    with clinic(settings, ledger=ledger) as running:
        running.predict()  # the key is known from now on
        shed = running.service.metrics.shed.labels("overloaded")._value
        # Nobody inside is done before the last of the others has come.
        ledger.waits = lambda: shed.get() < 26
        answers = running.http.together([request(running, age) for age in range(30)])
        codes = [answer.status_code for answer in answers]
        assert set(codes) == {200, 503}
        assert codes.count(200) == 4
        for answer in answers:
            if answer.status_code == 503:
                assert answer.json()["error"]["code"] == "overloaded"
                assert answer.headers["retry-after"] == "1"
        balance = running.get("/v1/budget").json()["accounts"]
        assert {a["answers"] for a in balance} == {5}  # every answer has its charge
        assert shed.get() == 26
        assert running.service.gate.inside == 0


def test_probes_are_answered_under_overload(tmp_path):
    settings = settings_for(tmp_path, max_in_flight=1)
    with clinic(settings, ledger=SlowLedger()) as running:
        running.predict()
        requests = [request(running, 1), {"method": "GET", "url": "/v2/health/live"}]
        busy, live = running.http.together(requests)
        assert busy.is_success
        assert live.is_success


def test_rates_are_limited_per_client_and_refusals_cost_nothing(tmp_path):
    settings = settings_for(tmp_path, rate=0.001, burst=3)
    with clinic(settings) as running:
        other = running.key("ward-8")
        codes = [running.predict().status_code for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]
        refused = running.predict()
        assert refused.json()["error"]["code"] == "rate_limited"
        assert int(refused.headers["retry-after"]) >= 1
        assert running.predict(key=other).is_success
        balances = running.service.ledger.balances()
        spent = [balance.spent.answers for balance in balances]
        assert max(spent) == 2  # the dataset's: one for each client


def test_buckets_fill_again():
    now = [0.0]
    limit = RateLimit(2.0, 2, clock=lambda: now[0])
    limit.take("a")
    limit.take("a")
    with pytest.raises(ProblemError):
        limit.take("a")
    limit.take("b")
    now[0] = 0.5
    limit.take("a")
    with pytest.raises(ProblemError):
        limit.take("a")
    RateLimit(0, 1).take("a")


def test_buckets_that_are_full_again_are_forgotten(monkeypatch):
    monkeypatch.setattr("reticent.service.requests.limits._MOST_BUCKETS", 10)
    now = [0.0]
    limit = RateLimit(1.0, 1, clock=lambda: now[0])
    for place in range(1000):
        now[0] += 2.0
        limit.take(f"client-{place}")
    assert len(limit._buckets) <= 10


def test_a_closing_gate_lets_nobody_in():
    gate = Gate(2)
    gate.enter("a")
    gate.closing = True
    for enter in (lambda: gate.enter("a"), gate.enter_stranger):
        with pytest.raises(ProblemError) as refusal:
            enter()
    assert refusal.value.code == "shutting_down"


def test_one_client_leaves_slots_for_others_and_strangers_take_none():
    gate = Gate(8)
    for _ in range(6):
        gate.enter("greedy")
    with pytest.raises(ProblemError):
        gate.enter("greedy")
    for _ in range(4):
        gate.enter_stranger()
    with pytest.raises(ProblemError):
        gate.enter_stranger()
    gate.enter("other")
    assert not gate.full
    gate.enter("third")
    assert gate.full
    with pytest.raises(ProblemError):
        gate.enter("fourth")
    for client in (*6 * ["greedy"], "other", "third"):
        gate.leave(client)
    assert gate.inside == 0
    assert gate._clients == {}
    Gate(1).enter("a")


def test_guessing_keys_is_limited_and_keys_in_use_are_not_affected(tmp_path):
    with clinic(settings_for(tmp_path)) as running:
        assert running.predict().is_success
        # Time stands still: a slow machine gets no more guesses than a fast one.
        now = time.monotonic()
        running.service.access._lookups._clock = lambda: now
        guesses = [f"rk_{place:016x}_" + "A" * 43 for place in range(300)]
        codes = [running.get("/v1/models", guess).status_code for guess in guesses]
        assert set(codes) == {401, 429}
        assert running.predict().is_success


def test_keys_in_use_are_read_again_while_others_guess(tmp_path):
    """Guesses once took all look-ups: 23 of 60 requests with a good key got 429."""
    with clinic(settings_for(tmp_path, key_cache_seconds=0)) as running:
        assert running.predict().is_success
        now = time.monotonic()
        running.service.access._lookups._clock = lambda: now
        codes = []
        for place in range(300):
            guess = f"rk_{place:016x}_" + "A" * 43
            codes.append(running.get("/v1/models", guess).status_code)
            # The record is not in the cache: each of these reads the store.
            assert running.predict().is_success
        assert codes.count(429) >= 99


def test_a_key_that_was_refused_is_not_looked_up_again_at_once(tmp_path):
    with clinic(settings_for(tmp_path)) as running:
        asked = []
        find = running.service.keyring.store.find
        running.service.keyring.store.find = lambda name: (
            asked.append(name) or find(name)
        )
        guess = "rk_" + "0" * 16 + "_" + "A" * 43
        running.service.access._refused._clock = lambda: 0.0
        codes = {running.get("/v1/models", guess).status_code for _ in range(300)}
        assert codes == {401}
        assert len(asked) == 1


def test_a_key_that_is_revoked_elsewhere_is_in_use_no_more(tmp_path):
    with clinic(settings_for(tmp_path, key_cache_seconds=0)) as running:
        key = running.key("ward-9")
        assert running.predict(key=key).is_success
        elsewhere = running.service.settings.keyring(running.service.keyring.store)
        assert elsewhere.revoke(key.split("_")[1])
        assert running.predict(key=key).status_code == 401


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_thousand_keys_do_not_multiply_the_budget(tmp_path, kind):
    """Row 17: at most floor(B / eps) fresh draws, whoever asks."""
    n_keys, cap = (1000, 12) if kind == "memory" else (64, 12)
    settings = settings_for(
        tmp_path, datasets={"clinic": {"epsilon": cap * 0.5}}, max_in_flight=5000
    )
    ledger = SQLLedger(settings.ledger) if kind == "sqlite" else None
    with clinic(settings, ledger=ledger) as running:
        keys = [running.key(f"sybil-{place}") for place in range(n_keys)]
        running.service.access._lookups._rate = 0
        requests = [request(running, place / 11, key) for place, key in enumerate(keys)]
        answers = running.http.together(requests)
        codes = [answer.status_code for answer in answers]
        assert codes.count(200) == cap
        assert codes.count(403) == n_keys - cap
        balances = {str(b.account): b for b in running.service.ledger.balances()}
        assert balances["dataset:clinic"].spent.answers == cap
        running.service.ledger.verify()


def test_a_request_that_is_given_up_leaves_no_trace_but_its_charge(tmp_path):
    with clinic(settings_for(tmp_path), ledger=SlowLedger()) as running:
        import httpx

        async def impatient():
            try:
                await asyncio.wait_for(
                    running.http._client.request(**request(running, 5)), 0.05
                )
            except (TimeoutError, httpx.HTTPError):
                return True
            return False

        running.predict()
        assert running.http.run(impatient())
        assert running.predict({**ROW, "age": 6}).is_success
        assert running.service.gate.inside == 0
