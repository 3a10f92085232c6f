"""What runs on the rows tells nothing but what it returns and what is paid for."""

import inspect
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from reticent.errors import BudgetExhaustedError, ReticentError, SolverError
from reticent.generalization import AdaptiveSession, Ladder, ReusableHoldout
from reticent.guarantees import PureDP, ReplaceOne, Scope, claim
from reticent.mechanisms.sampling.listening import Listener, listen
from tests.generalization.canary import CANARY, holds_canary, table


class CarrierError(Exception):
    """An error that carries something."""

    def __init__(self, payload):
        super().__init__("nothing to see")
        self.payload = payload


def with_note(record):
    error = ValueError("nothing to see")
    error.add_note(f"the record is {record}")
    return error


def with_cause(record):
    error = ValueError("nothing to see")
    error.__cause__ = ValueError(record)
    return error


RAISED = {
    "message": lambda record: ValueError(f"the record is {record}"),
    "argument": lambda record: ValueError(record),
    "attribute": CarrierError,
    "note": with_note,
    "cause": with_cause,
    "group": lambda record: ExceptionGroup("several", [ValueError(record)]),
    "frame": lambda record: ValueError("its frame holds the record"),
    "exit": SystemExit,
    "interrupt": KeyboardInterrupt,
    "generator": GeneratorExit,
    "base": lambda record: BaseExceptionGroup("several", [SystemExit(record)]),
}


def raising(kind):
    def telling(X, y):
        record = float(np.asarray(X)[3, 0])
        try:
            int(f"{record}")
        except ValueError:
            raise RAISED[kind](record)  # noqa: B904 - the context is the point

    return telling


class Telling(ClassifierMixin, BaseEstimator):
    """A model that says on the rows what a query says."""

    def __init__(self, query):
        self.query = query
        self.classes_ = np.array([0, 1])

    def predict(self, X):
        return self.query(X, None)

    def fit(self, X, y):
        return self.query(X, y)


def session(**budget):
    X, y = table()
    return AdaptiveSession(X, y, **{"epsilon": 1.0, "kept": 5, "bits": 100.0, **budget})


def holdout(**parameters):
    X, y = table()
    settings = {"queries": 50, "overfits": 5, "method": "rounding"}
    return ReusableHoldout(X, y, **{**settings, **parameters})


STEPS = {
    "choose": (session, lambda guard, query: guard.choose(query, [0, 1])),
    "keep": (session, lambda guard, query: guard.keep(query, at_most=1)),
    "mean": (session, lambda guard, query: guard.mean(query, epsilon=0.1)),
    "score": (session, lambda guard, query: guard.score(Telling(query))),
    "fit": (session, lambda guard, query: guard.fit(Telling(query))),
    "query": (holdout, lambda guard, query: guard.query(query, guess=0.5)),
    "holdout score": (
        holdout,
        lambda guard, query: guard.score(Telling(query), guess=0.5),
    ),
    "closing": (
        lambda: session(bits=2.0),
        lambda guard, query: guard.choose(query, [0, 1]),
    ),
}


def caught(step, guard, query):
    """Return the error of a step, with what a careless handler would print of it."""
    try:
        step(guard, query)
    except BaseException as error:  # noqa: BLE001 - whatever comes is judged
        return error
    pytest.fail("the step did not fail")


def search(error, guard, query):
    """Look for the record in an error; this test's own frames hold nothing new."""
    frames = []
    place = error.__traceback__
    while place is not None:
        if place.tb_frame.f_code.co_name in ("caught", "<lambda>"):
            frames.append(place.tb_frame)
        place = place.tb_next
    return holds_canary(error, barriers=(guard, query, *frames))


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("name", STEPS)
def test_the_error_of_a_failed_step_holds_nothing_of_the_data(name, kind):
    make, step = STEPS[name]
    guard, query = make(), raising(kind)
    error = caught(step, guard, query)
    assert type(error) is SolverError
    assert "withheld" in str(error)
    assert search(error, guard, query) is None
    frames = [frame.function for frame in inspect.getinnerframes(error.__traceback__)]
    assert "telling" not in frames
    assert error.__context__ is None
    assert error.__cause__ is None


def test_the_search_finds_what_an_exception_keeps():
    # Control: `from None` inside an except block hides the context, and keeps it.
    def careless(guard, query):
        try:
            query(*table())
        except ValueError:
            raise SolverError("withheld") from None

    for kind in ("message", "argument", "attribute", "note", "cause", "frame"):
        step = careless if kind != "attribute" else (lambda g, q: q(*table()))
        query = raising(kind)
        assert search(caught(step, None, query), None, query) is not None


