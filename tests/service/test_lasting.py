"""Lasting answers over HTTP: free, with evidence; their state stays inside (P10)."""

import functools
import io
import json
import logging
import random

import pytest

from reticent.errors import InvalidParameterError, NotDeployableError
from reticent.guarantees import gaussian_ratio
from reticent.home import charge_release, dataset_account
from reticent.ledger import SQLLedger
from reticent.prediction import PaidAnswers, PrivateNeighborsClassifier
from reticent.prediction.lasting import histories as states
from reticent.schemas import Encoder
from reticent.service.dashboard import views
from reticent.service.telemetry import JSONLines
from reticent.storage import load_model, save_model
from tests.service.clinic import (
    COLUMNS,
    MODEL_KEY,
    ROW,
    TRIAGE,
    clinic,
    records,
    settings_for,
)
from tests.service.test_dashboard import FILLED, Visitor
from tests.service.test_neighbours import broken_bodies

BUDGET = {"epsilon": 2.0, "delta": 1e-5}


@functools.cache
def fitted(*, neighbour=False, local="always"):
    table = records(TRIAGE, neighbour=neighbour)
    model = PrivateNeighborsClassifier(
        1.0,
        delta=1e-6,
        columns=list(COLUMNS.values()),
        classes=[0, 1],
        local=local,
    )
    return model.fit(Encoder(TRIAGE, style="ordinal").transform(table), table.label)


def as_another_process(identity):
    """Forget what this process knows of a model's log: each test plays a new one."""
    states._histories.pop(identity, None)
    states._logged_in_memory.discard(identity)


def opened(folder, *, neighbour=False, charged=True, local="always", **wanted):
    """Store a lasting model; return settings and a ledger that was charged for it."""
    path, model = folder / "triage", fitted(neighbour=neighbour, local=local)
    as_another_process(model.law_.identity)
    save_model(
        path,
        model,
        TRIAGE,
        signing_key=MODEL_KEY,
        encoder=Encoder(TRIAGE, style="ordinal"),
        dataset="clinic",
        replace=True,
    )
    # A stored model keeps its log where it outlives the process.
    ledger = SQLLedger(f"sqlite:///{folder / 'lasting.db'}")
    settings = settings_for(
        folder,
        models={"triage": {"path": path, **wanted}},
        datasets={"clinic": BUDGET},
        client_budget=BUDGET,
    )
    stored = load_model(path, signing_key=MODEL_KEY)
    if charged:
        cap = settings.datasets["clinic"].cap()
        ledger.open_account(dataset_account("clinic"), cap)
        charge_release(ledger, stored)
    as_another_process(stored.lasting.identity)
    return settings, ledger


def asked(running, body, path="/v1/models/triage/predict"):
    headers = {"authorization": f"Bearer {running.analyst}"}
    return running.http.post(path, json=body, headers=headers)


def test_answers_are_free_and_come_with_evidence(tmp_path):
    settings, ledger = opened(tmp_path)
    with clinic(settings, ledger=ledger) as running:
        before = [b.as_dict() for b in ledger.balances()]
        first = running.predict(ROW, {**ROW, "age": 90}).json()
        assert len(first["evidence"]) == len(first["answers"]) == 2
        assert set(first["answers"]) <= {"no", "yes"}
        assert first["charge"]["answers"] == 0
        assert first["charge"]["each"]["per"] == "total"
        each = first["charge"]["each"]
        assert each["epsilon"] == pytest.approx(1.0)
        # Both forms of the same total; its account paid the second (mu^2 / 2).
        paid = ledger.balance(dataset_account("clinic")).as_dict()["spent"]
        assert each["rho"] == pytest.approx(gaussian_ratio(1.0, 1e-6) ** 2 / 2)
        assert each["rho"] == pytest.approx(paid["rho"])
        assert first["answers_left"] is None
        again = running.predict(ROW, {**ROW, "age": 90}, key=running.admin).json()
        assert again["answers"] == first["answers"]
        assert again["evidence"] == first["evidence"]
        budget = running.get("/v1/budget", key=running.admin).json()
        assert budget["models"][0]["answers_left"] is None
        assert not [a for a in budget["accounts"] if "questions" in a["account"]]
        spent = {b["account"]: b["spent"] for b in before}
        now = {str(b.account): b.as_dict()["spent"] for b in ledger.balances()}
        assert now["dataset:clinic"] == spent["dataset:clinic"]
        assert now["client:ward-7"] == spent["client:ward-7"]
        shown = running.get("/v1/models/triage").json()
        assert "all answers" in shown["promise"]
        counted = running.service.metrics.registry
        names = {"model": "triage"}
        for source in ("drawn", "remembered"):
            found = counted.get_sample_value(
                "reticent_answers_total", {**names, "source": source}
            )
            assert found == 2
        # So few records may leave no evidence at all.
        evidence = sum(max(0, sum(each["evidence"])) for each in (first, again))
        found = counted.get_sample_value("reticent_evidence_total", names)
        assert found == pytest.approx(evidence)
        ledger.verify()


