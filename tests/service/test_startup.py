"""The service does not start when something would weaken privacy."""

import shutil

import pytest

from reticent.errors import (
    BudgetExhaustedError,
    CertificateError,
    InvalidParameterError,
    LedgerError,
    ModelFileError,
    NotDeployableError,
)
from reticent.guarantees import AddRemove
from reticent.home import (
    MemoryKeys,
    charge_release,
    client_account,
    dataset_account,
)
from reticent.ledger import NO_SPEND, Cap, MemoryLedger, SQLLedger
from reticent.prediction import PrivateVotingClassifier
from reticent.schemas import Encoder
from reticent.service import create_app
from reticent.signing import new_key
from tests.service.clinic import (
    MODEL_KEY,
    ROW,
    TRIAGE,
    clinic,
    records,
    settings_for,
    store,
)
from tests.storage.workshop import forge, sign


def refuses(error, message, settings, **collaborators):
    collaborators.setdefault("keys", MemoryKeys())
    collaborators.setdefault("ledger", MemoryLedger())
    with pytest.raises(error, match=message):
        create_app(settings, **collaborators)


def test_unsigned_models_are_not_served(tmp_path):
    settings = settings_for(tmp_path)
    (tmp_path / "triage" / "manifest.sig").unlink()
    refuses(ModelFileError, "not signed", settings)


def test_models_signed_by_somebody_else_are_not_served(tmp_path):
    settings = settings_for(tmp_path, model_key=new_key())
    refuses(ModelFileError, "another key", settings)


def test_models_that_others_can_read_are_not_served(tmp_path):
    settings = settings_for(tmp_path)
    (tmp_path / "triage").chmod(0o755)
    refuses(ModelFileError, "others can read", settings)


def test_models_with_seeded_noise_are_not_served(tmp_path, monkeypatch):
    table = records(TRIAGE)
    seeded = PrivateVotingClassifier(
        fitted_base(), 0.5, TRIAGE.classes, 15, random_state=7
    ).fit(Encoder(TRIAGE).transform(table), TRIAGE.classes[table.label])
    settings = settings_for(tmp_path)
    monkeypatch.setattr("tests.storage.workshop.KEY", MODEL_KEY)
    claim = seeded.certificate_.as_dict()
    forge_here(tmp_path / "triage", lambda m: m.update(certificate=claim))
    refuses(NotDeployableError, "SEEDED_NOISE", settings)


def fitted_base():
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=200)


def forge_here(folder, change):
    forge(folder, change)
    sign(folder, MODEL_KEY)


def test_models_whose_certificate_was_changed_are_not_served(tmp_path):
    settings = settings_for(tmp_path)

    def smaller(manifest):
        manifest["certificate"]["guarantee"]["epsilon"] = 0.01

    forge_here(tmp_path / "triage", smaller)
    refuses(CertificateError, "concludes", settings)


def test_a_dataset_without_a_budget_is_not_served(tmp_path):
    settings = settings_for(tmp_path, datasets={"other": {"epsilon": 1.0}})
    refuses(NotDeployableError, r"datasets\.clinic\.epsilon", settings)


def test_a_budget_that_no_answer_fits_is_refused(tmp_path):
    settings = settings_for(tmp_path, datasets={"clinic": {"epsilon": 0.4}})
    refuses(NotDeployableError, "can never pay", settings)


def test_settings_tighter_than_the_ledger_are_refused_and_wider_ones_kept(tmp_path):
    ledger = MemoryLedger()
    account = dataset_account("clinic")
    ledger.open_account(account, Cap.basic(epsilon=10.0))
    tighter = settings_for(tmp_path, datasets={"clinic": {"epsilon": 5.0}})
    refuses(NotDeployableError, "larger cap", tighter, ledger=ledger)
    other = settings_for(tmp_path, datasets={"clinic": {"epsilon": 10, "delta": 1e-6}})
    create_app(other, ledger=ledger, keys=MemoryKeys())
    assert ledger.balance(account).cap == Cap.basic(epsilon=10.0)
    wider = settings_for(tmp_path, datasets={"clinic": {"epsilon": 50.0}})
    create_app(wider, ledger=ledger, keys=MemoryKeys())
    assert ledger.balance(account).cap == Cap.basic(epsilon=10.0)


def test_models_under_different_relations_are_not_served_together(tmp_path):
    from reticent.home import registry_of
    from reticent.storage import load_model

    settings = settings_for(tmp_path)
    one = load_model(tmp_path / "triage", signing_key=MODEL_KEY)
    other = load_model(tmp_path / "triage", signing_key=MODEL_KEY)
    object.__setattr__(other.certificate, "relation", AddRemove())
    with pytest.raises(NotDeployableError, match="different relations"):
        registry_of({"one": one, "other": other}, settings)


def test_a_ledger_behind_its_checkpoint_is_refused(tmp_path):
    settings = settings_for(tmp_path, checkpoints=tmp_path / "checkpoint")

    def answers(count):
        with clinic(settings, ledger=settings.open_ledger()) as running:
            for age in range(count):
                assert running.predict({**ROW, "age": age}).is_success

    answers(2)
    database = tmp_path / "ledger.db"
    shutil.copy(database, tmp_path / "backup.db")
    answers(4)
    shutil.copy(tmp_path / "backup.db", database)
    with pytest.raises(LedgerError, match="behind its checkpoint"):
        create_app(settings)


