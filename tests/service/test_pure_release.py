"""A pure release of a table is stored, charged and served, with its certificate."""

from dataclasses import replace

import httpx
import numpy as np
import pytest

from reticent.cli.main import main
from reticent.errors import CertificateError
from reticent.guarantees import Certificate, PureDP, ReplaceOne, Scope, recheck
from reticent.home import Home, MemoryKeys, Role, dataset_account
from reticent.schemas import Categorical, ClassLabel, Numeric, Schema
from reticent.service import create_app
from tests.service.clinic import Clinic
from tests.service.live_server import in_thread
from tests.service.local_client import local_client

N_ROWS, EPSILON, BUDGET = 6000, 2.0, 3.0
SCHEMA = Schema(
    {"age": Numeric(0, 100, missing=True), "ward": Categorical(["a", "b"])},
    label=ClassLabel("sick", ["no", "yes"]),
)
QUESTIONS = [
    {"age": age, "ward": ward} for ward in "ab" for age in (None, *range(0, 101, 5))
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows in which the label is an exclusive or, which no additive model knows."""
    folder = tmp_path_factory.mktemp("pure")
    draw = np.random.default_rng(0)
    ages, wards = draw.uniform(0, 100, N_ROWS), draw.integers(0, 2, N_ROWS)
    cells = np.where(draw.random(N_ROWS) < 0.02, "", np.round(ages, 1).astype(str))
    sick = np.where((ages > 50) == (wards == 1), "yes", "no")
    lines = [
        f"{age},{'ab'[ward]},{label}"
        for age, ward, label in zip(cells, wards, sick, strict=True)
    ]
    (folder / "rows.csv").write_text("\n".join(["age,ward,sick", *lines]) + "\n")
    SCHEMA.write(folder / "schema.json")
    return folder


def run(folder, *words):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words), "--home", str(folder / "home")])
    return ended.value.code


@pytest.fixture(scope="module")
def home(folder):
    words = ["fit", folder / "rows.csv", "--schema", folder / "schema.json"]
    words += ["--release", "--epsilon", EPSILON, "--budget", BUDGET, "--delta", 0]
    assert run(folder, *words, "--name", "pure", "--dataset", "clinic") == 0
    return Home.existing(folder / "home")


@pytest.fixture(scope="module")
def clinic(home):
    """The service behind a real port, with keys, and its ledger."""
    with home.settings().open_ledger() as ledger:
        app = create_app(home.settings(), ledger=ledger, keys=MemoryKeys())
        with local_client(app) as inside, in_thread(app) as url:
            made = Clinic(app, inside, "", "")
            made.admin = made.key("boss", Role.ADMIN)
            made.analyst = made.key("ward-7")
            headers = {"authorization": f"Bearer {made.analyst}"}
            with httpx.Client(base_url=url, headers=headers, timeout=60) as http:
                yield http, ledger


def spent(ledger):
    return ledger.balance(dataset_account("clinic")).spent


def test_the_release_is_pure_has_trees_and_is_charged_once(home, clinic):
    stored = home.settings().load_model("pure")
    certificate = stored.certificate
    assert isinstance(certificate.guarantee, PureDP)
    assert EPSILON * (1 - 1e-11) < certificate.guarantee.epsilon <= EPSILON
    assert certificate.relation == ReplaceOne(N_ROWS)
    assert certificate.scope is Scope.MODEL
    assert certificate.proved
    rules = {step.rule for step in certificate.walk()}
    assert {"L-objective-release", "L-leaf-sums", "G5-laplace"} <= rules
    _, ledger = clinic
    assert (spent(ledger).epsilon, spent(ledger).delta) == (EPSILON * 10**9, 0)


def test_answers_over_http_are_the_stored_models_and_cost_nothing(home, clinic):
    http, ledger = clinic
    before = spent(ledger)
    body = http.post("/v1/models/pure/predict", json={"rows": QUESTIONS}).json()
    expected = home.settings().load_model("pure").answer(SCHEMA.rows(QUESTIONS))
    assert body["answers"] == expected
    assert body["charge"]["answers"] == 0
    assert body["charge"]["each"]["epsilon"] == 0.0
    assert body["answers_left"] is None
    assert spent(ledger) == before
    # It has learned what needs both columns, so that the answers are not a constant.
    known = [row for row in QUESTIONS if row["age"] is not None]
    truth = ["yes" if (r["age"] > 50) == (r["ward"] == "b") else "no" for r in known]
    told = [
        a
        for a, r in zip(body["answers"], QUESTIONS, strict=True)
        if r["age"] is not None
    ]
    assert np.mean([a == b for a, b in zip(told, truth, strict=True)]) > 0.85


def test_the_certificate_over_http_is_derived_again_by_the_reader(home, clinic):
    http, _ = clinic
    body = http.post("/v1/models/pure/predict", json={"rows": QUESTIONS[:1]}).json()
    told = http.get(f"/v1/certificates/{body['certificate']}").json()
    read = Certificate.from_dict(told["certificate"])
    assert read.id == home.settings().load_model("pure").certificate.id
    recheck(read)
    # The control: half the epsilon, said of the same noise, is not derived.
    half = replace(read, guarantee=PureDP(EPSILON / 2))
    with pytest.raises(CertificateError):
        recheck(half)


def test_a_second_release_does_not_fit_the_budget(folder, home, capsys):
    words = ["fit", folder / "rows.csv", "--schema", folder / "schema.json"]
    words += [
        "--release",
        "--epsilon",
        EPSILON,
        "--name",
        "more",
        "--dataset",
        "clinic",
    ]
    assert run(folder, *words) == 1
    assert "budget" in capsys.readouterr().err
    assert "more" not in home.settings().models
