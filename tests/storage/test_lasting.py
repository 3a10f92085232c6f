"""Stored lasting models: the same law to the bit, no use without their log (P10)."""

import contextlib
import itertools
import os

import numpy as np
import pytest

from reticent.errors import (
    InvalidParameterError,
    ModelFileError,
    NotDeployableError,
)
from reticent.guarantees import Budget
from reticent.home import charge_release, dataset_account
from reticent.ledger import Cap, MemoryLedger, SQLLedger
from reticent.mechanisms.individual import FULL
from reticent.prediction import (
    LastingAnswers,
    LastingInterface,
    PrivateNeighborsClassifier,
    PrivateNeighborsRegressor,
    begin_log,
    total_key,
)
from reticent.prediction.lasting import histories as states
from reticent.prediction.neighbors.spending import Lessons
from reticent.schemas import (
    Categorical,
    ClassLabel,
    Encoder,
    Numeric,
    NumericTarget,
    Schema,
)
from reticent.signing import new_key
from reticent.storage import load_model, save_model, unit_rows
from reticent.storage.kinds import Packed, kind_of

KEY = new_key()
COLUMNS = {"age": Numeric(0, 100), "ward": Categorical(("a", "b", "c"))}
RNG = np.random.default_rng(4)
ROWS = np.column_stack([RNG.uniform(0, 100, 300), RNG.integers(0, 3, 300)])
UNITS = np.arange(300) // 2
BUDGET = Budget(2.0, 1e-5)


def schema_of(kind):
    label = NumericTarget("risk", 0, 10) if kind == "number" else None
    if kind != "number":
        label = ClassLabel("ill", tuple(range(int(kind))))
    return Schema(columns=COLUMNS, label=label)


def fitted(kind, **settings):
    facts = {"columns": list(COLUMNS.values()), "delta": 1e-6, "local": "always"}
    facts |= settings
    if kind == "number":
        model = PrivateNeighborsRegressor(1.0, bounds=(0, 10), **facts)
        return model.fit(ROWS, ROWS[:, 0] / 10, units=UNITS)
    labels = (ROWS[:, 0] * int(kind) / 100).astype(int)
    model = PrivateNeighborsClassifier(1.0, classes=range(int(kind)), **facts)
    return model.fit(ROWS, labels, units=UNITS)


def stored(path, model, kind="2"):
    schema = schema_of(kind)
    save_model(
        path,
        model,
        schema,
        signing_key=KEY,
        encoder=Encoder(schema, style="ordinal"),
        dataset="people",
    )
    return load_model(path, signing_key=KEY)


def paid(model, ledger):
    account = dataset_account("people")
    ledger.open_account(account, Cap.within(BUDGET, relation=relation_of(model)))
    charge_release(ledger, model)
    return ledger


def relation_of(model):
    return model.certificate.relation.name


@pytest.fixture
def new_ledger(tmp_path):
    """Open ledgers that last, each in a file of its own."""
    with contextlib.ExitStack() as stack:
        number = itertools.count()

        def opened():
            url = f"sqlite:///{tmp_path / f'ledger-{next(number)}.db'}"
            return stack.enter_context(SQLLedger(url))

        yield opened


