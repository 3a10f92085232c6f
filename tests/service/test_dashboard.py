"""The dashboard over HTTP: logins, forms, roles, and what its pages hold."""

import html
import json
import logging
import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from reticent.home import Role, client_account
from reticent.ledger import Cap, Charge, MemoryLedger, Request
from reticent.prediction import PrivateVotingClassifier
from reticent.schemas import Categorical, ClassLabel, Encoder, Numeric, Schema
from reticent.service.dashboard.promises import sentence
from reticent.service.dashboard.sessions import COOKIE, Sessions
from reticent.service.dashboard.views import bar
from reticent.storage import Dataset, save_model
from tests.service.clinic import MODEL_KEY, ROW, clinic, settings_for, store

FILLED = {"c0": "41", "c1": "", "c2": "1", "c3": "1", "c4": "2"}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return store(tmp_path_factory.mktemp("models"))


@pytest.fixture
def running(tmp_path, path):
    settings = settings_for(tmp_path, models={"triage": path, "twin": path})
    with clinic(settings) as started:
        yield started


class Visitor:
    """A browser as far as HTTP goes: a cookie, and the token of the last page."""

    def __init__(self, running, key=None):
        self._http = running.http
        self.cookie = None
        self.token = ""
        if key is not None:
            answer = self.send("/login", key=key)
            assert (answer.status_code, answer.headers["location"]) == (303, "/")

    def get(self, path, **headers):
        return self._take("GET", path, headers=headers)

    def send(self, path, headers=None, **fields):
        return self._take("POST", path, headers=headers or {}, data=fields)

    def form(self, path, headers=None, **fields):
        """Send a form as the page would: with its token."""
        return self.send(path, headers, csrf=self.token, **fields)

    def _take(self, method, path, *, headers, **settings):
        headers = dict(headers)
        if self.cookie:
            headers["cookie"] = f"{COOKIE}={self.cookie}"
        answer = self._http.request(method, path, headers=headers, **settings)
        self._http._client.cookies.clear()
        if COOKIE in answer.cookies:
            self.cookie = answer.cookies[COOKIE]
        token = re.search(r'name="csrf" value="(\w+)"', answer.text)
        self.token = token[1] if token else self.token
        return answer


@pytest.fixture
def analyst(running):
    visitor = Visitor(running, running.analyst)
    visitor.get("/")
    return visitor


@pytest.fixture
def admin(running):
    visitor = Visitor(running, running.admin)
    visitor.get("/")
    return visitor


def spent(running, client="ward-7"):
    return running.service.ledger.balance(client_account(client)).spent.answers


# Logins


@pytest.mark.parametrize(
    "page", ["/", "/models/triage", "/certificates/x", "/keys", "/models/none"]
)
def test_pages_ask_for_a_login_first(running, page):
    answer = Visitor(running).get(page)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")


@pytest.mark.parametrize("secure", [True, False])
def test_the_cookie_is_for_this_host_and_not_for_scripts(tmp_path, path, secure):
    settings = settings_for(
        tmp_path, models={"t": path}, secure_cookies=secure, session_minutes=7
    )
    with clinic(settings) as running:
        answer = running.http.post("/login", data={"key": running.analyst})
        (cookie,) = answer.headers.get_list("set-cookie")
        name, *flags = cookie.split("; ")
        assert {flag.lower() for flag in flags} == {
            *("httponly", "samesite=strict", "path=/", "max-age=420"),
            *(["secure"] if secure else []),
        }
        assert running.analyst.split("_", 2)[2] not in cookie
        assert name.startswith(f"{COOKIE}=")


@pytest.mark.parametrize(
    "key", ["", "nonsense", "rk_" + "0" * 16 + "_" + "A" * 43, "ü", "x" * 3000]
)
def test_a_wrong_key_gets_no_cookie(running, key):
    answer = Visitor(running).send("/login", key=key)
    assert answer.status_code == 401
    assert 'role="alert"' in answer.text
    assert "set-cookie" not in answer.headers


def test_logging_out_takes_the_cookie_away(running, analyst):
    answer = analyst.form("/logout")
    assert answer.headers["location"] == "/login"
    assert 'reticent_session=""' in answer.headers["set-cookie"]
    assert Visitor(running).send("/logout").status_code == 303


