"""A running service sees new, replaced and removed models, and loses no request."""

import gc
import json
import shutil
import threading
import weakref

import pytest

from reticent.service.network import Limits
from reticent.service.reloading import Reloading, marks_of
from reticent.storage import Dataset, save_model
from tests.service.clinic import (
    MODEL_KEY,
    ROW,
    TRIAGE,
    clinic,
    fitted,
    settings_for,
    store,
)
from tests.service.live_server import (
    ServerProcess,
    api_key,
    ask,
    free_port,
    wait_until,
    written,
)
from tests.service.raw_client import answers, connection, request
from tests.service.test_connections import served


def replace(path, epsilon, schema=TRIAGE, kind="triage"):
    """Put another model where one is."""
    model = fitted(kind, epsilon=epsilon)
    dataset = Dataset("clinic")
    save_model(
        path, model, schema, signing_key=MODEL_KEY, dataset=dataset, replace=True
    )


@pytest.fixture
def watched(tmp_path):
    """A service, and what looks for models where the settings now say."""
    settings = settings_for(tmp_path, reload_seconds=0)
    now = [settings]
    with clinic(settings) as running:
        looking = Reloading(running.service, lambda: now[0], marks_of(settings))
        yield running, looking, now, tmp_path


def test_a_replaced_model_answers_at_its_own_price(watched):
    running, looking, _, folder = watched
    before = running.predict().json()
    assert looking.look() == []
    replace(folder / "triage", epsilon=0.25)
    assert looking.look() == ["triage"]
    after = running.predict({**ROW, "age": 12}).json()
    assert (before["charge"]["each"]["epsilon"], before["answers_left"]) == (0.5, 39)
    assert after["charge"]["each"]["epsilon"] == 0.25
    assert after["answers_left"] == 77  # the first answer stays charged
    assert after["version"] != before["version"]
    listed = running.get("/v1/models/triage").json()
    assert listed["id"] == after["version"]
    assert looking.look() == []


def test_the_answers_of_another_version_are_not_remembered_for_this_one(watched):
    running, looking, _, folder = watched
    assert running.predict().json()["charge"]["answers"] == 1
    assert running.predict().json()["charge"]["answers"] == 0
    replace(folder / "triage", epsilon=0.25)
    looking.look()
    assert running.predict().json()["charge"]["answers"] == 1


def test_new_models_come_and_removed_ones_go(watched):
    running, looking, now, folder = watched
    path = store(folder, "cost")
    now[0] = settings_for(folder, models={"triage": folder / "triage", "cost": path})
    assert running.predict(model="cost").status_code == 404
    assert looking.look() == ["cost"]
    assert running.predict(model="cost").is_success
    now[0] = settings_for(folder, models={"cost": path})
    assert looking.look() == ["triage"]
    assert running.predict().status_code == 404
    assert [m["name"] for m in running.get("/v1/models").json()["models"]] == ["cost"]


def spoil_signature(folder):
    (folder / "triage" / "manifest.sig").write_bytes(b"0" * 64)
    manifest = folder / "triage" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b"\n")


def spoil_mode(folder):
    replace(folder / "triage", epsilon=0.25)
    (folder / "triage").chmod(0o755)


def on_another_dataset(folder):
    model = fitted("triage")
    save_model(
        folder / "triage",
        model,
        TRIAGE,
        signing_key=MODEL_KEY,
        dataset=Dataset("other"),
        replace=True,
    )


@pytest.mark.parametrize("spoil", [spoil_signature, spoil_mode, on_another_dataset])
def test_what_must_not_be_served_is_refused_and_the_old_one_stays(
    watched, caplog, spoil
):
    running, looking, _, folder = watched
    before = running.predict().json()["version"]
    spoil(folder)
    assert looking.look() == []
    assert looking.look() == []
    told = [r for r in caplog.records if r.message == "model not reloaded"]
    assert len(told) == 1  # once, not at every look
    assert running.predict({**ROW, "age": 3}).json()["version"] == before
    replace(folder / "triage", epsilon=0.25)
    (folder / "triage").chmod(0o700)
    assert looking.look() == ["triage"]


def test_a_model_that_was_moved_away_is_served_on(watched):
    running, looking, _, folder = watched
    shutil.move(folder / "triage", folder / "aside")
    assert looking.look() == []
    assert running.predict().is_success


def test_no_request_is_lost_while_models_are_replaced(tmp_path):
    """A real server: many questions, five versions, every one answered and charged."""
    settings = settings_for(
        tmp_path,
        port=free_port(),
        reload_seconds=0.05,
        client_budget={"epsilon": 1e6},
        datasets={"clinic": {"epsilon": 1e6}},
    )
    key = api_key(settings)
    server = ServerProcess(written(settings, tmp_path), settings.port, tmp_path / "log")
    server.start()
    told, stop = [], threading.Event()

    def keep_asking(place):
        age = 0
        while not stop.is_set():
            age += 1
            row = {**ROW, "age": age % 100, "dose": place + (age // 100) / 100}
            answer = ask(
                "POST",
                f"{server.url}/v1/models/triage/predict",
                headers={"x-api-key": key},
                json={"rows": [row]},
            )
            told.append((answer.status_code, answer.json()))

    threads = [threading.Thread(target=keep_asking, args=(i,)) for i in range(3)]
    try:
        for thread in threads:
            thread.start()
        wait_until(lambda: len(told) > 3)
        for epsilon in (0.25, 0.5, 0.125, 0.0625):
            replace(tmp_path / "triage", epsilon)
            charged = epsilon
            wait_until(
                lambda: told[-1][1]["charge"]["each"]["epsilon"] == charged  # noqa: B023
            )
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        server.stop()
    assert {status for status, _ in told} == {200}
    assert len({body["version"] for _, body in told}) == 5
    spent = sum(
        body["charge"]["answers"] * body["charge"]["each"]["epsilon"]
        for _, body in told
    )
    with settings.open_ledger() as ledger:
        from reticent.home import client_account

        kept = ledger.balance(client_account("ward-7")).as_dict()["spent"]["epsilon"]
    assert kept == pytest.approx(spent)


def test_a_model_that_was_replaced_is_let_go(tmp_path):
    row = {"age": 41, "dose": 1.5, "ward": "b", "smokes": True, "floor": 2}
    body = json.dumps({"rows": [row]}).encode()
    for place in served(tmp_path, Limits(), reload_seconds=0):
        service, keys = place.service, [place.key, place.running.key("other")]
        looking = Reloading(
            service, lambda now=service.settings: now, marks_of(service.settings)
        )

        def asked(key, url=place.url):
            with connection(url) as made:
                for _ in range(4):
                    path = "/v1/models/triage/predict"
                    made.sendall(request(path, body, x_api_key=key))
                    assert answers(made, 1)[0][0] == 200

        for key in keys:
            asked(key)
        old = weakref.ref(service.registry.models["triage"])
        loaded = weakref.ref(old().stored)
        replace(tmp_path / "triage", epsilon=0.25)
        assert looking.look() == ["triage"]
        asked(keys[0])  # the other one never comes back
        wait_until(
            lambda old=old, loaded=loaded: (
                gc.collect() >= 0 and old() is None and loaded() is None
            )
        )
