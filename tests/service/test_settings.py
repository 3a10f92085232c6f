"""Settings: from environment or file, checked, and silent about secrets."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from reticent.errors import InvalidParameterError, ModelFileError
from reticent.home import (
    BudgetSettings,
    ConsensusSettings,
    DatasetSettings,
    ModelSettings,
    Settings,
)
from reticent.signing import new_key, write_key_file
from tests.service.clinic import MODEL_KEY, SECRET

BASE = {
    "models": {"triage": "models/triage"},
    "datasets": {"clinic": {"epsilon": 4.0}},
    "ledger": "sqlite:///ledger.db",
    "checkpoints": "none",
    "secret": SECRET,
    "model_key": MODEL_KEY,
}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    monkeypatch.delenv("RETICENT_CONFIG", raising=False)


def test_a_bare_path_is_a_model():
    settings = Settings.load(**BASE)
    assert str(settings.models["triage"].path) == "models/triage"
    assert settings.models["triage"].remember
    assert settings.second_place is None


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_files_are_read_and_the_environment_goes_before_them(
    suffix, tmp_path, monkeypatch
):
    path = tmp_path / f"settings{suffix}"
    path.touch(0o600)
    if suffix == ".json":
        path.write_text(json.dumps({**BASE, "port": 1111, "max_rows": 7}))
    else:
        path.write_text(
            f'ledger = "sqlite:///ledger.db"\ncheckpoints = "none"\n'
            f'secret = "{SECRET}"\nmodel_key = "{MODEL_KEY}"\nport = 1111\n'
            'max_rows = 7\n[models]\ntriage = "models/triage"\n'
            "[datasets.clinic]\nepsilon = 4.0\n"
        )
    monkeypatch.setenv("RETICENT_PORT", "2222")
    monkeypatch.setenv("RETICENT_DATASETS__clinic__delta", "1e-6")
    monkeypatch.setenv("RETICENT_DASHBOARD", "off")
    settings = Settings.load(path)
    assert settings.dashboard is False
    assert (settings.port, settings.max_rows) == (2222, 7)
    assert settings.datasets["clinic"] == DatasetSettings(epsilon=4.0, delta=1e-6)
    monkeypatch.setenv("RETICENT_CONFIG", str(path))
    assert Settings.load().max_rows == 7
    assert Settings.load(max_rows=8).max_rows == 8


def test_everything_can_come_from_the_environment(monkeypatch):
    for name, value in BASE.items():
        text = value if isinstance(value, str) else json.dumps(value)
        monkeypatch.setenv(f"RETICENT_{name.upper()}", text)
    assert Settings.load() == Settings.load(**BASE)


@pytest.mark.parametrize("first", ["whole", "part"])
def test_the_environment_is_laid_over_the_file_part_by_part(
    first, tmp_path, monkeypatch
):
    path = tmp_path / "settings.json"
    model = {"path": "m", "remember": False, "budget": {"epsilon": 1.0}}
    budget = {"epsilon": 4.0, "delta": 1e-6, "method": "zcdp"}
    path.touch(0o600)
    path.write_text(
        json.dumps({**BASE, "models": {"m": model}, "datasets": {"clinic": budget}})
    )
    variables = [
        ("RETICENT_DATASETS", '{"clinic": {"epsilon": 9}}'),
        ("RETICENT_DATASETS__clinic__epsilon", "2"),
    ]
    for name, text in variables if first == "whole" else variables[::-1]:
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("RETICENT_MODELS", '{"m": {"path": "elsewhere"}}')
    settings = Settings.load(path)
    assert settings.datasets["clinic"] == DatasetSettings(**{**budget, "epsilon": 2})
    assert str(settings.models["m"].path) == "elsewhere"
    assert settings.models["m"].budget == BudgetSettings(epsilon=1.0)
    assert not settings.models["m"].remember


def test_texts_of_the_environment_are_texts(monkeypatch, tmp_path):
    monkeypatch.setenv("RETICENT_CHECKPOINTS", "null")
    settings = Settings.load(**{n: v for n, v in BASE.items() if n != "checkpoints"})
    assert settings.second_place is not None
    assert str(settings.checkpoints) == "null"


WRONG = {
    "debug": {"debug": True},
    "unknown setting": {"verbose": True},
    "no ledger": {"ledger": None},
    "negative epsilon": {"datasets": {"clinic": {"epsilon": -1.0}}},
    "nan epsilon": {"datasets": {"clinic": {"epsilon": float("nan")}}},
    "infinite epsilon": {"datasets": {"clinic": {"epsilon": float("inf")}}},
    "minus zero": {"datasets": {"clinic": {"epsilon": -0.0}}},
    "subnormal": {"datasets": {"clinic": {"epsilon": 5e-324}}},
    "huge epsilon": {"datasets": {"clinic": {"epsilon": 1e300}}},
    "delta above one": {"datasets": {"clinic": {"epsilon": 1, "delta": 2.0}}},
    "slack without delta": {
        "datasets": {"clinic": {"epsilon": 1, "method": "zcdp", "slack": 0.1}}
    },
    "budget with a typo": {"datasets": {"clinic": {"epsilon": 1, "detla": 0}}},
    "a name that is none": {"datasets": {"../clinic": {"epsilon": 1}}},
    "no checkpoints, unsaid": {"checkpoints": None},
    "a negative slack": {"datasets": {"clinic": {"epsilon": 1, "slack": -0.1}}},
    "a slack that is no number": {
        "datasets": {"clinic": {"epsilon": 1, "slack": float("nan")}}
    },
    "a dataset of nothing": {"datasets": {"clinic": None}},
    "a model of nothing": {"models": {"t": None}},
    "consensus at a loss below zero": {
        "models": {
            "t": {"path": "x", "consensus": {"epsilon": -1, "delta": 0.1, "queries": 9}}
        }
    },
    "no secret": {"secret": None},
    "no model key": {"model_key": None},
    "two secrets": {"secret_file": "x"},
    "two model keys": {"model_key_file": "x"},
    "no workers": {"workers": 0},
    "a switch that is neither on nor off": {"dashboard": "perhaps"},
    "memory that is neither on nor off": {
        "models": {"t": {"path": "x", "remember": "off"}}
    },
    "a model without a path": {"models": {"t": {"remember": True}}},
    "a start that is none": {"start": "half"},
    "no port": {"port": 70000},
    "no rows": {"max_rows": 0},
    "rate not a number": {"rate": float("nan")},
    "consensus without delta": {
        "models": {"t": {"path": "x", "consensus": {"epsilon": 1, "queries": 9}}}
    },
    "cache for an hour": {"key_cache_seconds": 3600},
}


def test_minus_zero_is_refused_after_zero():
    from reticent.home import BudgetSettings

    assert BudgetSettings(epsilon=0.0).cap().limits.epsilon == 0
    with pytest.raises(InvalidParameterError):
        BudgetSettings(epsilon=-0.0)


@pytest.mark.parametrize("name", WRONG)
def test_settings_that_make_no_sense_are_refused(name):
    with pytest.raises(InvalidParameterError) as refusal:
        Settings.load(**{**BASE, **WRONG[name]})
    assert SECRET not in str(refusal.value)
    assert MODEL_KEY not in str(refusal.value)


def test_errors_and_reprs_show_no_secret():
    assert SECRET not in repr(Settings.load(**BASE))
    with pytest.raises(InvalidParameterError) as refusal:
        Settings.load(**{**BASE, "secret": "hmac-sha256:oops"}).master()
    assert "oops" not in str(refusal.value)


def test_a_file_with_secrets_must_be_private(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(BASE))
    path.chmod(0o644)
    with pytest.raises(InvalidParameterError, match="others can read"):
        Settings.load(path)
    path.chmod(0o600)
    assert Settings.load(path).secret is not None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.yaml", "x", r"\.toml or a \.json"),
        ("s.json", "{", "not valid json"),
        ("s.toml", "= 1", "not valid toml"),
        ("s.json", "[1]", "not valid json"),
    ],
)
def test_files_that_are_none_are_refused(name, content, message, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidParameterError, match=message):
        Settings.load(tmp_path / name)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InvalidParameterError, match="is not there"):
        Settings.load(tmp_path / "nothing.toml")


def test_keys_may_come_from_private_files(tmp_path):
    for name in ("secret", "model", "encryption"):
        kind = "aes-256-gcm" if name == "encryption" else "hmac-sha256"
        write_key_file(tmp_path / name, new_key(kind))
    given = {**BASE, "secret": None, "model_key": None}
    settings = Settings.load(
        **given,
        secret_file=tmp_path / "secret",
        model_key_file=tmp_path / "model",
        encryption_key_file=tmp_path / "encryption",
    )
    assert len(settings.master()) == 32
    (tmp_path / "secret").chmod(0o640)
    with pytest.raises(ModelFileError, match="600"):
        settings.master()


def test_keys_for_different_purposes_differ():
    settings = Settings.load(**BASE)
    purposes = ("api-keys", "sessions", "checkpoints")
    assert len({settings.derived(purpose) for purpose in purposes}) == 3
    sessions = settings.derived("sessions")
    assert sessions == settings.derived("sessions")
    other = Settings.load(**{**BASE, "secret": new_key()})
    assert other.derived("sessions") != sessions


PAGE = Path(__file__).parents[2] / "docs" / "explain" / "service.md"


def test_every_setting_is_explained_with_its_default():
    table = PAGE.read_text("utf-8").split("| setting |")[1].split("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert {each.name for each in fields(Settings)} == set(
        re.findall(r"`(\w+)`", " ".join(cells))
    )
    page = PAGE.read_text("utf-8")
    for kind in (ModelSettings, BudgetSettings, ConsensusSettings):
        for name in [field.name for field in fields(kind)]:
            assert f"`{name}`" in page, name


def test_the_settings_on_the_page_are_settings(tmp_path):
    people, text = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    path = tmp_path / "service.toml"
    path.write_text(text + people)
    loaded = Settings.load(path)
    assert loaded.oidc.admins == ("privacy-office",)
    assert loaded.models["readmission"].budget.epsilon == 20.0
    assert loaded.datasets["clinic"].delta == 1e-6
    assert (loaded.workers, loaded.metrics_port) == (2, 9100)