def test_a_request_or_a_setting_may_ask_to_abstain(tmp_path):
    settings, ledger = opened(tmp_path)
    with clinic(settings, ledger=ledger) as running:
        plain = asked(running, {"rows": [ROW]}).json()
        assert plain["answers"] != [None]
        level = {"rows": [ROW], "abstain_below": 1e6}
        assert asked(running, level).json()["answers"] == [None]
        answer = asked(running, {**level, "abstain_below": 0}).json()
        assert answer["answers"] == plain["answers"]
        for wrong in (-1, "many", True, None):
            answer = asked(running, {**level, "abstain_below": wrong})
            assert answer.status_code == (200 if wrong is None else 422)
    folder = tmp_path / "strict"
    folder.mkdir()
    settings, ledger = opened(folder, abstain_below=1e6)
    with clinic(settings, ledger=ledger) as running:
        assert asked(running, {"rows": [ROW]}).json()["answers"] == [None]


def test_other_models_do_not_abstain(tmp_path):
    with clinic(settings_for(tmp_path)) as running:
        answer = asked(running, {"rows": [ROW], "abstain_below": 1.0})
        assert answer.status_code == 422
        assert "evidence" in answer.json()["error"]["message"]
        assert "evidence" not in running.predict().json()


def test_the_inference_protocol_has_evidence_as_an_output(tmp_path):
    settings, ledger = opened(tmp_path, abstain_below=1e6)
    body = {
        "inputs": [
            {"name": "age", "shape": [1], "datatype": "FP64", "data": [41]},
            {"name": "dose", "shape": [1], "datatype": "FP64", "data": [3.0]},
            {"name": "ward", "shape": [1], "datatype": "BYTES", "data": ["b"]},
            {"name": "smokes", "shape": [1], "datatype": "BOOL", "data": [True]},
            {"name": "floor", "shape": [1], "datatype": "INT64", "data": [2]},
        ]
    }
    with clinic(settings, ledger=ledger) as running:
        answer = asked(running, body, "/v2/models/triage/infer").json()
        label, evidence, abstained = answer["outputs"]
        assert label["data"][0] in ("no", "yes")
        assert (evidence["name"], evidence["datatype"]) == ("evidence", "FP64")
        assert isinstance(evidence["data"][0], float)
        assert abstained["data"] == [True]
        assert answer["parameters"]["charged_per"] == "total"
        described = running.get("/v2/models/triage").json()
        names = [output["name"] for output in described["outputs"]]
        assert names == ["ill", "evidence", "abstained"]


def test_requests_at_once_share_records(tmp_path):
    settings, ledger = opened(tmp_path)
    with clinic(settings, ledger=ledger) as running:
        answers = running.http.together(
            [
                {
                    "method": "POST",
                    "url": "/v1/models/triage/predict",
                    "json": {"rows": [{**ROW, "age": age}]},
                    "headers": {"x-api-key": running.analyst},
                }
                for age in range(20, 80)
            ]
        )
        assert {answer.status_code for answer in answers} == {200}
        session = running.service.registry.models["triage"].lasting
        assert session._answers.n_records < 60
        told = {a.json()["evidence"][0] for a in answers}
        again = running.predict(*({**ROW, "age": age} for age in range(20, 80)))
        assert set(again.json()["evidence"]) == told


def test_the_page_of_a_model_shows_the_evidence_left(tmp_path):
    settings, ledger = opened(tmp_path)
    with clinic(settings, ledger=ledger) as running:
        session = running.service.registry.models["triage"]
        assert views.evidence_view(session)["asked"] == 0
        running.predict(*({**ROW, "age": age} for age in range(80)))
        view = views.evidence_view(session)
        assert view["asked"] == 80
        assert 0 < len(view["columns"]) <= 64
        told = views.model_view(session)
        assert "free and unlimited" in told["price"]
        running.http.post("/login", data={"key": running.analyst})
        page = running.http.get("/models/triage")
        assert page.status_code == 200
        assert "80 questions so far" in page.text
        assert "80 questions so far" in page.text
        assert "Ask (free)" in page.text


