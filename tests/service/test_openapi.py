"""The API is what its own description says, and nothing makes it fail (row 21)."""

import re
import subprocess
import sys

import pytest

from reticent.home import MemoryKeys, Role
from reticent.ledger import MemoryLedger
from reticent.service import create_app
from tests.service.clinic import Clinic, settings_for
from tests.service.live_server import in_thread

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
]


@pytest.fixture
def app(tmp_path):
    settings = settings_for(
        tmp_path,
        datasets={"clinic": {"epsilon": 1e6}},
        client_budget={"epsilon": 1e6},
    )
    return create_app(settings, ledger=MemoryLedger(), keys=MemoryKeys())


def fuzz(app, folder, *options, examples, seed):
    """Run schemathesis as its users do; return what it printed and its verdict."""
    clinic = Clinic(app, None, "", "")
    key = clinic.key("boss", Role.ADMIN)
    clinic.service.access._lookups._rate = 0
    model = clinic.service.registry.models["triage"]
    config = folder / "schemathesis.toml"
    config.write_text(
        f'[parameters]\n"path.name" = "triage"\n"path.version" = "{model.stored.id}"\n'
        # Its own list lacks 413: a body that is wrong and too large is not read.
        "[checks.negative_data_rejection]\nexpected-statuses = "
        "[400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429]\n"
    )
    with in_thread(app) as url:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli"),
                *("--config-file", str(config), "run", f"{url}/openapi.json"),
                *("-H", f"Authorization: Bearer {key}", "--no-color"),
                *("--phases", "examples,coverage,fuzzing", "-c", ",".join(CHECKS)),
                *("-n", str(examples), "--seed", str(seed)),
                *("--suppress-health-check", "all", "--continue-on-failure"),
                *("--generation-database", ":memory:", *options),
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
        )
    return done.returncode, done.stdout + done.stderr


def test_schemathesis_finds_nothing(app, tmp_path, seed):
    code, told = fuzz(app, tmp_path, examples=12, seed=seed)
    assert code == 0, told[-6000:]
    assert int(re.search(r"(\d+) generated", told)[1]) > 300


@pytest.mark.long
def test_schemathesis_finds_nothing_in_a_long_run(app, tmp_path, seed):
    code, told = fuzz(app, tmp_path, examples=400, seed=seed)
    assert code == 0, told[-6000:]


def test_schemathesis_would_notice(app, tmp_path, monkeypatch):
    model = app.state.service.registry.models["triage"]
    monkeypatch.setattr(type(model), "describe", lambda self: {"name": "triage"})
    broken = ("--include-path-regex", "^/v1/models")
    code, told = fuzz(app, tmp_path, *broken, examples=2, seed=1)
    assert code == 1
    assert "Server error" in told or "[500]" in told


def test_every_operation_is_described(app):
    document = app.openapi()
    assert document["openapi"].startswith("3.")
    names = set(document["components"]["schemas"])
    assert not {"HTTPValidationError", "ValidationError"} & names
    references = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert references <= names
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            assert operation.get("description") or operation.get("summary"), where
            keyed = path.startswith(("/v1", "/v2/models"))
            assert ("security" in operation) == keyed, where
            if keyed:
                assert {"401", "429", "503"} <= set(operation["responses"]), where
    assert document is app.openapi()


def test_examples_are_there_for_bodies_and_answers(app):
    schemas = app.openapi()["components"]["schemas"]
    for name in ("PredictBody", "Prediction", "Problem", "NewKey"):
        assert schemas[name]["examples"]