def test_a_changed_cookie_opens_nothing(running, analyst):
    good = analyst.cookie
    facts, _, mac = good.partition(".")
    other = Visitor(running, running.admin).cookie
    for cookie in (
        *("", ".", "x", "x.y", "é.é", facts, f"{facts}.", f".{mac}"),
        *(f"{facts}.{'0' * 64}", f"{other.partition('.')[0]}.{mac}"),
        f"{facts}.{mac[:-1]}{'0' if mac[-1] != '0' else '1'}",
    ):
        analyst.cookie = cookie.encode() if not cookie.isascii() else cookie
        headers = {"cookie": f"{COOKIE}={cookie}".encode("latin-1")}
        answer = running.http.get("/", headers=headers)
        assert answer.status_code == 303, cookie
    analyst.cookie = good
    assert analyst.get("/").status_code == 200


def test_a_login_ends_with_its_key(running, analyst):
    for record in running.service.keyring.store.all():
        if record.client == "ward-7":
            running.service.keyring.revoke(record.id)
    assert analyst.get("/").status_code == 303
    assert analyst.form("/models/triage/try", **FILLED).status_code == 303
    assert spent(running) == 0


def test_a_role_edited_in_the_database_is_not_trusted(running, analyst):
    assert analyst.get("/keys").status_code == 403
    keys = running.service.keyring.store
    record = keys.find(running.analyst.split("_")[1])
    edited = replace(record, role=Role.ADMIN)
    keys.replace(edited)
    assert analyst.get("/keys").status_code == 303  # to the login
    # Even a genuine record is not the one that was logged in with.
    keys.replace(running.service.keyring._sealed(edited))
    assert analyst.get("/keys").status_code == 303
    keys.replace(record)
    assert analyst.get("/keys").status_code == 403


def test_a_login_ends_with_its_time():
    from starlette.requests import Request
    from starlette.responses import Response

    now = [1000.0]
    sessions = Sessions(b"s" * 32, minutes=2, secure=True, clock=lambda: now[0])
    response = Response()
    sessions.open("0" * 16, "seal", response)
    cookie = response.headers["set-cookie"].partition(";")[0]
    request = Request({"type": "http", "headers": [(b"cookie", cookie.encode())]})
    now[0] = 1119.9
    assert sessions.read(request).key_id == "0" * 16
    assert Sessions(b"t" * 32, minutes=2, secure=True).read(request) is None
    now[0] = 1120.0
    assert sessions.read(request) is None


# Forms from elsewhere

FORMS = {
    "/logout": {},
    "/models/triage/try": {**FILLED, "attempt": "a"},
    "/keys": {"client": "mallory", "epsilon": "1"},
    "/keys/KEY/revoke": {},
    "/accounts": {"account": "client:ward-7", "epsilon": "9"},
}
STRANGE = {
    "no token": ({}, ""),
    "another token": ({}, "0" * 64),
    "a token that is no text": ({}, "ü"),
    "another site": ({"sec-fetch-site": "cross-site"}, None),
    "a sister site": ({"sec-fetch-site": "same-site"}, None),
    "another origin": ({"origin": "http://evil.test"}, None),
    "no origin": ({"origin": "null"}, None),
}


@pytest.mark.parametrize("strange", STRANGE)
def test_forms_from_elsewhere_are_refused(running, admin, strange):
    headers, token = STRANGE[strange]
    record = running.service.keyring.store.all()[-1]
    before = running.service.ledger.balances()
    sent = admin.token if token is None else token
    for form, fields in FORMS.items():
        answer = admin.send(
            form.replace("KEY", record.id), headers, csrf=sent, **fields
        )
        assert answer.status_code == 403, form
        assert "set-cookie" not in answer.headers
    assert running.service.ledger.balances() == before
    assert running.service.keyring.store.all()[-1] == record


def test_a_token_is_of_one_login(running, admin):
    again = Visitor(running, running.admin)
    again.get("/")
    assert again.token != admin.token
    refused = admin.send("/keys", csrf=again.token, client="mallory", epsilon="1")
    assert refused.status_code == 403


