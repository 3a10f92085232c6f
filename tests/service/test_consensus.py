"""Consensus answers: one price a session, paid before the first answer."""

import numpy as np
import pytest

from reticent.ledger import SQLLedger
from tests.service.clinic import ROW, clinic, settings_for, store

# Noise takes a tie for agreement with a chance of delta / queries.
PRICE = {"epsilon": 8.0, "delta": 1e-12}
SESSION = {**PRICE, "queries": 6, "unstable": 1}


@pytest.fixture
def settings(tmp_path):
    path = store(tmp_path, "many")
    return settings_for(
        tmp_path,
        models={"triage": {"path": path, "consensus": SESSION}},
        datasets={"clinic": {"epsilon": 20.0, "delta": 1e-3, "method": "basic"}},
        client_budget={"epsilon": 20.0, "delta": 1e-3, "method": "basic"},
    )


def balances(running):
    return {str(b.account): b.as_dict() for b in running.service.ledger.balances()}


CLEAR = {**ROW, "age": 100, "smokes": True}


def voting(running, monkeypatch, *votes):
    """Let the shards vote so, whatever is asked."""
    session = running.service.registry.models["triage"].consensus
    monkeypatch.setattr(
        session._interface.law.ensemble,
        "votes",
        lambda X: np.tile(votes, (len(X), 1)),
    )


def test_a_session_is_paid_once_by_dataset_and_by_each_client(settings, monkeypatch):
    with clinic(settings, ledger=SQLLedger(settings.ledger)) as running:
        voting(running, monkeypatch, 0, 150)
        assert balances(running)["dataset:clinic"]["spent"]["epsilon"] == 0
        first = running.predict(CLEAR)
        assert first.is_success
        body = first.json()
        assert body["charge"]["each"]["per"] == "session"
        assert body["answers_left"] == 5
        found = balances(running)
        paid = found["dataset:clinic"]["spent"]
        assert 7.9 < paid["epsilon"] <= 8.0
        assert 0 < paid["delta"] <= 1e-12
        assert found["client:ward-7"]["spent"] == paid
        running.predict({**CLEAR, "age": 99})
        other = running.key("ward-8")
        assert running.predict({**CLEAR, "age": 98}, key=other).is_success
        found = balances(running)
        assert found["dataset:clinic"]["spent"] == paid
        assert found["client:ward-7"]["spent"] == paid
        assert found["client:ward-8"]["spent"] == paid
        running.service.ledger.verify()


def test_repeated_queries_are_remembered_and_the_session_is_finite(settings):
    with clinic(settings) as running:
        first = running.predict(CLEAR).json()
        again = running.predict(CLEAR).json()
        assert again["answers"] == first["answers"]
        assert again["answers_left"] == 5
        codes = []
        for age in range(99, 89, -1):
            answer = running.predict({**CLEAR, "age": age})
            codes.append(answer.status_code)
            if answer.status_code != 200:
                code = answer.json()["error"]["code"]
                assert code in {"budget_exhausted", "consensus_exhausted"}
        assert codes.count(200) <= 5
        assert codes[-1] == 403


def test_a_client_who_cannot_pay_the_session_is_refused(settings):
    with clinic(settings) as running:
        poor = running.key(
            "poor", budget={"epsilon": 7.0, "delta": 1e-3, "method": "basic"}
        )
        refused = running.predict(CLEAR, key=poor)
        assert refused.status_code == 403
        assert refused.json()["error"]["code"] == "budget_exhausted"
        # The session itself was opened; whoever can pay may use it.
        assert running.predict(CLEAR).is_success


def test_the_certificate_is_that_of_the_session(settings):
    with clinic(settings) as running:
        body = running.predict(CLEAR).json()
        shown = running.get(f"/v1/certificates/{body['certificate']}").json()
        assert shown["certificate"]["scope"] == "interface"
        assert "P9" in shown["text"]
        (model,) = running.get("/v1/models").json()["models"]
        assert model["method"] == "voting/consensus"
        assert model["certificate"] == body["certificate"]


def test_each_process_opens_its_own_session_and_pays_for_it(settings):
    ledger = SQLLedger(settings.ledger)
    with clinic(settings, ledger=ledger) as running:
        running.predict(CLEAR)
    ledger = SQLLedger(settings.ledger)
    with clinic(settings, ledger=ledger) as running:
        running.predict(CLEAR)
        spent = balances(running)["dataset:clinic"]["spent"]["epsilon"]
        assert 15.8 < spent <= 16.0


def test_answers_in_doubt_run_out(settings, monkeypatch):
    with clinic(settings) as running:
        voting(running, monkeypatch, 75, 75)
        answers = [running.predict({**CLEAR, "age": age}) for age in range(90, 95)]
        codes = [answer.status_code for answer in answers]
        assert codes == [200, 403, 403, 403, 403]
        error = answers[1].json()["error"]
        assert error["code"] == "consensus_exhausted"
        # The charge stands, the answer was never drawn: a retry says so.
        key = {"idempotency": "visit-1"}
        assert running.predict({**CLEAR, "age": 80}, **key).status_code == 403
        assert running.predict({**CLEAR, "age": 80}, **key).status_code == 409