@pytest.mark.parametrize("kind", ["2", "3", "number"])
@pytest.mark.parametrize("prior", [True, False])
def test_a_law_comes_back_to_the_bit(tmp_path, kind, prior):
    model = fitted(kind, prior=prior, client_share=0.5, constant_time=prior)
    again = stored(tmp_path / "model", model, kind)
    assert again.certificate == model.certificate_
    one, two = model.law_, again.lasting
    assert one.identity == two.identity
    codes = one.encode(ROWS[:40])
    mine, theirs = one.start(), two.start()
    assert mine.to_bytes() == theirs.to_bytes()
    drawn = one.ask(codes, mine, "a")
    two.replay(codes, drawn.trace, theirs, "a")
    assert mine.to_bytes() == theirs.to_bytes()
    assert type(mine).from_bytes(mine.to_bytes()).to_bytes() == mine.to_bytes()
    packed = [
        kind_of(each).pack(each, again.encoder) for each in (model, again.predictor)
    ]
    assert packed[0].parameters == packed[1].parameters
    for name, array in packed[0].arrays.items():
        assert array.dtype == packed[1].arrays[name].dtype
        assert np.array_equal(array, packed[1].arrays[name])


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_a_stored_model_answers_through_the_ledger_that_was_charged(
    tmp_path, relation, new_ledger
):
    model = stored(tmp_path / "model", fitted("2", relation=relation))
    ledger = paid(model, new_ledger())
    interface = model.interface(BUDGET, ledger=ledger)
    told = interface.predict(ROWS[:5])
    assert interface.predict(ROWS[:5]).tolist() == told.tolist()
    once = ledger.balance(dataset_account("people")).spent
    charge_release(ledger, model)
    assert ledger.balance(dataset_account("people")).spent == once


def test_a_stored_model_is_of_no_use_without_its_log(tmp_path):
    model = stored(tmp_path / "model", fitted("2"))
    rows = model.schema.rows([{"age": 41, "ward": "a"}])
    with pytest.raises(NotDeployableError, match="ledger"):
        model.answer(rows)
    with pytest.raises(NotDeployableError, match="LastingInterface"):
        model.predictor.predict(ROWS[:1])
    for ledger in (None, MemoryLedger()):
        with pytest.raises(NotDeployableError, match="not charged"):
            model.interface(BUDGET, ledger=ledger)
        with pytest.raises(NotDeployableError, match="Two logs"):
            LastingInterface(model.predictor, ledger, budget=BUDGET)


def test_a_model_that_answered_in_memory_is_not_stored_or_begun_again(tmp_path):
    model = fitted("2")
    model.predict(ROWS[:1])
    with pytest.raises(InvalidParameterError, match="in memory"):
        stored(tmp_path / "model", model)
    with pytest.raises(NotDeployableError, match="in memory"):
        LastingInterface(model)


def saved(path, model):
    schema = schema_of("2")
    encoder = Encoder(schema, style="ordinal")
    facts = {"signing_key": KEY, "encoder": encoder, "dataset": "people"}
    save_model(path, model, schema, **facts)


def test_a_stored_model_does_not_answer_in_the_memory_of_its_fit(tmp_path, new_ledger):
    """What it spent there would not be known to whoever loads it."""
    model = fitted("2")
    saved(tmp_path / "model", model)
    with pytest.raises(NotDeployableError, match="was stored"):
        model.predict(ROWS[:1])
    for ledger in (None, MemoryLedger()):
        with pytest.raises(NotDeployableError, match="Two logs"):
            LastingInterface(model, ledger)
    ledger = paid(load_model(tmp_path / "model", signing_key=KEY), new_ledger())
    assert len(LastingInterface(model, ledger).predict(ROWS[:1])) == 1


def test_a_model_whose_log_ends_with_the_process_is_not_stored(tmp_path):
    for ledger in (None, MemoryLedger()):
        model = fitted("2")
        LastingInterface(model, ledger).predict(ROWS[:1])
        with pytest.raises(InvalidParameterError, match="in memory"):
            saved(tmp_path / "model", model)
    model = fitted("2")
    with SQLLedger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        told = LastingInterface(model, ledger).ask(ROWS[:1])
        saved(tmp_path / "model", model)
        states._histories.clear()  # as another process would start
        again = load_model(tmp_path / "model", signing_key=KEY)
        found = LastingInterface(again.predictor, ledger).ask(ROWS[:1])
        assert (found.n_new, found.evidence) == (0, told.evidence)


def test_a_log_does_not_begin_while_the_model_answers_in_memory():
    """The answer comes between the look at the memory and the first record."""
    model, answers = fitted("2"), []

    class Slow(MemoryLedger):
        def balance(self, account):
            if model.law_.identity in str(account) and not answers:
                answers.append(model.predict(ROWS[:1]))
            return super().balance(account)

    with pytest.raises(NotDeployableError, match="in memory"):
        LastingInterface(model, Slow())