def test_nobody_is_logged_in_from_elsewhere(running):
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "http://evil.test"}):
        answer = Visitor(running).send("/login", headers, key=running.analyst)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b"{}", 415),
        ("multipart/form-data; boundary=x", b"--x--", 415),
        ("application/x-www-form-urlencoded", b"csrf=a&csrf=b", 400),
        ("application/x-www-form-urlencoded", b"nonsense", 400),
        ("application/x-www-form-urlencoded", b"a=%FF", 400),
        ("application/x-www-form-urlencoded", b"\xff", 400),
        ("application/x-www-form-urlencoded", b"a=" + b"x" * 70_000, 413),
        ("application/x-www-form-urlencoded", b"&".join([b"a=1"] * 3000), 400),
    ],
    ids=["json", "multipart", "twice", "no pair", "bytes", "raw", "long", "many"],
)
def test_bodies_that_are_no_forms_are_refused(running, analyst, kind, body, status):
    headers = {"content-type": kind, "cookie": f"{COOKIE}={analyst.cookie}"}
    answer = running.http.post("/models/triage/try", content=body, headers=headers)
    assert answer.status_code == status
    assert spent(running) == 0


# The budget card


@pytest.mark.parametrize(
    ("spent", "percent", "level"),
    [(0, 0.0, "fine"), (6, 60.0, "fine"), (7, 70.0, "high"), (9, 90.0, "full")],
)
def test_a_bar_shows_the_share_that_is_spent(spent, percent, level):
    ledger, account = MemoryLedger(), client_account("ward-7")
    ledger.open_account(account, Cap.basic(epsilon=10.0))
    if spent:
        cost = Charge.loss(epsilon=float(spent), certificate="c")
        asked = Request(key="k", accounts=(account,), charge=cost, queries=(b"q",))
        ledger.charge(asked)
    shown = bar(ledger.balance(account), who="one row")
    assert (shown["percent"], shown["level"]) == (percent, level)
    assert (shown["scope"], shown["name"]) == ("Client", "ward-7")
    assert shown["promise"]["numbers"] == "ε = 10"
    assert shown["counted"] == f"losses are added up: ε {spent} of 10"


def test_every_bar_names_epsilon_and_delta_whatever_it_counts():
    ledger = MemoryLedger()
    caps = (Cap.zcdp(epsilon=1.0, delta=1e-6), Cap.either(epsilon=1.0, delta=1e-6))
    for place, cap in enumerate(caps):
        account = client_account(f"ward-{place}")
        ledger.open_account(account, cap)
        shown = bar(ledger.balance(account), who="one row")
        assert shown["promise"]["numbers"] == "ε = 1, δ = 1e-6"
        assert "right at most 74 times in 100" in shown["promise"]["sentence"]
        assert "facts about one row, guesses" in shown["promise"]["sentence"]
        assert "zCDP" in shown["counted"]


# Roles


def test_analysts_see_their_own_and_no_more(running, analyst, admin):
    running.key("ward-8", models=["twin"])
    for path in ("/keys", "/keys/0/revoke", "/accounts"):
        answer = analyst.get(path) if path == "/keys" else analyst.form(path)
        assert answer.status_code == 403, path
        assert "admin" in answer.text
    assert analyst.form("/keys", client="x", epsilon="1").status_code == 403
    mine, everything = analyst.get("/").text, admin.get("/").text
    for name, seen in (("ward-8", False), ("clinic", True), ("ward-7", True)):
        assert (f"<strong>{name}</strong>" in mine) == seen
        assert f"<strong>{name}</strong>" in everything
    assert 'href="/keys"' not in mine
    assert 'href="/keys"' in everything


def test_keys_for_one_model_see_no_other(running):
    visitor = Visitor(running, running.key("ward-8", models=["twin"]))
    home = visitor.get("/").text
    assert 'href="/models/twin"' in home
    assert 'href="/models/triage"' not in home
    assert visitor.get("/models/triage").status_code == 404
    assert visitor.form("/models/triage/try", **FILLED).status_code == 404
    assert visitor.get("/models/twin").status_code == 200


def test_certificates_open_for_whoever_may_ask(running, analyst):
    certificate = running.service.registry.models["triage"].certificate
    for node in certificate.walk():
        page = analyst.get(f"/certificates/{node.id}")
        assert page.status_code == 200
        assert node.rule in page.text
    assert analyst.get("/certificates/nothing").status_code == 404


