"""Keys and caps: made, revoked, raised; never shown twice."""

import pytest

from reticent.home import KeyRecord, Keyring, MemoryKeys, Role, SQLKeys
from reticent.ledger import SQLLedger
from tests.service.clinic import ROW, clinic, settings_for


@pytest.fixture(params=["memory", "sqlite"])
def running(request, tmp_path):
    settings = settings_for(tmp_path)
    collaborators = {}
    if request.param == "sqlite":
        collaborators = {
            "ledger": SQLLedger(settings.ledger),
            "keys": SQLKeys(settings.ledger),
        }
    with clinic(settings, **collaborators) as made:
        yield made


def admin(running, method, path, **settings):
    headers = {"x-api-key": running.admin}
    return running.http.request(method, f"/v1/admin{path}", headers=headers, **settings)


def test_a_key_is_shown_once_and_works_at_once(running):
    made = admin(running, "POST", "/keys", json={"client": "ward-9"})
    assert made.status_code == 201
    body = made.json()
    assert body["account"]["account"] == "client:ward-9"
    assert running.predict(key=body["key"]).is_success
    listed = admin(running, "GET", "/keys").text
    assert body["record"]["id"] in listed
    assert body["key"] not in listed
    assert body["key"].split("_", 2)[2] not in listed


def test_a_revoked_key_stops_working_at_once_and_for_good(running):
    key = running.key("ward-9")
    key_id = key.split("_")[1]
    assert running.predict(key=key).is_success
    gone = admin(running, "DELETE", f"/keys/{key_id}")
    assert gone.json()["revoked"] is True
    assert running.predict(key=key).status_code == 401
    assert admin(running, "DELETE", f"/keys/{key_id}").json()["revoked"] is True
    assert running.predict(key=key).status_code == 401


@pytest.mark.parametrize("key_id", ["0" * 16, "nothing", "%00", "x" * 500])
def test_revoking_what_is_not_there_is_404(running, key_id):
    assert admin(running, "DELETE", f"/keys/{key_id}").status_code == 404


def test_a_key_may_bring_its_own_budget(running):
    body = {"client": "ward-9", "budget": {"epsilon": 1.0}}
    key = admin(running, "POST", "/keys", json=body).json()["key"]
    rows = [{**ROW, "age": age} for age in range(3)]
    assert running.predict(*rows[:2], key=key).is_success
    assert running.predict(rows[2], key=key).status_code == 403


def test_all_keys_of_a_client_share_an_account(running):
    keys = [running.key("ward-9") for _ in range(3)]
    for age, key in enumerate(keys):
        assert running.predict({**ROW, "age": age}, key=key).is_success
    accounts = {
        a["account"]: a for a in admin(running, "GET", "/accounts").json()["accounts"]
    }
    assert accounts["client:ward-9"]["answers"] == 3


def test_another_budget_for_an_open_account_is_a_conflict(running):
    body = {"client": "ward-7", "budget": {"epsilon": 1.0}}
    refused = admin(running, "POST", "/keys", json=body)
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "account_open"
    same = {"client": "ward-7", "budget": {"epsilon": 20.0}}
    assert admin(running, "POST", "/keys", json=same).status_code == 201


def test_caps_can_be_raised_and_lowered_but_not_the_spending(running):
    assert running.predict(ROW, {**ROW, "age": 1}).is_success
    lower = admin(running, "PUT", "/accounts/client:ward-7", json={"epsilon": 0.5})
    assert lower.json()["spent"]["epsilon"] == 1.0
    assert running.predict({**ROW, "age": 2}).status_code == 403
    raised = admin(running, "PUT", "/accounts/client:ward-7", json={"epsilon": 30})
    assert raised.json()["cap"]["epsilon"] == 30.0
    assert running.predict({**ROW, "age": 2}).is_success


def test_lowering_caps_below_what_is_spent_takes_no_answer_back(running):
    told = running.predict(ROW, idempotency="first").json()
    other = running.key("ward-8")
    other_told = running.predict(key=other).json()
    for account in ("client:ward-7", "client:ward-8", "dataset:clinic"):
        lower = admin(running, "PUT", f"/accounts/{account}", json={"epsilon": 0.1})
        assert lower.is_success
    for settings, first in (
        ({}, told),
        ({"idempotency": "first"}, told),
        ({"key": other}, other_told),
    ):
        again = running.predict(ROW, **settings)
        assert again.json()["answers"] == first["answers"]
        assert again.json()["answers_left"] == 0
    assert running.predict().json()["charge"]["answers"] == 0
    for rows in ([{**ROW, "age": 2}], [ROW, {**ROW, "age": 2}]):
        assert running.predict(*rows).status_code == 403


def test_a_cap_of_another_method_is_refused(running):
    body = {"epsilon": 30, "delta": 1e-6, "method": "zcdp"}
    refused = admin(running, "PUT", "/accounts/client:ward-7", json=body)
    assert refused.status_code == 422
    assert "method is fixed" in refused.json()["error"]["message"]
    assert "cap set" not in [each["act"] for each in acts(running)]