def test_a_log_is_begun_in_one_ledger():
    model = fitted("2")
    begin_log(model.law_, first := MemoryLedger())
    with pytest.raises(NotDeployableError, match="Two logs"):
        begin_log(model.law_, MemoryLedger())
    begin_log(model.law_, first)


def test_a_model_with_a_log_does_not_answer_in_memory():
    model = fitted("2")
    LastingInterface(model)
    with pytest.raises(NotDeployableError, match="log of a ledger"):
        model.predict(ROWS[:1])


def test_a_model_whose_log_was_begun_does_not_answer_in_memory(tmp_path, new_ledger):
    model = fitted("2")
    ledger = paid(stored(tmp_path / "model", model), new_ledger())
    with pytest.raises(NotDeployableError, match="log of a ledger"):
        model.predict(ROWS[:1])
    # With nothing stored in between, too.
    model, other = fitted("2"), fitted("2")
    begin_log(model.law_, ledger)
    with pytest.raises(NotDeployableError, match="log of a ledger"):
        model.predict(ROWS[:1])
    other.predict(ROWS[:1])
    with pytest.raises(NotDeployableError, match="in memory"):
        begin_log(other.law_, ledger)


def test_a_stored_model_has_no_log_in_memory(tmp_path, new_ledger):
    """The next process would begin another one, and spend its units again."""
    model = stored(tmp_path / "model", fitted("2"))
    with pytest.raises(NotDeployableError, match="ledger that lasts"):
        paid(model, MemoryLedger())
    with pytest.raises(NotDeployableError, match="log is elsewhere"):
        LastingInterface(model.predictor, MemoryLedger())
    ledger = paid(model, new_ledger())
    assert len(model.interface(BUDGET, ledger=ledger).predict(ROWS[:2])) == 2


def test_a_second_charge_elsewhere_is_seen_by_who_has_used_the_first(
    tmp_path, new_ledger
):
    model = stored(tmp_path / "model", fitted("2"))
    model.interface(BUDGET, ledger=paid(model, new_ledger()))
    with pytest.raises(NotDeployableError, match="Two logs"):
        model.interface(BUDGET, ledger=paid(model, new_ledger()))


def test_arrays_that_do_not_fit_are_refused():
    model = fitted("2")
    encoder = Encoder(schema_of("2"), style="ordinal")
    kind = kind_of(model)
    packed = kind.pack(model, encoder)
    facts = {**packed.parameters, "labels": "values"}
    certificate = model.certificate_
    kind.unpack(Packed(facts, packed.arrays), encoder, certificate)
    states._histories.pop(model.law_.identity)
    wrong = {
        "codes": packed.arrays["codes"] + np.int16(2000),
        "unit": packed.arrays["unit"] + 10_000,
        "said": packed.arrays["said"] + np.int8(2),
        "fitted": packed.arrays["fitted"].astype(np.int64),
        "metric": -packed.arrays["metric"],
        "grid": packed.arrays["grid"] + 7,
        "grid_bins": packed.arrays["grid_bins"][1:],
        "values": packed.arrays["values"][:, 1:],
        "tables": packed.arrays["tables"] + np.uint16(9000),
        "asked": packed.arrays["asked"] + 5,
        "expected": packed.arrays["expected"][1:],
        "n_asked": packed.arrays["n_asked"] + 1,
    }
    for name, array in wrong.items():
        broken = Packed(facts, {**packed.arrays, name: array})
        with pytest.raises(ModelFileError):
            kind.unpack(broken, encoder, certificate)
    for name, value in {
        "relation": "add-remove",
        "plan": [1.0, 2.0],
        "lessons": [1, 2, 3, 4, "x"],
    }.items():
        with pytest.raises(ModelFileError):
            kind.unpack(
                Packed({**facts, name: value}, packed.arrays), encoder, certificate
            )
    with pytest.raises(ModelFileError):
        kind.unpack(
            Packed(facts, {**packed.arrays, "more": np.zeros(1)}), encoder, certificate
        )