def test_a_changed_ledger_is_refused(tmp_path):
    import sqlite3

    settings = settings_for(tmp_path)
    with clinic(settings, ledger=SQLLedger(settings.ledger)) as running:
        assert running.predict().is_success
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("UPDATE ledger_accounts SET spent_epsilon = 0")
    connection.close()
    with pytest.raises(LedgerError, match="row was changed"):
        create_app(settings)


def test_a_checkpoint_signed_with_another_secret_is_refused(tmp_path):
    settings = settings_for(tmp_path, checkpoints=tmp_path / "checkpoint")
    settings.open_ledger().close()
    changed = settings_for(
        tmp_path, checkpoints=tmp_path / "checkpoint", secret=new_key()
    )
    with pytest.raises(LedgerError, match="another key"):
        create_app(changed)


def test_a_ledger_that_others_can_read_is_refused(tmp_path):
    settings = settings_for(tmp_path)
    (tmp_path / "ledger.db").touch()
    (tmp_path / "ledger.db").chmod(0o644)
    with pytest.raises(LedgerError, match="others can read"):
        create_app(settings)


def test_a_service_without_models_is_refused(tmp_path):
    refuses(InvalidParameterError, "no model", settings_for(tmp_path, models={}))


def test_consensus_without_enough_shards_is_refused(tmp_path):
    path = store(tmp_path)
    consensus = {"epsilon": 2.0, "delta": 1e-6, "queries": 100}
    settings = settings_for(
        tmp_path, models={"triage": {"path": path, "consensus": consensus}}
    )
    refuses(InvalidParameterError, "needs about", settings)


def test_consensus_needs_votes(tmp_path):
    path = store(tmp_path, "cost")
    consensus = {"epsilon": 2.0, "delta": 1e-6, "queries": 100}
    settings = settings_for(
        tmp_path, models={"cost": {"path": path, "consensus": consensus}}
    )
    refuses(InvalidParameterError, "kind 'voting'", settings)


def test_a_model_may_have_a_cap_of_its_own(tmp_path):
    path = store(tmp_path)
    settings = settings_for(
        tmp_path, models={"triage": {"path": path, "budget": {"epsilon": 1.0}}}
    )
    with clinic(settings) as running:
        assert running.predict({**ROW, "age": 1}, {**ROW, "age": 2}).is_success
        refused = running.predict({**ROW, "age": 3}).json()["error"]
        assert refused["code"] == "budget_exhausted"
        assert "model:triage" in refused["message"]
        spent = running.service.ledger.balance(client_account("ward-7")).spent
        assert spent.answers == 2


def released(tmp_path, epsilon):
    from reticent.learners import OutputPerturbationClassifier
    from reticent.storage import save_model

    table, encoder = records(TRIAGE), Encoder(TRIAGE)
    model = OutputPerturbationClassifier(
        epsilon, norm_bound=3.0, classes=TRIAGE.classes.tolist()
    ).fit(encoder.transform(table), TRIAGE.classes[table.label])
    path = tmp_path / "public"
    save_model(path, model, TRIAGE, signing_key=MODEL_KEY, dataset="clinic")
    return path


@pytest.mark.parametrize("kind", ["memory", "sql"])
def test_a_release_that_was_not_charged_is_refused_and_stays_so(tmp_path, kind):
    settings = settings_for(tmp_path, models={"public": released(tmp_path, 2.0)})
    ledger = MemoryLedger() if kind == "memory" else SQLLedger(settings.ledger)
    for _ in range(2):  # opening a service pays for nothing
        refuses(NotDeployableError, "charge_release", settings, ledger=ledger)
        assert ledger.balance(dataset_account("clinic")).spent == NO_SPEND
    charge_release(ledger, settings.load_model("public"))
    create_app(settings, ledger=ledger, keys=MemoryKeys())
    assert ledger.balance(dataset_account("clinic")).spent.epsilon == 2 * 10**9
    ledger.close()


def test_only_releases_are_charged_as_such(tmp_path):
    model = settings_for(tmp_path).load_model("triage")
    with pytest.raises(InvalidParameterError, match="each of its answers"):
        charge_release(MemoryLedger(), model)


def test_released_models_answer_for_nothing_but_their_release_is_charged(tmp_path):
    path = released(tmp_path, 2.0)
    settings = settings_for(tmp_path, models={"public": path})
    ledger = MemoryLedger()
    account = dataset_account("clinic")
    ledger.open_account(account, settings.datasets["clinic"].cap())
    for _ in range(2):  # charged once, however often
        charge_release(ledger, settings.load_model("public"))
        assert ledger.balance(account).spent.epsilon == 2 * 10**9
    with clinic(settings, ledger=ledger) as running:
        body = running.predict(ROW, ROW, model="public").json()
        assert body["charge"] == {
            "answers": 0,
            "each": {"per": "nothing", "epsilon": 0.0, "delta": 0.0, "rho": 0.0},
        }
        assert body["answers_left"] is None
        assert body["sequence"] is None
        assert body["answers"][0] == body["answers"][1]
        (model,) = running.get("/v1/budget").json()["models"]
        assert model["answers_left"] is None


def test_a_release_that_does_not_fit_the_budget_is_refused(tmp_path):
    path = released(tmp_path, 60.0)
    settings, ledger = settings_for(tmp_path, models={"public": path}), MemoryLedger()
    refuses(NotDeployableError, "never charged", settings, ledger=ledger)
    with pytest.raises(BudgetExhaustedError, match="dataset:clinic"):
        charge_release(ledger, settings.load_model("public"))
    refuses(NotDeployableError, "never charged", settings, ledger=ledger)