def test_the_dashboard_can_be_left_out(tmp_path, path):
    settings = settings_for(tmp_path, models={"t": path}, dashboard=False)
    with clinic(settings) as running:
        for page in ("/", "/login", "/static/style.css"):
            answer = running.http.get(page, headers={"accept": "text/html"})
            assert answer.status_code == 404
            assert answer.json()["error"]["code"] == "not_found"


# Trying a question


def try_it(visitor, attempt="1", **changes):
    fields = {**FILLED, **changes}
    return visitor.form("/models/triage/try", attempt=attempt, **fields)


def shown(answer):
    return html.unescape(re.search(r'id="answer">([^<]*)<', answer.text)[1])


def test_a_question_is_answered_as_over_the_interface(running, analyst):
    answer = try_it(analyst)
    assert answer.status_code == 200
    assert "It cost 1 answer" in answer.text
    assert spent(running) == 1
    told = running.predict(ROW).json()
    assert told["answers"] == [shown(answer)]
    assert told["charge"]["answers"] == 0
    again = try_it(analyst, attempt="2")
    assert shown(again) == shown(answer)
    assert "so it cost nothing" in again.text
    assert spent(running) == 1


def test_a_form_sent_twice_is_charged_once(tmp_path, path):
    settings = settings_for(
        tmp_path, models={"triage": {"path": path, "remember": False}}
    )
    with clinic(settings) as running:
        visitor = Visitor(running, running.analyst)
        visitor.get("/models/triage")
        answers = {shown(try_it(visitor)) for _ in range(5)}
        assert len(answers) == 1
        assert spent(running) == 1
        try_it(visitor, attempt="2")
        assert spent(running) == 2


@pytest.mark.parametrize(
    ("column", "text", "status"),
    [
        *(("c0", text, 422) for text in ("", "x", "nan", "inf", "1e999", "0x1", "１x")),
        *(("c2", text, 400) for text in ("3", "-1", "x", "9" * 30, "²")),
        ("c3", "", 422),
        ("attempt", "a b", 422),
        ("attempt", "x" * 200, 422),
    ],
)
def test_values_that_cannot_be_meant_cost_nothing(
    running, analyst, column, text, status
):
    answer = try_it(analyst, **{column: text})
    assert answer.status_code == status
    assert 'role="alert"' in answer.text
    assert 'id="answer"' not in answer.text
    assert spent(running) == 0


def test_a_refused_form_stays_filled(analyst):
    answer = try_it(analyst, c0="nan", c1="2.5")
    assert 'value="2.5"' in answer.text
    assert '<option value="1" selected>b</option>' in answer.text


def test_a_spent_budget_is_said_so(running, analyst, admin):
    admin.form("/accounts", account="client:ward-7", epsilon="0.5")
    assert try_it(analyst).status_code == 200
    refused = try_it(analyst, attempt="2", c0="12")
    assert refused.status_code == 403
    assert "is spent" in refused.text
    assert try_it(analyst, attempt="3").status_code == 200  # remembered, and free
    assert spent(running) == 1


def test_errors_are_sentences_that_keep_their_capitals(running, analyst, admin):
    gone = admin.form("/keys/0/revoke").text
    assert ">There is no such key. GET /v1/admin/keys lists all of them.<" in gone
    lost = analyst.get("/certificates/nothing").text
    assert ">There is no such certificate for this key." in lost
    assert sentence("a valid API key is needed.") == "A valid API key is needed."
    assert sentence("epsilon is needed.") == "Epsilon is needed."
    assert sentence("account='client:x' is open.") == "account='client:x' is open."
    assert sentence("") == ""


@pytest.mark.parametrize(
    "cap",
    [
        Cap.basic(epsilon=2.0),
        Cap.basic(epsilon=2.0, delta=1e-6),
        Cap.either(epsilon=2.0, delta=1e-6),
        Cap.zcdp(epsilon=2.0, delta=1e-6),
    ],
    ids=["basic", "basic with delta", "either", "zcdp"],
)
def test_a_cap_without_a_delta_keeps_the_delta_it_has(running, admin, cap):
    ledger, account = running.service.ledger, client_account("ward-9")
    ledger.open_account(account, cap)
    cost = Charge.loss(epsilon=0.1, rho=0.005, certificate="c")
    ledger.charge(Request(key="k", accounts=(account,), charge=cost, queries=(b"q",)))
    for epsilon in ("3", "1.5"):
        answer = admin.form(
            "/accounts", account=str(account), epsilon=epsilon, delta=""
        )
        assert answer.status_code == 200, answer.text
        assert "client:ward-9 has a new cap" in answer.text
        found = ledger.balance(account)
        assert found.cap.delta == cap.delta
        assert found.cap.budget.epsilon == float(epsilon)
        assert found.spent.answers == 1
    assert 'placeholder="as it is"' in answer.text


