"""A certificate of a model names the total over all periods, and derives it (G22)."""

import dataclasses
import json
import math
from fractions import Fraction

import pytest

from reticent._numbers import exact
from reticent.cli.main import main
from reticent.dossier import read_facts, signed_certificate, verified_certificate
from reticent.dossier.credentials import issuing_key
from reticent.dossier.edpb import edpb_section
from reticent.errors import (
    BudgetExhaustedError,
    CertificateError,
    InvalidParameterError,
    RuleError,
)
from reticent.guarantees import (
    OTHER_CHARGES,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Certificate,
    Filter,
    PureDP,
    ReplaceOne,
    Scope,
    best_guess,
    claim,
    recheck,
    step_rho,
    whole_cap,
    within_filter,
    zcdp_epsilon,
)
from reticent.home import (
    FitOptions,
    Home,
    MemoryKeys,
    Role,
    dataset_account,
    renew_budget,
    split_budget,
    total_over_periods,
    train_and_store,
)
from reticent.ledger import Charge, Request
from reticent.service import create_app
from reticent.service.dashboard.promises import promise_of_account
from reticent.service.v1.admin import make_key
from reticent.service.v1.documents import NewKey
from tests.cli.test_periods import EACH, GIVEN, PERIODS, SCHEMA, TOTAL, ask, home, rows
from tests.service.local_client import local_client

assert home  # a fixture

PER_PERIOD = int(TOTAL / PERIODS / EACH)


def run(home, capsys, *words, code=0):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words), "--home", str(home.path)])
    told = capsys.readouterr()
    assert ended.value.code == code, told.err
    return told.out + told.err if code else told.out


def total_of(home, **given):
    settings = home.settings()
    stored = settings.load_model("model")
    with settings.open_ledger() as ledger:
        return total_over_periods(
            settings, ledger, "clinic", stored.certificate, **given
        )


def of_answer(loss, scope=Scope.ANSWER):
    return claim(loss, ReplaceOne(100), scope, statement="for the test")


@pytest.mark.parametrize("period", range(1, PERIODS + 1))
def test_the_total_is_that_of_all_periods_in_every_one_of_them(home, tmp_path, period):
    split_budget(home, "clinic", PERIODS)
    for number in range(2, period + 1):
        ask(home, 1, 10 * number)
        renew_budget(home, "clinic", rows(tmp_path / "new.csv", 0, 100 + 40 * number))
    found = total_of(home)
    assert (found.period, found.periods) == (period, PERIODS)
    assert found.certificate.guarantee == PureDP(TOTAL)
    assert found.certificate.rule == "G22-filter"
    (own,) = found.certificate.premises
    assert own == home.settings().load_model("model").certificate
    assert found.certificate.parameter("counts") == (PER_PERIOD,)
    assert found.certificate.answer_count() == PERIODS * PER_PERIOD
    assert OTHER_CHARGES in found.certificate.assumptions
    recheck(found.certificate)
    assert recheck(Certificate.from_json(found.certificate.to_json())) is None
    assert f"period {period}. A unit that stays in the data pays" in found.sentence()
    assert "ε = 4" in found.sentence()


def test_a_total_of_one_period_alone_does_not_follow(home):
    """The negative control: the part of a period in the place of the total."""
    split_budget(home, "clinic", PERIODS)
    good = total_of(home).certificate
    part = PureDP(TOTAL / PERIODS)
    with pytest.raises(CertificateError, match="concludes 4-DP"):
        recheck(dataclasses.replace(good, guarantee=part))
    # With the part as the cap it does not follow either: all periods charge more.
    with pytest.raises(RuleError, match="within"):
        whole_cap(good.premises[0], Filter(part.epsilon), PERIODS * PER_PERIOD)


def test_without_periods_there_is_no_such_total(home):
    assert total_of(home) is None


def test_what_would_hide_the_total_is_refused(home):
    split_budget(home, "clinic", PERIODS)
    assert total_of(home, answers=PER_PERIOD).certificate.guarantee == PureDP(TOTAL)
    with pytest.raises(InvalidParameterError, match=r"admits at most 2 .*4 periods"):
        total_of(home, answers=PER_PERIOD + 1)


