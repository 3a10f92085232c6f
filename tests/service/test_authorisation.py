"""Who may do what: every route, every kind of caller."""

import itertools

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from reticent.home import Role
from tests.service.clinic import ROW, clinic, settings_for, store

# What each caller gets: the client of the model, another tenant, an admin, a revoked
# key, a wrong secret, no key. `key` and `account` stand for real ones.
ANALYST, TENANT, ADMIN, REVOKED, WRONG, NOBODY = (
    "analyst",
    "tenant",
    "admin",
    "revoked",
    "wrong",
    "nobody",
)
CALLERS = (ANALYST, TENANT, ADMIN, REVOKED, WRONG, NOBODY)
OWN = {ANALYST: 200, TENANT: 404, ADMIN: 200, REVOKED: 401, WRONG: 401, NOBODY: 401}
ANY = {**OWN, TENANT: 200}
ADMINS = {**OWN, ANALYST: 403, TENANT: 403}
PUBLIC = dict.fromkeys(CALLERS, 200)
TENSORS = {
    "inputs": [
        {"name": "age", "shape": [1], "datatype": "FP64", "data": [41]},
        {"name": "dose", "shape": [1], "datatype": "FP64", "data": [None]},
        {"name": "ward", "shape": [1], "datatype": "BYTES", "data": ["b"]},
        {"name": "smokes", "shape": [1], "datatype": "BOOL", "data": [True]},
        {"name": "floor", "shape": [1], "datatype": "INT64", "data": [2]},
    ]
}
MATRIX = {
    ("POST", "/v1/models/triage/predict"): (OWN, {"json": {"rows": [ROW]}}),
    ("GET", "/v1/models"): (ANY, {}),
    ("GET", "/v1/models/triage"): (OWN, {}),
    ("GET", "/v1/budget"): (ANY, {}),
    ("GET", "/v1/certificates/{certificate}"): (OWN, {}),
    ("POST", "/v1/admin/keys"): (
        {caller: 201 if code == 200 else code for caller, code in ADMINS.items()},
        {"json": {"client": "new"}},
    ),
    ("GET", "/v1/admin/keys"): (ADMINS, {}),
    ("DELETE", "/v1/admin/keys/{spare}"): (ADMINS, {}),
    ("GET", "/v1/admin/accounts"): (ADMINS, {}),
    ("PUT", "/v1/admin/accounts/client:ward-7"): (ADMINS, {"json": {"epsilon": 30}}),
    ("GET", "/v2"): (PUBLIC, {}),
    ("GET", "/v2/health/live"): (PUBLIC, {}),
    ("GET", "/v2/health/ready"): (PUBLIC, {}),
    ("GET", "/v2/models/triage"): (OWN, {}),
    ("GET", "/v2/models/triage/ready"): (OWN, {}),
    ("POST", "/v2/models/triage/infer"): (OWN, {"json": TENSORS}),
    ("GET", "/v2/models/triage/versions/{version}"): (OWN, {}),
    ("GET", "/v2/models/triage/versions/{version}/ready"): (OWN, {}),
    ("POST", "/v2/models/triage/versions/{version}/infer"): (OWN, {"json": TENSORS}),
    ("GET", "/openapi.json"): (PUBLIC, {}),
    ("GET", "/docs"): (PUBLIC, {}),
    ("GET", "/glossary"): (PUBLIC, {}),
}
# Routes of the dashboard are for browsers with a cookie: test_dashboard.py and
# test_dashboard_promises.py.
PAGES = {
    "/",
    "/login",
    "/logout",
    "/models/{name}",
    "/models/{name}/try",
    "/models/{name}/batch",
    "/certificates/{id}",
    "/certificates/{id}/download",
    "/ledger",
    "/ledger.{form}",
    "/keys",
    "/keys/{id}/revoke",
    "/accounts",
    "/static",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("matrix")
    models = {"triage": store(folder), "cost": store(folder, "cost")}
    settings = settings_for(
        folder,
        models=models,
        datasets={"clinic": {"epsilon": 500.0}},
        client_budget={"epsilon": 100.0},
    )
    with clinic(settings) as made:
        yield made


@pytest.fixture(scope="module")
def keys(running):
    revoked = running.key("gone")
    running.service.keyring.revoke(revoked.split("_")[1])
    analyst = running.key("ward-7", models=["triage"])
    return {
        ANALYST: analyst,
        TENANT: running.key("billing", models=["cost"]),
        ADMIN: running.admin,
        REVOKED: revoked,
        WRONG: analyst[:-4] + "AAAA",
        NOBODY: None,
    }


@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("route", MATRIX, ids=" ".join)
def test_routes_answer_each_caller_as_specified(running, keys, route, caller, header):
    check(running, keys, route, caller, header, running.http.request)


@pytest.fixture(scope="module")
def mounted(running):
    """Sends requests to the application under a prefix, inside of another one."""
    transport = httpx.ASGITransport(
        Starlette(routes=[Mount("/api", app=running.app)]), raise_app_exceptions=False
    )
    base = "http://clinic.test/api"
    client = httpx.AsyncClient(transport=transport, base_url=base)
    yield lambda *told, **more: running.http.run(client.request(*told, **more))
    running.http.run(client.aclose())


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("route", MATRIX, ids=" ".join)
def test_a_prefix_changes_nothing(running, keys, route, caller, mounted):
    """Under a prefix, lists of keys and accounts were once shown to everybody."""
    check(running, keys, route, caller, "authorization", mounted)


def check(running, keys, route, caller, header, send):
    method, path = route
    wanted, settings = MATRIX[route]
    model = running.service.registry.models["triage"]
    spare = running.key("spare").split("_")[1] if "{spare}" in path else ""
    path = path.format(
        certificate=model.certificate.id, spare=spare, version=model.stored.id
    )
    key = keys[caller]
    value = f"Bearer {key}" if header == "authorization" else key
    headers = {} if key is None else {header: value}
    answer = send(method, path, headers=headers, **settings)
    assert answer.status_code == wanted[caller]
    if answer.status_code == 401:
        assert answer.headers["www-authenticate"] == "Bearer"


def test_the_matrix_has_every_route(running):
    served = {
        (method, route.path)
        for route in all_routes(running.app.router)
        for method in getattr(route, "methods", None) or {"GET"}
        if method != "HEAD"
    }
    filled = {
        (method, path.format(certificate="{id}", spare="{id}", version="{version}"))
        for method, path in MATRIX
    }
    general = {
        (method, path.replace("triage", "{name}").replace("client:ward-7", "{account}"))
        for method, path in filled
    }
    assert {(m, p) for m, p in served if p not in PAGES} == general


def all_routes(router):
    for route in router.routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from all_routes(inner)
        else:
            yield route


def test_refusals_do_not_tell_unknown_from_revoked_or_wrong(running, keys):
    bodies = set()
    for caller in (REVOKED, WRONG, NOBODY):
        answer = running.predict(key=keys[caller] or "rk_unknown")
        body = answer.json()
        body.pop("request_id")
        bodies.add(str(body))
    assert len(bodies) == 1


def test_a_tenant_sees_nothing_of_another(running, keys):
    running.predict(key=keys[ANALYST])
    text = str(running.get("/v1/budget", keys[TENANT]).json())
    text += str(running.get("/v1/models", keys[TENANT]).json())
    assert "ward-7" not in text
    assert "triage" not in text
    unknown = running.predict(key=keys[TENANT], model="triage").json()
    nothing = running.predict(key=keys[TENANT], model="nothing").json()
    assert unknown["error"] == nothing["error"]


def test_an_admin_sees_every_account(running, keys):
    listed = {
        a["account"] for a in running.get("/v1/budget", keys[ADMIN]).json()["accounts"]
    }
    assert {"client:ward-7", "client:billing", "dataset:clinic"} <= listed


@pytest.mark.parametrize(
    ("role", "models"),
    [*itertools.product([Role.ANALYST, Role.ADMIN], [None, ["cost"]])],
)
def test_limits_to_models_hold_for_every_role(running, role, models):
    key = running.key(f"limited-{role.value}-{models is None}", role, models=models)
    wanted = {"triage", "cost"} if models is None else {"cost"}
    listed = {m["name"] for m in running.get("/v1/models", key).json()["models"]}
    assert listed == wanted
    assert running.predict(key=key).status_code == (200 if models is None else 404)


def test_an_admin_without_an_account_cannot_ask(tmp_path):
    settings = settings_for(tmp_path, client_budget=None)
    with clinic_without_default(settings) as running:
        refused = running.predict(key=running.admin)
        assert refused.status_code == 403
        assert refused.json()["error"]["code"] == "no_budget"


def clinic_without_default(settings):
    import contextlib

    from reticent.home import MemoryKeys
    from reticent.ledger import MemoryLedger
    from reticent.service import create_app
    from tests.service.clinic import Clinic
    from tests.service.local_client import local_client

    @contextlib.contextmanager
    def run():
        app = create_app(settings, ledger=MemoryLedger(), keys=MemoryKeys())
        with local_client(app) as http:
            running = Clinic(app, http, "", "")
            running.admin = running.key("boss", Role.ADMIN)
            yield running

    return run()
