"""Faults of all kinds while a model whose answers last is asked.

Clients remember every answer. In the end each of them was told one thing only, and the
ledger remembers all of it: asking again needs no new record, so every unit has spent
what the answers cost.
"""

from __future__ import annotations

import contextlib
import json

import pytest

from reticent.home import charge_release, dataset_account, open_registry
from reticent.schemas import Encoder
from reticent.storage import load_model, save_model
from tests.service.clinic import MODEL_KEY, TRIAGE, settings_for
from tests.service.live_server import api_key
from tests.service.test_faults import suffer
from tests.service.test_lasting import BUDGET, as_another_process, fitted


def settled(folder):
    """Store a lasting model and charge its total; return the settings."""
    path = folder / "triage"
    as_another_process(fitted().law_.identity)
    save_model(
        path,
        fitted(),
        TRIAGE,
        signing_key=MODEL_KEY,
        encoder=Encoder(TRIAGE, style="ordinal"),
        dataset="clinic",
    )
    settings = settings_for(
        folder,
        models={"triage": {"path": path}},
        datasets={"clinic": BUDGET},
        client_budget=BUDGET,
        max_in_flight=64,
    )
    with contextlib.closing(settings.open_ledger()) as ledger:
        ledger.open_account(
            dataset_account("clinic"), settings.datasets["clinic"].cap()
        )
        stored = load_model(path, signing_key=MODEL_KEY)
        charge_release(ledger, stored)
    as_another_process(stored.lasting.identity)
    return settings


def go_wrong(folder, faults, kills, seed, change=None):
    settings = settled(folder)
    keys = (api_key(settings, "rich"), api_key(settings, "poor"))
    clients = suffer(settings, folder, keys, faults, kills, seed)
    if change is None:
        assert sum(client.answered for client in clients) > 20
    else:
        change(clients)
    with contextlib.closing(settings.open_ledger()) as ledger:
        ledger.verify()
        (model,) = open_registry(settings)
        # As a process that knows nothing but the ledger.
        as_another_process(model.stored.lasting.identity)
        model.lasting.open(ledger)
        entries = ledger.verify().entries
        check(model, clients)
        assert ledger.verify().entries == entries  # nothing had to be asked anew


def check(model, clients):
    for place, client in enumerate(clients):
        owner = "poor" if place % 4 == 0 else "rich"
        for name, told in client.told.items():
            assert {type(each) for each in told} == {list}  # nothing is ever refused
            assert len({str(each) for each in told}) == 1  # never two answers
            table = model.stored.schema.rows([client.rows[name]])
            again = model.lasting.answer(table, owner)
            assert again.remembered == 1
            assert [json.loads(answer) for answer in again.answers] == told[0]


def test_a_lasting_model_forgets_nothing_under_faults(tmp_path, seed):
    go_wrong(tmp_path, faults=40, kills=3, seed=seed)


@pytest.mark.long
def test_a_lasting_model_forgets_nothing_under_thousands_of_faults(tmp_path, seed):
    go_wrong(tmp_path, faults=2000, kills=150, seed=seed)


def test_a_lasting_model_that_answers_otherwise_is_found_out(tmp_path, seed):
    """The control: a client was told something else than the ledger remembers."""

    def change(clients):
        told = next(told for client in clients for told in client.told.values())
        told[:] = [["something else"]]

    with pytest.raises(AssertionError, match="something else"):
        go_wrong(tmp_path, faults=40, kills=1, seed=seed, change=change)