def test_a_new_key_without_a_delta_gets_the_default(tmp_path, path):
    settings = settings_for(
        tmp_path,
        models={"triage": path},
        client_budget={"epsilon": 2.0, "delta": 1e-6},
    )
    with clinic(settings) as running:
        admin = Visitor(running, running.admin)
        assert 'placeholder="1e-6"' in admin.get("/keys").text
        for _ in range(2):  # the second one finds the account, which must fit
            fields = {"client": "ward-9", "role": "analyst", "epsilon": "1"}
            made = admin.form("/keys", delta="", **fields)
            assert made.status_code == 200, made.text
        cap = running.service.ledger.balance(client_account("ward-9")).cap
        assert (cap.budget.epsilon, cap.budget.delta) == (1.0, 1e-6)


def test_names_and_levels_are_shown_as_text(tmp_path):
    hostile = "<script>alert('x')</script>"
    schema = Schema(
        {
            f'{hostile}"': Numeric(0, 1),
            "& <b>": Categorical([f"</option>{hostile}", 'ü "quoted"']),
        },
        label=ClassLabel("y", [f"größer {hostile}", 'no "x"']),
    )
    columns = {
        f'{hostile}"': np.linspace(0, 1, 40),
        "& <b>": np.array(schema.columns["& <b>"].levels, dtype=object)[
            np.arange(40) % 2
        ],
        "y": schema.classes[np.arange(40) % 2],
    }
    table = schema.table(columns, labelled=True)
    model = PrivateVotingClassifier(
        LogisticRegression(), 0.5, schema.classes, n_shards=4
    ).fit(Encoder(schema).transform(table), schema.classes[table.label])
    path = tmp_path / "odd"
    save_model(path, model, schema, signing_key=MODEL_KEY, dataset=Dataset("clinic"))
    with clinic(settings_for(tmp_path, models={"odd": path})) as running:
        visitor = Visitor(running, running.analyst)
        pages = [visitor.get("/"), visitor.get("/models/odd")]
        for place in range(8):
            pages.append(
                visitor.form("/models/odd/try", attempt=str(place), c0="0.1", c1="1")
            )
            assert shown(pages[-1]) in list(schema.classes)
        for page in pages:
            assert page.status_code == 200
            assert hostile not in page.text
            assert_self_contained(page.text)


# Keys and accounts


def test_admins_make_keys_that_are_shown_once(running, admin):
    made = admin.form("/keys", client="ward-9", role="analyst", epsilon="1", delta="")
    (key,) = re.findall(r"rk_[0-9a-f]{16}_[\w-]{43}", made.text)
    assert running.predict(key=key).is_success
    assert key not in admin.get("/keys").text
    limited = admin.form("/keys", client="ward-9", **{"m-twin": "1"})
    (other,) = re.findall(r"rk_[0-9a-f]{16}_[\w-]{43}", limited.text)
    assert running.predict(key=other).status_code == 404
    boss = admin.form("/keys", client="second-boss", role="admin")
    (chief,) = re.findall(r"rk_[0-9a-f]{16}_[\w-]{43}", boss.text)
    assert running.get("/v1/admin/keys", chief).is_success


def test_admins_revoke_keys(running, admin):
    key_id = running.analyst.split("_")[1]
    done = admin.form(f"/keys/{key_id}/revoke")
    assert f"The key {key_id} of ward-7 is revoked." in done.text
    assert running.predict().status_code == 401
    assert admin.form("/keys/0/revoke").status_code == 404