def test_a_regressor_needs_the_bounds_of_the_schema(tmp_path):
    model = PrivateNeighborsRegressor(
        1.0, delta=1e-6, bounds=(0, 20), columns=list(COLUMNS.values())
    ).fit(ROWS, ROWS[:, 0] / 10)
    with pytest.raises(InvalidParameterError, match="bounds"):
        stored(tmp_path / "model", model, "number")


def test_of_units_with_the_same_rows_the_one_that_has_spent_least_is_dropped(tmp_path):
    """What is left to a person never exceeds what is left of their own budget.

    Their place may be the one that goes, and another's place, with the same rows and
    another account, the one that stays.
    """
    twins = np.tile([[50.0, 1.0]], (300, 1))
    model = PrivateNeighborsClassifier(
        1.0, classes=[0, 1], columns=list(COLUMNS.values()), local="always"
    ).fit(twins, np.arange(300) % 2)
    again = stored(tmp_path / "model", model)
    law, facts = again.lasting, {"paid": total_key(again.lasting.identity)}
    codes = law.encode(twins[:1])
    with SQLLedger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        paid(again, ledger)
        answers = LastingAnswers(law, ledger, **facts)
        answers.ask(codes, "anyone")
        now = answers.spending().spent
        assert np.array_equal(
            LastingAnswers(law, ledger, **facts).spending().spent, now
        )
    assert (now > law.fitted).any()
    accounts = [np.random.default_rng(seed).permutation(300) for seed in range(5)]
    for spent in (now, *accounts):
        for label in (0, 1):
            mine = np.array([label], dtype=law.votes.said_by.dtype)
            (gone,) = law.unit[unit_rows(again, codes, mine, spent)]
            alike = law.unit[law.votes.said_by == label]
            assert gone in alike
            left = FULL - spent[alike].astype(np.int64)
            assert (left <= FULL - int(spent[gone])).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks with threads
def test_a_copy_of_the_process_does_not_store_a_model(tmp_path):
    """Who fitted it would go on answering in memory, unknown to the file."""
    model = fitted("2")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            saved(tmp_path / "model", model)
        except NotDeployableError as refusal:
            code = 0 if "forked" in str(refusal) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not (tmp_path / "model").exists()
    model.predict(ROWS[:1])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks with threads
def test_a_copy_of_the_process_stores_a_model_that_no_longer_answers_in_memory(
    tmp_path,
):
    model = fitted("2")
    saved(tmp_path / "first", model)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            saved(tmp_path / "model", model)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def forget(monkeypatch):
    """Begin as another process would."""
    monkeypatch.setattr(states, "_histories", {})
    monkeypatch.setattr(states, "_newest", {})


def test_a_model_that_had_a_log_when_it_was_stored_begins_no_other(
    tmp_path, new_ledger, monkeypatch
):
    model, first, second = fitted("2"), new_ledger(), new_ledger()
    told = LastingInterface(model, first, dataset="people").ask(ROWS[:3])
    saved(tmp_path / "model", model)
    forget(monkeypatch)
    again = load_model(tmp_path / "model", signing_key=KEY)
    with pytest.raises(NotDeployableError, match="log is elsewhere"):
        paid(again, second)
    assert not second.charged(total_key(again.lasting.identity))
    with pytest.raises(NotDeployableError, match="log is elsewhere"):
        LastingInterface(again.predictor, second)
    found = LastingInterface(again.predictor, first).ask(ROWS[:3])
    assert (found.n_new, found.evidence.tolist()) == (0, told.evidence.tolist())
    # Who stores it again does not forget it either.
    forget(monkeypatch)
    once_more = load_model(tmp_path / "model", signing_key=KEY)
    saved(tmp_path / "again", once_more.predictor)
    forget(monkeypatch)
    with pytest.raises(NotDeployableError, match="log is elsewhere"):
        paid(load_model(tmp_path / "again", signing_key=KEY), new_ledger())