def test_a_cap_below_what_is_spent_is_not_the_total(home):
    split_budget(home, "clinic", PERIODS)
    assert ask(home, PER_PERIOD) == PER_PERIOD
    lowered(home, 0.75)
    found = total_of(home)
    assert found.certificate.guarantee.epsilon >= PER_PERIOD * EACH
    recheck(found.certificate)


@pytest.mark.parametrize("periods", [1, PERIODS])
def test_nothing_says_that_a_cap_below_what_is_spent_holds(home, capsys, periods):
    if periods > 1:
        split_budget(home, "clinic", periods)
    assert ask(home, PER_PERIOD) == PER_PERIOD
    reached = PER_PERIOD * EACH
    lowered(home, 0.75)
    promised = f"at most {math.ceil(100 * best_guess(PureDP(reached)))} times"
    false = f"at most {math.ceil(100 * best_guess(PureDP(0.75)))} times"
    told = [capsys.readouterr().out]
    told.append(run(home, capsys, "models", "show", "model"))
    facts = read_facts(home, "model")
    document = signed_certificate(facts, issuing_key(home))
    assert float(verified_certificate(json.dumps(document))["epsilon"]) == reached
    with home.settings().open_ledger() as ledger:
        account = promise_of_account(
            ledger.balance(dataset_account("clinic")), who="one row"
        )
    for each in (*told, facts.plain, account["sentence"]):
        assert promised in each
        assert false not in each
    assert "ε = 0.75" in account["numbers"]  # of which nothing is left


def test_a_cap_that_never_pays_has_no_total(home):
    split_budget(home, "clinic", PERIODS)
    lowered(home, 0.25)
    with pytest.raises(BudgetExhaustedError, match="can never pay"):
        total_of(home)


def test_a_cap_below_releases_and_deltas_is_not_the_total(tmp_path, monkeypatch):
    """One charge has no epsilon, another has a delta: the sum of rhos says enough."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    home = Home.at(tmp_path / "home")
    data = rows(tmp_path / "first.csv", 0, 100)
    options = FitOptions(**GIVEN, budget=TOTAL, delta=1e-6, learner="linear")
    train_and_store(home, data, SCHEMA, options)
    split_budget(home, "clinic", PERIODS)
    settings = home.settings()
    with settings.open_ledger() as ledger:
        for loss in (ZCDP(0.02), ApproxDP(0.1, 1e-9)):
            ledger.charge(
                Request(
                    key=f"/test/{loss}".replace(" ", ""),
                    accounts=(dataset_account("clinic"),),
                    charge=Charge.of(of_answer(loss, Scope.MODEL)),
                    queries=(b"a release",),
                )
            )
    promised = zcdp_epsilon(0.02, 1e-6)  # of the first charge alone
    assert total_of(home).certificate.guarantee == ApproxDP(TOTAL, 1e-6)
    lowered(home, EACH)
    assert promised > EACH
    found = total_of(home).certificate
    recheck(found)
    assert found.guarantee.epsilon >= promised
    assert found.guarantee.epsilon < TOTAL


def test_a_lasting_model_has_the_total_of_a_budget_that_was_split_later(
    tmp_path, monkeypatch
):
    """Its own delta is beyond what the cap keeps for deltas: it was paid as rho."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    home = Home.at(tmp_path / "home")
    options = FitOptions(**GIVEN, budget=TOTAL, delta=1e-6, lasting=True)
    train_and_store(home, rows(tmp_path / "first.csv", 0, 100), SCHEMA, options)
    assert total_of(home) is None
    split_budget(home, "clinic", PERIODS)
    found = total_of(home).certificate
    recheck(found)
    assert found.guarantee == ApproxDP(TOTAL, 1e-6)
    own = home.settings().load_model("model").certificate
    assert own.guarantee.delta == 1e-6
    assert own.premises[0] in found.walk()
    lowered(home, EACH / 2)
    assert total_of(home).certificate.guarantee.epsilon > EACH / 2


