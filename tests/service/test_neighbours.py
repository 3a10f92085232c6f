"""Charges, refusals and errors do not depend on the data (rows 10 and 11)."""

import json
import random
import string

import numpy as np
import pytest

from tests.service.clinic import ROW, clinic, fitted, settings_for, store


@pytest.fixture
def pair(tmp_path):
    """Two services whose models were trained on neighbouring datasets."""
    sides = []
    for side in (False, True):
        folder = tmp_path / str(side)
        folder.mkdir()
        path = store(folder, neighbour=side)
        settings = settings_for(
            folder,
            models={"triage": path},
            datasets={"clinic": {"epsilon": 30.0}},
            client_budget={"epsilon": 4.0},
            max_body_bytes=20_000,
        )
        sides.append(clinic(settings))
    with sides[0] as first, sides[1] as second:
        yield first, second


def test_the_models_do_differ():
    ours, theirs = fitted("triage"), fitted("triage", neighbour=True)
    weights = [model.ensemble_.fusion.models.weights for model in (ours, theirs)]
    assert not np.array_equal(*weights)


def seen(answer):
    """Return what a client may compare: status, headers, body without its id."""
    body = answer.json()
    body.pop("request_id", None)
    body.pop("answers", None)  # drawn at random, privately
    body.pop("version", None)  # a hash that a random identity enters
    headers = dict(answer.headers)
    headers.pop("x-request-id")
    headers.pop("content-length")
    return answer.status_code, headers, body


def transcript(running, seed):
    """Ask a fixed sequence of questions until long after the budget is spent."""
    draw = random.Random(seed)
    keys = [running.analyst, running.key("ward-8"), running.key("ward-9")]
    told = []
    for number in range(60):
        rows = [
            {**ROW, "age": draw.choice([1, 2, 3, 50, 60, draw.random() * 100])}
            for _ in range(draw.choice([1, 1, 1, 2, 5]))
        ]
        answer = running.predict(
            *rows, key=draw.choice(keys), idempotency=f"n{number % 50}"
        )
        told.append(seen(answer))
    balances = [b.as_dict() for b in running.service.ledger.balances()]
    return told, balances


def test_charges_and_refusals_are_the_same_on_neighbours(pair, seed):
    ours, theirs = (transcript(running, seed) for running in pair)
    # Certificates name the models' parameters, not their data: equal too.
    assert ours == theirs
    assert {status for status, *_ in ours[0]} == {200, 403, 409}


def broken_bodies(seed):
    """Yield requests with something wrong in them."""
    draw = random.Random(seed)
    whole = json.dumps({"rows": [ROW]})
    for _ in range(60):
        text = list(whole)
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(text))
            action = draw.randrange(3)
            if action == 0:
                text[place] = draw.choice(string.printable)
            elif action == 1:
                del text[place]
            else:
                text.insert(place, draw.choice('"{}[],:0-e.\x00é'))
        yield "".join(text).encode()
    for value in ("NaN", "1e999", "null", '"x"', "true", "[[]]"):
        yield ('{"rows":[{"age":' + value + "}]}").encode()


def test_errors_are_the_same_on_neighbours(pair, seed):
    for body in broken_bodies(seed):
        told = []
        for running in pair:
            answer = running.http.post(
                "/v1/models/triage/predict",
                content=body,
                headers={"x-api-key": running.analyst},
            )
            assert answer.status_code < 500
            told.append(seen(answer))
        assert told[0] == told[1]


def test_a_difference_would_be_seen(pair):
    first, second = pair
    before = seen(first.predict({**ROW, "age": 7}))
    second.service.registry.models["triage"].stored.schema.__dict__.pop(
        "_row_reader", None
    )
    second.predict({**ROW, "age": 8})
    after = seen(second.predict({**ROW, "age": 7}))
    assert before != after  # one more answer was spent