def test_a_log_that_is_not_the_one_in_the_file_is_not_continued(
    tmp_path, new_ledger, monkeypatch
):
    model, second = fitted("2"), new_ledger()
    LastingInterface(model, new_ledger(), dataset="people")
    saved(tmp_path / "model", model)
    forget(monkeypatch)
    begin_log(model.law_, second)  # elsewhere, by who knew of no file
    forget(monkeypatch)
    again = load_model(tmp_path / "model", signing_key=KEY)
    with pytest.raises(NotDeployableError, match="log is elsewhere"):
        paid(again, second)
    assert not second.charged(total_key(again.lasting.identity))


def test_a_model_of_an_earlier_version_does_not_say_where_its_log_is(
    tmp_path, new_ledger, monkeypatch
):
    model = fitted("2")
    encoder = Encoder(schema_of("2"), style="ordinal")
    kind = kind_of(model)
    packed = kind.pack(model, encoder)
    facts = {**packed.parameters, "labels": "values"}
    assert facts.pop("log") is None
    forget(monkeypatch)
    before = Packed(facts, packed.arrays)
    found = kind.unpack(before, encoder, model.certificate_)
    with pytest.raises(NotDeployableError, match="log is elsewhere"):
        LastingInterface(found, new_ledger())
    begin_log(found.law_, ledger := new_ledger())
    mark = states._histories[found.law_.identity]
    assert kind.pack(found, encoder).parameters["log"] == mark.hex()
    for wrong in ("", "x" * 32, mark.hex().upper() + "A", 7):
        facts["log"] = wrong
        with pytest.raises(ModelFileError, match="'log'"):
            kind.unpack(Packed(facts, packed.arrays), encoder, model.certificate_)
    facts["log"] = "0" * 32
    with pytest.raises(NotDeployableError, match="log is elsewhere"):
        kind.unpack(Packed(facts, packed.arrays), encoder, model.certificate_)
    begin_log(found.law_, ledger)


def test_a_model_of_an_earlier_version_has_learned_nothing_yet():
    model = fitted("2")
    encoder, kind = Encoder(schema_of("2"), style="ordinal"), kind_of(model)
    packed = kind.pack(model, encoder)
    facts = {**packed.parameters, "labels": "values"}
    assert len(facts["lessons"]) == Lessons.length()
    facts["lessons"] = [0.0] * 34
    found = kind.unpack(Packed(facts, packed.arrays), encoder, model.certificate_)
    assert found.law_.lessons.as_list() == Lessons().as_list()
    facts["lessons"] = [0.0] * 33
    with pytest.raises(ModelFileError, match="'lessons'"):
        kind.unpack(Packed(facts, packed.arrays), encoder, model.certificate_)


def test_a_total_is_charged_once_though_the_rest_would_pay_it_in_another_form(
    tmp_path, new_ledger
):
    model, ledger = stored(tmp_path / "model", fitted("2")), new_ledger()
    account = dataset_account("people")
    tight = Cap.within(Budget(1.5, 2e-6), relation=relation_of(model))
    ledger.open_account(account, tight)
    first = charge_release(ledger, model)
    assert first.remaining[0].answers_left(first.charge) == 0
    assert charge_release(ledger, model).sequence == first.sequence
    model.interface(Budget(1.5, 2e-6), ledger=ledger)


def test_a_total_that_another_dataset_paid_is_not_charged_again(tmp_path, new_ledger):
    model, ledger = fitted("2"), new_ledger()
    LastingInterface(model, ledger, dataset="scratch")
    again = stored(tmp_path / "model", model)
    for ask in (paid, lambda found, ledger: found.interface(BUDGET, ledger=ledger)):
        with pytest.raises(InvalidParameterError, match="'people' did not pay"):
            ask(again, ledger)
    assert not ledger.balance(dataset_account("people")).spent.answers