@pytest.mark.parametrize(
    ("form", "fields", "status"),
    [
        ("/keys", {"client": ""}, 422),
        ("/keys", {"client": "a b"}, 422),
        ("/keys", {"client": "x", "epsilon": "nan"}, 422),
        ("/keys", {"client": "x", "epsilon": "-1"}, 422),
        ("/keys", {"client": "x", "epsilon": "1e999"}, 422),
        ("/keys", {"client": "ward-7", "epsilon": "3"}, 409),
        ("/accounts", {"account": "client:ward-7"}, 422),
        ("/accounts", {"account": "client:nobody", "epsilon": "1"}, 404),
        ("/accounts", {"account": "nonsense", "epsilon": "1"}, 404),
        ("/accounts", {"account": "client:ward-7", "epsilon": "1e-400"}, 200),
        (
            "/accounts",
            {"account": "client:ward-7", "epsilon": "1", "delta": "1e-6"},
            200,
        ),
    ],
)
def test_admins_are_told_what_cannot_be_meant(running, admin, form, fields, status):
    n_keys = len(running.service.keyring.store.all())
    answer = admin.form(form, **fields)
    assert answer.status_code == status
    assert len(running.service.keyring.store.all()) == n_keys
    assert answer.headers["content-type"].startswith("text/html")


# What pages hold


def assert_self_contained(text):
    """Pages take everything from this host, and nothing inline."""
    addresses = re.findall(r'(?:href|src|action|srcset|poster)="([^"]*)"', text)
    assert all(re.match(r"/(?!/)|#", address) for address in addresses), addresses
    assert not re.search(r"<style|<[^>]*\sstyle=|<[^>]*\son\w+=", text)
    assert not re.search(r"<script(?![^>]*\ssrc=)", text)
    assert not re.search(r"<(iframe|object|embed|base|meta http-equiv)", text)


def test_pages_need_no_other_host(running, admin):
    certificate = running.service.registry.models["triage"].certificate.id
    paths = ["/", "/keys", "/models/triage", f"/certificates/{certificate}", "/login"]
    for path in paths:
        page = admin.get(path)
        assert page.status_code == 200
        assert_self_contained(page.text)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "'unsafe" not in policy
    for name in ("style.css", "script.js", "icon.svg"):
        text = admin.get(f"/static/{name}").text
        assert not re.search(
            r"url\(|@import|fetch\(|XMLHttp|https?://(?!www\.w3)", text
        )


@pytest.mark.parametrize(
    "page",
    [
        '<img src="https://cdn.test/x.png">',
        '<script src="//cdn.test/x.js"></script>',
        "<script>1</script>",
        '<p style="color:red">',
        '<p onclick="x()">',
        "<style>p{}</style>",
    ],
)
def test_a_page_that_does_would_be_noticed(page):
    with pytest.raises(AssertionError):
        assert_self_contained(page)


def test_lost_browsers_get_a_page_and_programs_an_object(running):
    for accept, kind in (
        ("text/html,*/*", "text/html"),
        ("*/*", "application/problem+json"),
    ):
        answer = running.http.get("/nothing", headers={"accept": accept})
        assert answer.status_code == 404
        assert answer.headers["content-type"].startswith(kind)
    headers = {"accept": "text/html", "x-api-key": running.analyst}
    answer = running.http.get("/v1/nothing", headers=headers)
    assert answer.json()["error"]["code"] == "not_found"


def test_forms_leave_no_value_in_the_log(running, analyst, admin, caplog):
    with caplog.at_level(logging.INFO, "reticent.service"):
        try_it(analyst, c0="51.5051")
        try_it(analyst, c0="canary")
        try_it(analyst, c0="5", attempt="canary 1")
        admin.form("/keys", client="canary/")
        admin.form("/accounts", account="canary", epsilon="1")
        analyst.get("/canary", accept="text/html")
    lines = [json.dumps(record.__dict__, default=str) for record in caplog.records]
    assert len(lines) >= 6
    assert not any("canary" in line or "51.5051" in line for line in lines)


def test_a_ledger_that_is_away_is_a_page(running, analyst, monkeypatch):
    from reticent.errors import LedgerError

    def away(self, *_):
        raise LedgerError("host=db.secret is away")

    monkeypatch.setattr(MemoryLedger, "balances", away)
    monkeypatch.setattr(MemoryLedger, "aanswer", away)
    for answer in (analyst.get("/"), try_it(analyst)):
        assert answer.status_code == 503
        assert "ledger cannot take charges" in answer.text
        assert "db.secret" not in answer.text
