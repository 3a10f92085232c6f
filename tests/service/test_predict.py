"""``POST /v1/models/{name}/predict``: charged, durable, and safe to retry."""

import contextlib
import sqlite3

import httpx
import pytest

from reticent.errors import LedgerError
from reticent.ledger import SQLLedger, decisions
from reticent.service.drawing import FEW_ROWS
from reticent.storage import StoredModel
from tests.service.clinic import EPSILON, ROW, clinic, fitted, settings_for, store


@pytest.fixture(params=["memory", "sqlite"])
def running(request, tmp_path):
    settings = settings_for(tmp_path)
    ledger = SQLLedger(settings.ledger) if request.param == "sqlite" else None
    with clinic(settings, ledger=ledger) as made:
        yield made


def test_a_row_gets_a_label_and_costs_one_answer(running):
    answer = running.predict()
    assert answer.status_code == 200
    body = answer.json()
    assert body["model"] == "triage"
    assert body["answers"] in (["no"], ["yes"])
    assert body["certificate"] == fitted("triage").certificate_.id
    assert body["charge"]["answers"] == 1
    assert body["charge"]["each"]["epsilon"] == EPSILON
    assert body["answers_left"] == 39
    assert body["request_id"] == answer.headers["x-request-id"]
    spent = {
        a["account"]: a["spent"] for a in running.get("/v1/budget").json()["accounts"]
    }
    assert spent["client:ward-7"]["epsilon"] == EPSILON
    assert spent["dataset:clinic"]["epsilon"] == EPSILON


def test_a_row_asked_again_gets_the_same_answer_for_nothing(running):
    rows = [{**ROW, "age": age} for age in range(20)]
    first = running.predict(*rows).json()
    again = running.predict(*rows).json()
    assert again["answers"] == first["answers"]
    assert again["charge"]["answers"] == 0
    assert again["answers_left"] == first["answers_left"]


def test_another_client_pays_to_see_a_shared_answer(tmp_path):
    path = store(tmp_path)
    settings = settings_for(tmp_path, models={"triage": {"path": path, "share": True}})
    with clinic(settings) as running:
        other = running.key("ward-8")
        first = running.predict().json()
        second = running.predict(key=other).json()
        assert second["answers"] == first["answers"]
        assert second["charge"]["answers"] == 1
        balances = {
            str(b.account): b.spent.answers for b in running.service.ledger.balances()
        }
        assert balances["client:ward-8"] == 1
        assert balances["dataset:clinic"] == 1


@pytest.mark.parametrize("cap", [50.0, EPSILON], ids=["plenty", "spent"])
@pytest.mark.parametrize("share", [False, True])
def test_nobody_sees_which_rows_another_client_asked(tmp_path, share, cap):
    path = store(tmp_path)

    def seen(age):
        """Return what a client sees that asks a row after another asked one."""
        settings = settings_for(
            tmp_path,
            models={"triage": {"path": path, "share": share}},
            datasets={"clinic": {"epsilon": cap}},
        )
        with clinic(settings) as running:
            running.predict({**ROW, "age": age}, key=running.key("ward-8"))
            answer = running.predict().json()
            for drawn in ("answers", "request_id", "instance"):
                answer.pop(drawn, None)
            return answer, running.get("/v1/budget").json()

    # The other client asked this very row, or another one.
    assert (seen(ROW["age"]) == seen(ROW["age"] + 1)) is not share


def test_the_same_idempotency_key_is_charged_once(running):
    first = running.predict(idempotency="visit-1").json()
    again = running.predict(idempotency="visit-1").json()
    assert again["answers"] == first["answers"]
    assert again["sequence"] == first["sequence"]
    balance = running.get("/v1/budget").json()["accounts"]
    assert {a["answers"] for a in balance} == {1}


def test_idempotency_keys_are_not_for_two_requests_nor_shared_by_clients(running):
    running.predict(idempotency="visit-1")
    reused = running.predict({**ROW, "age": 1}, idempotency="visit-1")
    assert reused.status_code == 409
    assert reused.json()["error"]["code"] == "idempotency_key_reused"
    other = running.key("ward-8")
    assert running.predict(
        {**ROW, "age": 1}, idempotency="visit-1", key=other
    ).is_success