def test_an_unpaid_model_is_not_in_the_error():
    class Expensive(Telling):
        def fit(self, X, y):
            self.best_ = float(X[3, 0])
            self.certificate_ = claim(
                PureDP(5.0), ReplaceOne(400), Scope.MODEL, statement="test"
            )
            return self

    guard = session()
    error = caught(lambda s, q: s.fit(Expensive(q)), guard, raising)
    assert isinstance(error, BudgetExhaustedError)
    assert search(error, guard, raising) is None


def warning(X, y):
    record = float(np.asarray(X)[3 % len(X), 0])
    warnings.warn(f"the record is {record}", stacklevel=1)
    np.log(np.asarray([record]) - record)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(f"again: {record}", UserWarning, stacklevel=1)
    return np.zeros(len(X), dtype=int)


WARNING_STEPS = {
    **STEPS,
    "choose": (session, lambda s, q: s.choose(lambda X, y: int(q(X, y)[0]), [0, 1])),
    "keep": (session, lambda s, q: s.keep(lambda X, y: q(X, y)[:1], at_most=1)),
    "laplace": (
        lambda: holdout(method="laplace"),
        lambda guard, query: guard.query(query, guess=0.5),
    ),
    "ladder": (
        lambda: Ladder(table()[0][:, 0], metric=lambda y, p: warning(y[:, None], p)),
        lambda guard, query: guard.submit(np.zeros(400)),
    ),
    "area": (
        lambda: holdout(scoring=lambda model, X, y: model.predict(X).mean()),
        lambda guard, query: guard.score(Telling(query), guess=0.5),
    ),
}


@pytest.mark.parametrize("name", sorted(set(WARNING_STEPS) - {"fit", "closing"}))
@pytest.mark.parametrize("action", ["always", "error"])
def test_warnings_about_a_record_are_dropped(name, action, capsys):
    make, step = WARNING_STEPS[name]
    guard = make()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        step(guard, warning)
    assert [str(each.message) for each in seen] == []
    assert capsys.readouterr() == ("", "")


def test_a_query_gets_a_copy_of_the_rows():
    def spoiling(X, y):
        X[:] = 0.0
        y[:] = 0
        return np.ones(len(X))

    for guard in (session(), holdout(), holdout(method="laplace")):
        before = guard._table.fingerprint()
        if isinstance(guard, AdaptiveSession):
            guard.choose(lambda X, y: int(spoiling(X, y)[0]), [0, 1])
            guard.mean(spoiling, epsilon=0.1)
            guard.keep(lambda X, y: [int(spoiling(X, y)[0])], at_most=1)
        else:
            guard.query(spoiling, guess=0.5)
        assert guard._table.fingerprint() == before


def fails_at_the_record(X, y):
    if np.any(np.isclose(np.asarray(X)[:, 0], CANARY)):
        raise ValueError("there it is")
    return np.full(len(X), 0.5)


class Totals(Listener):
    def __init__(self):
        self.values = []

    def reached(self, reached):
        self.values.append(reached.values)


def private_totals(query, *, present, **parameters):
    """Return what a noisy holdout compares, exactly."""
    X, y = table(present=present)
    guard = ReusableHoldout(
        X, y, method="laplace", queries=10, overfits=2, threshold=0.4, **parameters
    )
    heard = Totals()
    with listen(heard):
        guard.query(query, guess=0.5)
    return heard.values[0]


BAD = {
    "raises": lambda: ValueError("there it is"),
    "exits": lambda: SystemExit(CANARY),
    "interrupts": lambda: KeyboardInterrupt(CANARY),
}
RETURNS = {
    "text": lambda n: np.array(["x"] * n),
    "short": lambda n: np.zeros(max(0, n - 1)),
    "wide": lambda n: np.zeros((n, 2)),
    "nothing": lambda n: None,
    "missing": lambda n: np.full(n, np.nan),
    "huge": lambda n: np.full(n, np.inf),
    "complex": lambda n: np.full(n, 1j),
}


@pytest.mark.parametrize("way", [*BAD, *RETURNS])
def test_a_private_holdout_never_says_that_a_query_failed(way):
    # Exact: what reaches the noise moves by one unit at most, whatever one row does.
    def query(X, y):
        there = np.isclose(np.asarray(X)[:, 0], CANARY)
        if there.any() and way in BAD:
            raise BAD[way]()
        if there.any() and way in ("missing", "huge"):
            return np.where(there, RETURNS[way](len(X)), 0.5)
        return RETURNS[way](len(X)) if there.any() else np.full(len(X), 0.5)

    without, with_it = (private_totals(query, present=p) for p in (False, True))
    assert np.abs(with_it - without).max() <= 2**20
    assert (without == 0).all()  # the average is the guess
    assert (with_it > 0).all()  # so that the query was seen to fail somewhere