@pytest.mark.parametrize(
    "account", ["client:nobody", "dataset:other", "nonsense", "model:triage"]
)
def test_accounts_that_are_not_open_are_not_found(running, account):
    answer = admin(running, "PUT", f"/accounts/{account}", json={"epsilon": 1})
    assert answer.status_code == 404


WRONG_BODIES = [
    {},
    {"client": ""},
    {"client": "a/b"},
    {"client": "x" * 65},
    {"client": "a", "role": "root"},
    {"client": "a", "models": []},
    {"client": "a", "models": ["nothing"]},
    {"client": "a", "models": "triage"},
    {"client": "a", "budget": {"epsilon": -1}},
    {"client": "a", "budget": {"epsilon": "NaN"}},
    {"client": "a", "budget": {"epsilon": 1, "delta": 1.5}},
    {"client": "a", "budget": {}},
    {"client": "a", "extra": 1},
    [],
    "text",
    None,
]


@pytest.mark.parametrize("body", WRONG_BODIES, ids=str)
def test_keys_that_cannot_be_meant_are_refused(running, body):
    refused = admin(running, "POST", "/keys", json=body)
    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"
    assert len(running.service.keyring.store.all()) == 2


LITERAL = [
    '{"client":"a","client":"b"}',
    '{"client":"a","budget":{"epsilon":1,"epsilon":100}}',
    '{"client":"a","budget":{"epsilon":"1"}}',
    '{"client":"a","budget":{"epsilon":true}}',
    '{"client":"a","budget":{"epsilon":1,"delta":"0"}}',
    '{"client":"a","budget":{"epsilon":NaN}}',
    '{"client":1}',
]


@pytest.mark.parametrize("text", LITERAL)
def test_json_of_admins_is_taken_literally(running, text):
    """Two equal keys, and texts and switches for numbers, were once converted."""
    refused = admin(running, "POST", "/keys", content=text)
    budget = text.partition('"budget":')[2][:-1] or '{"epsilon":"1"}'
    changed = admin(running, "PUT", "/accounts/client:ward-7", content=budget)
    for answer in (refused, changed):
        assert answer.status_code in (400, 422)
        message = answer.json()["error"]["message"]
        assert "must be" in message
    assert len(running.service.keyring.store.all()) == 2


def test_bodies_of_admins_are_small(running):
    body = b'{"client":"a","models":["' + b"x" * 70_000 + b'"]}'
    refused = admin(running, "POST", "/keys", content=body)
    assert refused.status_code == 413
    assert refused.json()["error"]["details"] == {"max_body_bytes": 65536}


def test_without_a_default_a_new_client_needs_a_budget(tmp_path):
    settings = settings_for(tmp_path, client_budget=None)
    from reticent.ledger import MemoryLedger
    from reticent.service import create_app
    from reticent.service.requests.problems import ProblemError
    from reticent.service.v1.admin import make_key
    from reticent.service.v1.documents import NewKey

    app = create_app(settings, ledger=MemoryLedger(), keys=MemoryKeys())
    with pytest.raises(ProblemError, match="give a budget"):
        make_key(app.state.service, NewKey(client="ward-9"), "boss")
    key, record, balance = make_key(
        app.state.service, NewKey(client="boss", role="admin"), "boss"
    )
    assert key.startswith("rk_")
    assert record.role is Role.ADMIN
    assert balance is None


# ----- the keyring itself ----------------------------------------------------


class CountingKeys(MemoryKeys):
    def __init__(self):
        super().__init__()
        self.asked = 0

    def find(self, key_id):
        self.asked += 1
        return super().find(key_id)


def test_keys_are_256_fresh_bits_and_leave_only_a_keyed_hash():
    import base64

    ring = Keyring(MemoryKeys(), b"p" * 32)
    texts = {ring.create("a")[0] for _ in range(50)}
    assert len(texts) == 50
    for text in texts:
        secret = base64.urlsafe_b64decode(text.split("_", 2)[2] + "=")
        assert len(secret) == 32
    stored = str(ring.store.all())
    assert not any(text.split("_", 2)[2] in stored for text in texts)
    other = Keyring(ring.store, b"q" * 32)
    assert other.recognise(texts.pop()) is None  # another pepper, another service


def test_a_record_that_was_edited_opens_nothing():
    from dataclasses import replace

    store = MemoryKeys()
    ring = Keyring(store, b"p" * 32)
    text, record = ring.create("ward-7", models=("triage",))
    assert ring.recognise(text) == record
    for change in (
        {"role": Role.ADMIN},
        {"client": "boss"},
        {"models": None},
        {"models": ("cost",)},
        {"created": 0},
        {"expires": 2**40},
        {"revoked": True},
        {"digest": "2:0"},
        {"seal": ""},
    ):
        store._records[record.id] = replace(record, **change)
        assert ring.recognise(text) is None
        assert ring.current(record.id) is None
        assert ring.records() == []
    store._records[record.id] = record
    assert ring.recognise(text) == record