def test_a_spent_budget_refuses_everything_new_and_charges_nothing(running):
    rows = [{**ROW, "age": age / 7} for age in range(40)]
    assert running.predict(*rows).is_success
    before = [b.as_dict() for b in running.service.ledger.balances()]
    refused = running.predict({**ROW, "age": 99})
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "budget_exhausted"
    assert [b.as_dict() for b in running.service.ledger.balances()] == before
    assert running.predict(*rows[:3]).is_success  # paid for already


def test_a_batch_that_does_not_fit_is_refused_as_a_whole(running):
    rows = [{**ROW, "age": age / 7} for age in range(41)]
    assert running.predict(*rows).status_code == 403
    assert running.predict(*rows[:40]).is_success


def test_numbers_are_answered_inside_their_public_bounds(tmp_path):
    settings = settings_for(tmp_path, models={"cost": store(tmp_path, "cost")})
    with clinic(settings) as running:
        answers = running.predict(ROW, {**ROW, "age": 3}, model="cost").json()[
            "answers"
        ]
        assert all(type(a) is float and 0 <= a <= 50 for a in answers)


def test_large_batches_are_answered_in_a_thread(tmp_path):
    settings = settings_for(
        tmp_path,
        client_budget={"epsilon": 1000.0},
        datasets={"clinic": {"epsilon": 1000.0}},
    )
    with clinic(settings) as running:
        rows = [{**ROW, "age": age / 9} for age in range(500)]
        body = running.predict(*rows).json()
        assert len(body["answers"]) == 500
        assert set(body["answers"]) == {"no", "yes"}
        assert body["charge"]["answers"] == 500


def test_without_memory_every_question_is_drawn_and_paid_anew(tmp_path):
    path = store(tmp_path)
    settings = settings_for(
        tmp_path, models={"triage": {"path": path, "remember": False}}
    )
    with clinic(settings) as running:
        for left in (39, 38, 37):
            assert running.predict().json()["answers_left"] == left


@pytest.mark.parametrize("rows", [1, FEW_ROWS + 1])
def test_the_charge_is_durable_before_the_draw_and_the_answer_before_the_reply(
    tmp_path, monkeypatch, rows
):
    settings = settings_for(tmp_path)
    trace = []

    def note(event):
        """Read the file as a process that comes after a crash would."""
        with contextlib.closing(sqlite3.connect(tmp_path / "ledger.db")) as book:
            rows = book.execute("SELECT kind FROM ledger_entries ORDER BY sequence")
            trace.append((event, [kind for (kind,) in rows][3:]))

    draw = StoredModel.answer_json
    monkeypatch.setattr(
        StoredModel, "answer_json", lambda self, rows: note("draw") or draw(self, rows)
    )
    with clinic(settings, ledger=SQLLedger(settings.ledger)) as running:

        async def watched(scope, receive, send):
            async def sent(message):
                if message["type"] == "http.response.start":
                    note("reply")
                await send(message)

            await running.app(scope, receive, sent)

        async def ask():
            transport = httpx.ASGITransport(watched)
            async with httpx.AsyncClient(transport=transport) as http:
                return await http.post(
                    "http://clinic.test/v1/models/triage/predict",
                    json={"rows": [ROW] * rows},
                    headers={"x-api-key": running.analyst},
                )

        accounts = len(running.service.ledger.balances())
        assert running.http.run(ask()).is_success
    assert accounts == 3  # their entries, after the first, come before the charge
    ((first, charged), (last, answered)) = trace
    assert (first, charged[-1:]) == ("draw", ["charge"])
    assert (last, answered[-2:]) == ("reply", ["charge", "answer"])


def test_an_answer_that_cannot_be_stored_is_not_given(tmp_path, monkeypatch):
    def broken(page, receipt, answers):
        raise LedgerError("the disk is full")

    settings = settings_for(tmp_path)
    with clinic(settings, ledger=SQLLedger(settings.ledger)) as running:
        with monkeypatch.context() as patch:
            patch.setattr(decisions, "settle", broken)
            lost = running.predict(idempotency="k")
        assert lost.status_code == 503
        assert "answers" not in lost.json()
        again = running.predict(idempotency="k")
        assert again.status_code == 409
        assert again.json()["error"]["code"] == "spent_without_result"
        assert running.predict(idempotency="k2").json()["charge"]["answers"] == 1
        balance = running.get("/v1/budget").json()["accounts"]
        assert {account["answers"] for account in balance} == {2}