def test_a_private_holdout_scores_models_that_fail_on_a_record():
    X, y = table()
    guard = ReusableHoldout(X, y, method="laplace", queries=10, threshold=0.4)
    model = Telling(fails_at_the_record)
    assert isinstance(guard.score(model, guess=0.5).value, float)
    units = holdout(method="laplace", rows_per_unit=4, scoring="roc_auc")
    assert isinstance(units.score(model, guess=0.5).value, float)


def test_a_query_that_disagrees_with_itself_counts_as_zero_in_private():
    guard = holdout(method="laplace", queries=10, threshold=0.4, scale=1e-3)
    answer = guard.query(lambda X, y: np.full(len(X), len(X) / 400), guess=1.0)
    assert answer.overfit
    assert answer.value < 0.1


def test_what_is_assumed_of_queries_is_on_every_certificate():
    rowwise, quiet = "ROWWISE_QUERIES", "QUIET_QUERIES"

    def codes(certificate):
        return {assumption.code for assumption in certificate.assumptions}

    noisy, rounded = holdout(method="laplace"), holdout()
    assert codes(noisy.certificate) == {rowwise, quiet}
    assert codes(noisy.accuracy) == {rowwise, quiet}
    assert codes(rounded.certificate) == {quiet}  # few transcripts, whatever is asked
    assert codes(rounded.accuracy) == {rowwise, quiet}
    assert "conditional" in noisy.certificate.headline()
    assert codes(session().promise) == codes(session().certificate) == {rowwise, quiet}
    assert codes(session(epsilon=0.0).promise) == {quiet}
    _, y = table()
    assert Ladder(y).accuracy.proved
    own = Ladder(y, metric=lambda y, p: p == y)
    assert codes(own.certificate) == {quiet}
    assert codes(own.accuracy) == {rowwise, quiet}


def test_a_ladder_counts_rows_where_its_metric_fails_as_zero():
    def fragile(y, predictions):
        if (predictions == 9).any():
            raise ValueError(f"label {y[3]}")
        return predictions == y

    _, y = table()
    ladder = Ladder(y, metric=fragile, step=0.1)
    assert ladder.submit(np.where(np.arange(400) < 200, y, 9)) == 0.5
    assert ladder.submit(np.full(400, 9)) == 0.5
    before = ladder.error_at_most
    assert ladder.submissions_left == 998
    assert ladder.error_at_most == before


class Spy:
    """Sees whatever it is compared with."""

    def __init__(self):
        self.seen = []

    def __eq__(self, other):
        self.seen.append(other)
        return True

    __hash__ = None


def test_a_submission_cannot_look_at_the_labels():
    _, y = table()
    for labels in (y, np.array(["a", "b"], dtype=object)[y]):
        ladder, spy = Ladder(labels), Spy()
        spies = np.full(len(y), spy, dtype=object)
        for submission in (spies, list(spies)):
            with pytest.raises(ReticentError, match="plain"):
                ladder.submit(submission)
        assert spy.seen == []
        assert ladder.submissions_left == 1000
        assert ladder.submit(labels) == 1.0


def test_an_interrupt_by_hand_stops_a_query_and_says_nothing():
    import signal

    def query(X, y):
        signal.raise_signal(signal.SIGINT)
        return np.zeros(len(X))

    # Workers of a parallel run ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for guard in (holdout(), holdout(method="laplace")):
            error = caught(lambda g, q: g.query(q, guess=0.5), guard, query)
            assert type(error) is KeyboardInterrupt
            assert error.args == ()
            assert search(error, guard, query) is None
            assert guard.queries_left == 50
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert sys.exc_info() == (None, None, None)


def test_what_ends_an_audit_passes_and_nothing_else_does():
    class StopError(BaseException):
        """Raised by a listener: programs must not catch it."""

    class Stopping(Listener):
        def drawn(self, draw, sample):
            raise StopError

    def query(X, y):
        raise StopError

    with listen(Stopping()):
        with pytest.raises(StopError):
            session().mean(lambda X, y: y, epsilon=0.1)
        with pytest.raises(StopError):
            holdout(method="laplace").query(lambda X, y: y, guess=0.5)
    with pytest.raises(SolverError):  # nobody listens, so it is a failure like others
        session().choose(query, [0, 1])