def test_the_cache_saves_lookups_but_not_for_long():
    now = [0.0]
    store = CountingKeys()
    ring = Keyring(store, b"p" * 32, cache_seconds=1.0, clock=lambda: now[0])
    text, record = ring.create("a")
    assert ring.cached(text) is None
    assert ring.recognise(text) == record
    asked = store.asked
    assert ring.cached(text) == record
    assert ring.cached(text[:-2] + "AA") is None
    assert store.asked == asked
    Keyring(store, b"p" * 32).revoke(record.id)  # by another worker
    assert ring.cached(text) == record
    now[0] = 1.5
    assert ring.cached(text) is None
    assert ring.recognise(text) is None


@pytest.mark.parametrize(
    "text",
    ["", "rk_", "rk_0_x", "Bearer x", "rk_" + "0" * 16 + "_" + "A" * 43, "ä" * 63],
)
def test_texts_that_are_no_keys_are_not_recognised(text):
    ring = Keyring(MemoryKeys(), b"p" * 32)
    assert ring.cached(text) is None
    assert ring.recognise(text) is None
    with pytest.raises(ValueError, match="at least one model"):
        ring.create("a", models=())


def test_records_survive_in_the_database(tmp_path):
    url = f"sqlite:///{tmp_path}/ledger.db"
    first = SQLKeys(url)
    ring = Keyring(first, b"p" * 32)
    text, record = ring.create("ward-7", Role.ADMIN, models=("b", "a", "a"))
    first.close()
    second = SQLKeys(url)
    assert isinstance(second.find(record.id), KeyRecord)
    assert Keyring(second, b"p" * 32).recognise(text) == record
    assert record.models == ("a", "b")
    assert second.find("nothing") is None
    assert not Keyring(second, b"p" * 32).revoke("nothing")
    second.close()


def test_a_database_that_fails_is_a_ledger_error(tmp_path):
    import sqlite3

    from reticent.errors import LedgerError

    store = SQLKeys(f"sqlite:///{tmp_path}/ledger.db")
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("DROP TABLE ledger_keys")
    connection.close()
    with pytest.raises(LedgerError, match="cannot be read"):
        store.all()
    with pytest.raises(LedgerError, match="the database failed"):
        store.add(
            KeyRecord(
                id="x", client="a", role=Role.ADMIN, models=None, digest="", created=0
            )
        )
    store.close()


def acts(running):
    return [
        entry.content()
        for entry in running.service.ledger.entries()
        if entry.kind == "act"
    ]


def test_every_act_of_an_admin_is_in_the_chain_with_who_did_it(running):
    before = len(acts(running))
    made = admin(running, "POST", "/keys", json={"client": "ward-9", "days": 3}).json()
    admin(running, "PUT", "/accounts/client:ward-9", json={"epsilon": 2.0})
    admin(running, "DELETE", f"/keys/{made['record']['id']}")
    created, capped, revoked = acts(running)[before:]
    assert [created["act"], capped["act"], revoked["act"]] == [
        "key created",
        "cap set",
        "key revoked",
    ]
    boss = running.admin.split("_")[1]
    assert {each["by"] for each in (created, capped, revoked)} == {f"boss ({boss})"}
    assert created["facts"]["client"] == "ward-9"
    assert created["facts"]["expires"] == made["record"]["expires"]
    assert capped["facts"] == {"account": "client:ward-9", "epsilon": 2.0, "delta": 0.0}
    assert revoked["facts"] == {"id": made["record"]["id"]}
    assert made["key"].split("_", 2)[2] not in str(acts(running))
    running.service.ledger.verify()


def test_what_an_admin_only_tries_leaves_no_act(running):
    before = len(acts(running))
    admin(running, "DELETE", "/keys/nothing")
    admin(running, "PUT", "/accounts/client:nobody", json={"epsilon": 2.0})
    admin(running, "POST", "/keys", json={"client": "x", "models": ["nothing"]})
    assert len(acts(running)) == before


def test_an_act_that_cannot_be_written_does_not_happen(running, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("the disk is full")

    key = running.key("ward-9")
    monkeypatch.setattr(running.service.ledger, "record", broken)
    for method, path, body in [
        ("POST", "/keys", {"client": "ward-8"}),
        ("DELETE", f"/keys/{key.split('_')[1]}", None),
        ("PUT", "/accounts/client:ward-9", {"epsilon": 2.0}),
    ]:
        settings = {} if body is None else {"json": body}
        assert admin(running, method, path, **settings).status_code == 500
    records = running.service.keyring.records()
    assert "ward-8" not in {record.client for record in records}
    assert running.predict(key=key).is_success