def test_a_budget_for_zeroing_a_unit_is_not_told_as_two_facts(
    tmp_path, monkeypatch, capsys
):
    """Two facts about a unit are further apart than one of them and nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    home = Home(tmp_path / "home")
    data, schema = rows(tmp_path / "first.csv", 0, 100), tmp_path / "schema.json"
    SCHEMA.write(schema)
    words = ["fit", data, "--schema", schema, "--dataset", "clinic", "--lasting"]
    words += ["--relation", "zero-out", "--epsilon", EACH, "--budget", TOTAL]
    told = [run(home, capsys, *words, "--delta", 1e-6, "--accept-noise")]
    told.append(run(home, capsys, "accounts", "split", "clinic", "--periods", 2))
    for words in (
        ("certificate", "show", "model"),
        ("models", "show", "model"),
        ("ledger", "show"),
        ("accounts", "cap", "dataset:clinic", "--epsilon", 2),
    ):
        told.append(run(home, capsys, *words))
    facts = read_facts(home, "model")
    told.append(facts.plain)
    for each in told:
        assert "contributed at all" in each
        assert "likely facts" not in each
    (field,) = [f for f in edpb_section(facts).fields if f.id == "singling-out"]
    assert field.answer.startswith("Whether one value of the column 'who' contributed")


def lowered(home, epsilon):
    words = ["accounts", "cap", "dataset:clinic", "--epsilon", str(epsilon)]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--home", str(home.path)])
    assert ended.value.code == 0


def test_the_command_line_shows_and_checks_the_total(home, tmp_path, capsys):
    plain = json.loads(run(home, capsys, "certificate", "show", "model", "--json"))
    split_budget(home, "clinic", PERIODS)
    shown = run(home, capsys, "certificate", "show", "model")
    assert "is given out in 4 periods; this is period 1" in shown
    assert "4-DP for 8 answers" in shown
    told = json.loads(run(home, capsys, "certificate", "show", "model", "--json"))
    total = Certificate.from_dict(told)
    assert total.guarantee == PureDP(TOTAL)
    assert total.premises == (Certificate.from_dict(plain),)
    file = tmp_path / "total.json"
    file.write_text(json.dumps(told))
    assert "it follows: 4-DP" in run(home, capsys, "certificate", "check", file)
    told = json.loads(run(home, capsys, "certificate", "check", "model", "--json"))
    assert told["total"]["certificate"] == total.id
    assert told["total"]["periods"] == PERIODS
    words = ("certificate", "show", "model", "--answers", 3)
    assert "admits at most 2" in run(home, capsys, *words, code=2)
    words = ("certificate", "show", "model", "--answers", 2, "--json")
    told = json.loads(run(home, capsys, *words))
    assert Certificate.from_dict(told).guarantee == PureDP(TOTAL)


def test_fit_prints_the_total_of_answers_and_of_a_release(home, tmp_path, capsys):
    split_budget(home, "clinic", PERIODS)
    schema = tmp_path / "schema.json"
    SCHEMA.write(schema)
    words = ["fit", tmp_path / "first.csv", "--schema", schema, "--dataset", "clinic"]
    words += ["--learner", "linear", "--epsilon", EACH, "--accept-noise"]
    told = run(home, capsys, *words, "--name", "again")
    assert "What is promised to it is the total: ε = 4" in told
    told = run(home, capsys, *words, "--name", "out", "--release", "--json")
    found = json.loads(told)["total"]
    assert (found["period"], found["periods"]) == (1, PERIODS)
    assert found["stated"]["epsilon"] == TOTAL


def test_a_signed_certificate_is_the_total(home, tmp_path):
    before = read_facts(home, "model")
    assert before.over_periods is None
    split_budget(home, "clinic", PERIODS)
    facts = read_facts(home, "model")
    document = signed_certificate(facts, issuing_key(home))
    told = verified_certificate(json.dumps(document))
    signed = Certificate.from_json(told["certificate"])
    assert signed == facts.over_periods.certificate
    assert signed.guarantee == PureDP(float(told["epsilon"]))
    assert told["headline"] == signed.headline() != facts.certificate.headline()


def test_the_service_names_the_total_and_serves_its_derivation(home, tmp_path):
    given = {**GIVEN, "dataset": "other", "name": "other", "epsilon": EACH / 2}
    options = FitOptions(**given, learner="linear", budget=TOTAL, delta=0.0)
    train_and_store(home, tmp_path / "first.csv", SCHEMA, options)
    split_budget(home, "clinic", PERIODS)
    settings = dataclasses.replace(home.settings(), rate=0)
    app = create_app(settings, keys=MemoryKeys())
    with local_client(app) as http:
        service = app.state.service
        keys = [
            make_key(service, NewKey(client=name, role=role.value), "the tests")[0]
            for name, role in (("ward-7", Role.ANALYST), ("boss", Role.ADMIN))
        ]
        stranger = NewKey(client="ward-8", models=["other"])
        keys.append(make_key(service, stranger, "the tests")[0])

        def get(path, key=keys[0]):
            return http.get(path, headers={"x-api-key": key})

        model = get("/v1/models/model").json()
        other = get("/v1/models/other").json()
        assert other["total"] is None
        assert get("/v1/models").json()["models"] == [model, other]
        named = model["total"]
        assert named["stated"]["epsilon"] == TOTAL
        own = get(f"/v1/certificates/{model['certificate']}").json()
        assert own["total"] == named
        found = get(f"/v1/certificates/{named['certificate']}").json()
        total = Certificate.from_dict(found["certificate"])
        recheck(total)
        assert total.guarantee == PureDP(TOTAL)
        assert total.premises[0].id == model["certificate"]
        assert found["total"] == named
        # A key that may not ask the model learns of neither.
        for wanted in (model["certificate"], named["certificate"], "0" * 32):
            assert get(f"/v1/certificates/{wanted}", keys[2]).status_code == 404
        http.post("/login", data={"key": keys[1]})
        page = http.get(f"/certificates/{model['certificate']}").text
        assert "is given out in 4 periods" in page
        assert f'href="/certificates/{named["certificate"]}"' in page
        assert http.get(f"/certificates/{named['certificate']}").status_code == 200


@pytest.mark.parametrize(
    ("loss", "times", "counted"),
    [
        (PureDP(0.3), 13, "epsilon"),
        (BoundedRange(0.05), 70, "epsilon"),
        (BoundedRange(0.05), 100, "rho"),
        (ZCDP(0.001), 20, "rho"),
        (ApproxDP(0.1, 1e-10), 39, "epsilon"),
    ],
)
def test_a_whole_cap_is_the_cap_s_promise_whatever_else_it_admits(loss, times, counted):
    cap = Filter(4.0, 1e-6, 5e-8, 5e-8)
    found = whole_cap(of_answer(loss), cap, times, 4 * times)
    recheck(found)
    assert found.guarantee == ApproxDP(4.0, 1e-6)
    assert found.answer_count() == 4 * times
    # The others take all that is left, and not more.
    one = step_rho(loss) if counted == "rho" else loss.epsilon
    limit = cap.rho if counted == "rho" else cap.epsilon
    left = exact(limit) - times * exact(one)
    other = exact(found.parameter(f"other_{counted}"))
    assert 0 <= left - other <= left * Fraction(1, 2**50)
    more = dict(found.details) | {f"other_{counted}": float(left) * (1 + 1e-9)}
    with pytest.raises(RuleError, match="within"):
        within_filter(of_answer(loss), **more)


@pytest.mark.parametrize(
    "loss", [PureDP(4.5), ZCDP(10.0), ApproxDP(0.1, 1e-7), BoundedRange(9.0)]
)
def test_a_charge_that_never_fits_has_no_whole_cap(loss):
    with pytest.raises(RuleError, match="within"):
        whole_cap(of_answer(loss), Filter(4.0, 1e-6, 5e-8, 5e-8), 1)


def test_a_release_is_charged_once_and_has_the_same_total(home, tmp_path):
    split_budget(home, "clinic", PERIODS)
    options = FitOptions(**GIVEN, name="out", release=True, learner="linear")
    train_and_store(home, tmp_path / "first.csv", SCHEMA, options)
    settings = home.settings()
    certificate = settings.load_model("out").certificate
    with settings.open_ledger() as ledger:
        found = total_over_periods(settings, ledger, "clinic", certificate)
    assert found.certificate.guarantee == PureDP(TOTAL)
    assert found.certificate.premises == (certificate,)
    recheck(found.certificate)