def test_a_released_model_that_answers_has_no_evidence_to_show(tmp_path):
    settings, ledger = opened(tmp_path, local="never")
    with clinic(settings, ledger=ledger) as running:
        session = running.service.registry.models["triage"]
        pages = Visitor(running, running.analyst)
        page = pages.get("/models/triage").text
        assert "A released model answers every question; it does not wear out." in page
        page = pages.form("/models/triage/try", attempt="1", **FILLED).text
        assert 'id="answer"' in page
        assert "can still pay for an answer" not in page
        assert 'id="evidence"' not in page
        assert views.evidence_view(session) is None
        refused = asked(running, {"rows": [ROW], "abstain_below": 1.0})
        assert refused.status_code == 422
        assert "released model answers every" in refused.json()["error"]["message"]
        assert asked(running, {"rows": [ROW], "abstain_below": 0}).status_code == 200
    folder = tmp_path / "strict"
    folder.mkdir()
    settings, ledger = opened(folder, local="never", abstain_below=1.0)
    with (
        pytest.raises(
            InvalidParameterError, match="triage: abstain_below is for answers"
        ),
        clinic(settings, ledger=ledger),
    ):
        pass


def test_evidence_below_nothing_reads_as_nothing(tmp_path):
    assert views.evidence_text(-3.2) == "0"
    assert views.evidence_text(12.345) == "12.35"
    settings, ledger = opened(tmp_path)
    with clinic(settings, ledger=ledger) as running:
        session = running.service.registry.models["triage"]
        answered = PaidAnswers([b'"no"'], evidence=[-3.2])
        assert views.evidence_of(session, answered) == "0"


def test_a_model_that_was_not_charged_here_is_refused(tmp_path):
    settings, ledger = opened(tmp_path, charged=False)
    with (
        pytest.raises(NotDeployableError, match="never charged"),
        clinic(settings, ledger=ledger),
    ):
        pass


@pytest.mark.parametrize(
    "wanted",
    [
        {"budget": {"epsilon": 1.0}},
        {"consensus": {"epsilon": 1.0, "delta": 1e-6, "queries": 5}},
    ],
)
def test_settings_that_make_no_sense_for_it_are_refused(tmp_path, wanted):
    settings, ledger = opened(tmp_path, **wanted)
    with (
        pytest.raises(InvalidParameterError, match="one total"),
        clinic(settings, ledger=ledger),
    ):
        pass


def test_a_restarted_service_knows_what_was_asked(tmp_path):
    settings, ledger = opened(tmp_path)
    close, ledger.close = ledger.close, lambda: None
    with clinic(settings, ledger=ledger) as running:
        told = running.predict().json()
    (snapshot,) = tmp_path.glob(".triage.*.snapshot")
    assert snapshot.stat().st_mode & 0o777 == 0o600
    states._histories.clear()
    with clinic(settings, ledger=ledger) as running:
        again = running.predict().json()
        assert again["evidence"] == told["evidence"]
        session = running.service.registry.models["triage"].lasting
        assert session._answers.n_records == 1
    close()


def seen(answer):
    """Return what a client may compare, without what is drawn privately."""
    body = answer.json()
    for name in ("request_id", "answers", "evidence", "version"):
        body.pop(name, None)
    headers = dict(answer.headers)
    headers.pop("x-request-id")
    headers.pop("content-length")
    # The model's id names its file; it is random on both sides.
    return answer.status_code, headers, json.dumps(body, sort_keys=True)


def transcript(running, seed):
    draw = random.Random(seed)
    told = []
    for _ in range(40):
        near = [0, 1, 2, 3, draw.random() * 100]  # around the record that differs
        rows = [{**ROW, "age": draw.choice(near)} for _ in range(draw.choice([1, 5]))]
        told.append(seen(running.predict(*rows)))
    for body in broken_bodies(seed):
        answer = running.http.post(
            "/v1/models/triage/predict",
            content=body,
            headers={"x-api-key": running.analyst},
        )
        told.append(seen(answer))
    counted = sorted(
        (sample.name, tuple(sorted(sample.labels.items())), sample.value)
        for metric in running.service.metrics.registry.collect()
        for sample in metric.samples
        if not sample.name.startswith("reticent_evidence")
        and not sample.name.endswith("_created")
    )
    balances = [
        (b["account"].split("-")[0], b["spent"])
        for b in (each.as_dict() for each in running.service.ledger.balances())
    ]
    return told, counted, balances


LOGGED = ("event", "route", "status", "code", "model", "rows", "paid")


def test_nothing_but_private_numbers_depends_on_the_records(tmp_path, seed, caplog):
    lines, found = [], []
    logger = logging.getLogger("reticent.service")
    caplog.set_level(logging.INFO, logger=logger.name)
    for side in (False, True):
        folder = tmp_path / str(side)
        folder.mkdir()
        settings, ledger = opened(folder, neighbour=side)
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(JSONLines())
        logger.addHandler(handler)
        try:
            with clinic(settings, ledger=ledger) as running:
                found.append(transcript(running, seed))
        finally:
            logger.removeHandler(handler)
        kept = [json.loads(line) for line in stream.getvalue().splitlines()]
        lines.append([[line.get(name) for name in LOGGED] for line in kept])
    assert len(lines[0]) > 40
    assert found[0] == found[1]
    assert lines[0] == lines[1]
