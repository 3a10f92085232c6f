"""G26: private search, verified exactly on small domains, and in use."""

import itertools
import warnings

import mpmath
import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from reticent.errors import InvalidParameterError, RuleError, TooFewRecordsError
from reticent.evaluation import unit_sums
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Budget,
    Certificate,
    GaussianDP,
    PureDP,
    ReplaceOne,
    Scope,
    claim,
    gaussian_delta,
    gaussian_ratio,
    recheck,
    zcdp_epsilon,
)
from reticent.hypotheses import Thresholds
from reticent.learners import (
    ExponentialMechanismClassifier,
    NoisyGradientClassifier,
    NoisyGradientRegressor,
    ObjectivePerturbationClassifier,
    OutputPerturbationClassifier,
    PerfectlyGeneralizingClassifier,
    PrivateSearch,
    PrivateTabularClassifier,
)
from reticent.learners.search.plan import plan_runs
from reticent.learners.search.profiles import profile
from reticent.learners.search.rules import best_of_runs, one_run
from reticent.learners.search.runs import RunTask
from reticent.mechanisms import Repetitions, calibrate_laplace, noise_source
from reticent.prediction import PrivateAveragingRegressor, PrivateVotingClassifier
from tests.learners.best_of_runs import (
    delta,
    exactly,
    loss,
    negative_binomial,
    small_search,
)
from tests.stats import assert_follows, rejects

ETAS = (-0.5, 0.0, 1.0, 4.0)
BITS = np.random.default_rng(0).uniform(-0.7, 0.7, size=(400, 2))
YES = BITS[:, 0] > 0


def run_of(promise):
    """Return a certificate of training on one unit."""
    return claim(promise, ReplaceOne(1), Scope.MODEL, statement="a test says so")


def scored(epsilon):
    """Return a certificate of a score of one unit."""
    sensitivity = unit_sums(n=1, steps=1)
    noise = calibrate_laplace(
        sensitivity, epsilon=epsilon, dimension=1, grid=1.0, on_grid=True, seeded=False
    )
    return noise.certificate


def certified(promise, eta, gamma, **where):
    level = getattr(promise, "epsilon", None)
    level = level or getattr(promise, "mu", None) or getattr(promise, "rho", None)
    run = one_run(run_of(promise), level=level, slack=getattr(promise, "delta", 0.0))
    score = scored(min(0.01, level))
    return best_of_runs(run, score, eta=eta, gamma=gamma, **where).guarantee


def extreme_pair(epsilon):
    """Runs that are bad, as y, or better than y: as far apart as a pure run may be."""
    rare, top = mpmath.mpf("1e-9"), mpmath.mpf("0.01")
    grown = mpmath.exp(mpmath.mpf(epsilon))
    one = [1 - rare * grown - top, rare * grown, top]
    two = [1 - rare - top * grown, rare, top * grown]
    return one, two


@pytest.mark.parametrize("eta", ETAS)
def test_pure_runs_cost_two_and_eta_and_no_more(eta):
    gamma = 1e-7
    for epsilon in (0.1, 1.0):
        promised = certified(PureDP(epsilon), eta, gamma)
        assert promised.epsilon == pytest.approx((2 + eta) * epsilon)
        true = loss(*extreme_pair(epsilon), negative_binomial(eta, gamma))
        assert 0.95 * promised.epsilon <= true <= promised.epsilon


@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("gamma", [0.01, 0.3])
def test_a_whole_search_on_two_bits_is_within_its_promise(eta, gamma):
    epsilon = 0.7
    laws = small_search(epsilon)
    run = one_run(run_of(PureDP(epsilon)), level=epsilon)
    promised = best_of_runs(run, scored(epsilon), eta=eta, gamma=gamma)
    assert promised.relation == ReplaceOne(2)
    for one, two in itertools.combinations(laws, 2):
        if sum(a != b for a, b in zip(one, two, strict=True)) == 1:
            true = loss(laws[one], laws[two], negative_binomial(eta, gamma))
            assert true <= promised.guarantee.epsilon


def test_the_best_of_a_fixed_number_is_refuted():
    """Train k, release the best: no certificate of a search may be put on it."""
    epsilon, k = 0.5, 10
    laws = small_search(epsilon)
    promised = certified(PureDP(epsilon), 0.0, 0.0269).epsilon
    assert Repetitions(0.0, 0.0269).mean > 9.9
    true = loss(laws[0, 0], laws[1, 0], exactly(k))
    assert true > 1.5 * promised
    assert loss(laws[0, 0], laws[1, 0], negative_binomial(0.0, 0.0269)) < promised


def test_a_known_number_of_runs_is_refuted():
    """Whoever sees K sees the best of K runs, for every K that can be."""
    promised = certified(PureDP(0.5), 0.0, 0.0269).epsilon
    laws = small_search(0.5)
    worst = max(loss(laws[0, 0], laws[1, 0], exactly(k)) for k in range(1, 40))
    assert worst > promised


def cells(mu, count=50):
    """Return a Gaussian pair cut into cells, from the least likely loss on."""
    with mpmath.workdps(30):
        ends = [mpmath.mpf(-9) + 18 * mpmath.mpf(i) / count for i in range(count + 1)]

        def masses(shift):
            found = [
                mpmath.ncdf(b - shift) - mpmath.ncdf(a - shift)
                for a, b in itertools.pairwise(ends)
            ]
            found[0] += mpmath.ncdf(ends[0] - shift)
            found[-1] += 1 - mpmath.ncdf(ends[-1] - shift)
            return found

        return masses(mpmath.mpf(0)), masses(mpmath.mpf(mu))


@pytest.mark.parametrize(
    ("kind", "eta"),
    [
        *(("gaussian", eta) for eta in ETAS),
        *((kind, eta) for kind in ("zcdp", "approximate") for eta in (-0.5, 1.0)),
    ],
)
def test_gaussian_runs_stay_within_the_budget(kind, eta):
    budget = Budget(1.0, 1e-5)
    repetitions = Repetitions.with_mean(eta, 6.0)
    plan = plan_runs(kind, budget, repetitions)
    mu = {
        "gaussian": lambda: plan.price.promise.mu,
        "zcdp": lambda: float(np.sqrt(2 * plan.price.promise.rho)),
        "approximate": lambda: gaussian_ratio(plan.price.epsilon, plan.price.delta),
    }[kind]()
    run, neighbour = cells(mu)
    generating = negative_binomial(repetitions.eta, repetitions.gamma)
    found = delta(run, neighbour, generating, budget.epsilon)
    found = max(found, delta(run[::-1], neighbour[::-1], generating, budget.epsilon))
    assert found <= budget.delta
    # So that this is no empty promise: half the epsilon would not do.
    if kind == "gaussian":
        half = max(
            delta(run, neighbour, generating, budget.epsilon / 2),
            delta(run[::-1], neighbour[::-1], generating, budget.epsilon / 2),
        )
        assert half > budget.delta


@pytest.mark.parametrize("eta", ETAS)
def test_the_delta_of_approximate_runs_is_tight(eta):
    """A run that leaks with probability 1e-6 and then scores best leaks E[K] times."""
    leak, gamma = 1e-6, 0.05
    repetitions = Repetitions(eta, gamma)
    two = leak / gamma * 1.01
    run = [1 - mpmath.mpf(leak), mpmath.mpf(leak)]
    neighbour = [mpmath.mpf(1), mpmath.mpf(0)]
    total = best_of_runs(
        one_run(run_of(ApproxDP(0.0, leak)), level=0.0, slack=leak),
        scored(1e-9),
        eta=eta,
        gamma=gamma,
        epsilon_one=1e-9,
        epsilon_two=two,
        delta=repetitions.mean * leak * 1.0001,
    ).guarantee
    true = delta(run, neighbour, negative_binomial(eta, gamma), total.epsilon)
    assert 0.95 * total.delta <= true <= total.delta


def test_approximate_runs_as_the_best_of_a_fixed_number_are_refuted():
    budget = Budget(1.0, 1e-5)
    plan = plan_runs("gaussian", budget, Repetitions.with_mean(1.0, 6.0))
    run, neighbour = cells(plan.price.promise.mu)
    found = delta(run[::-1], neighbour[::-1], exactly(60), budget.epsilon)
    assert found > budget.delta


def test_a_second_epsilon_that_is_too_small_is_refused():
    run = one_run(run_of(GaussianDP(0.5)), level=0.5)
    known = {"eta": 1.0, "gamma": 0.1, "epsilon_one": 3.0, "delta": 1e-6}
    with pytest.raises(RuleError, match="epsilon_two"):
        best_of_runs(run, scored(0.1), epsilon_two=0.1, **known)
    with pytest.raises(RuleError, match="reach delta"):
        best_of_runs(run, scored(0.1), epsilon_two=2.0, **{**known, "epsilon_one": 1.0})
    with pytest.raises(RuleError, match="pure runs"):
        best_of_runs(run, scored(0.1), eta=1.0, gamma=0.1)
    with pytest.raises(RuleError, match="not within"):
        one_run(run_of(PureDP(0.5)), level=0.4)


def test_profiles_are_those_of_the_worst_pairs():
    for at in (0.0, 0.3, 0.9):
        kept = 1 / (1 + np.exp(-1.0))
        pair = max(kept - np.exp(at) * (1 - kept), 0)
        assert profile(PureDP(1.0), at) == pytest.approx(pair, rel=1e-9)
        assert profile(BoundedRange(1.0), at) == pytest.approx(pair, rel=1e-9)
        assert profile(ApproxDP(1.0, 0.01), at) == pytest.approx(0.01 + 0.99 * pair)
        assert profile(GaussianDP(1.0), at) == gaussian_delta(1.0, at)
        assert gaussian_delta(1.0, at) <= profile(ZCDP(0.5), at)
    at = zcdp_epsilon(0.1, 1e-6)
    assert profile(ZCDP(0.1), at) == pytest.approx(1e-6, rel=1e-5)
    with pytest.raises(RuleError, match="no privacy profile"):
        profile(run_of(PureDP(1.0)), 1.0)


@pytest.mark.parametrize("eta", [*ETAS, -0.9, 30.0])
@pytest.mark.parametrize("mean", [1.5, 6.0])
def test_numbers_of_runs_have_their_law(eta, mean):
    law = Repetitions.with_mean(eta, mean)
    assert law.mean <= mean
    assert law.mean == pytest.approx(mean, rel=1e-6)
    masses = law.probabilities(20_000)
    generating = negative_binomial(eta, law.gamma)
    for k in (1, 2, 3):  # the k-th derivative at 0, by the series
        exact = mpmath.taylor(generating, 0, 3)[k]
        assert masses[k - 1] == pytest.approx(float(exact), rel=1e-9)
    if eta > -0.9:
        assert masses.sum() == pytest.approx(1.0)
        assert masses @ np.arange(1, 20_001) == pytest.approx(mean, rel=1e-4)


def test_numbers_of_runs_are_drawn_from_it():
    law = Repetitions.with_mean(0.0, 3.0)
    source = noise_source(7)
    drawn = np.array([law.draw(source) for _ in range(600)])
    masses = law.probabilities(6)
    counts = np.bincount(np.minimum(drawn, 7), minlength=8)[1:]
    assert_follows(counts, np.append(masses, 1 - masses.sum()))
    wrong = Repetitions.with_mean(1.0, 3.0).probabilities(6)
    assert rejects(assert_follows, counts, np.append(wrong, 1 - wrong.sum()))


def test_a_number_of_runs_is_the_place_of_a_uniform_number():
    law = Repetitions.with_mean(1.0, 4.0)  # geometric: cumulative 1 - (1 - gamma)^k
    bits = 128
    for k in (1, 2, 7):
        edge = int((1 - (1 - mpmath.mpf(law.gamma)) ** k) * 2**64) << 64
        assert law._place(edge - (1 << 80), bits) == k
        assert law._place(edge + (1 << 80), bits) == k + 1


def test_wrong_laws_are_refused():
    for eta, gamma in ((-1.0, 0.5), (1e-5, 0.5), (1.0, 0.0), (1.0, 1.0), (101.0, 0.5)):
        with pytest.raises(InvalidParameterError):
            Repetitions(eta, gamma)
    with pytest.raises(InvalidParameterError, match="runs="):
        Repetitions.with_mean(1.0, 1.0)


def searched(estimator, parameters, budget, y=YES, **more):
    search = PrivateSearch(estimator, parameters, budget, **{"runs": 2.0, **more})
    return search.fit(BITS, y)


PURE = ObjectivePerturbationClassifier(classes=[False, True])
GRADIENT = NoisyGradientClassifier(classes=[False, True], steps=5)


@pytest.mark.parametrize(
    "estimator",
    [
        PrivateTabularClassifier(classes=[0, 1]),
        PrivateVotingClassifier(HistGradientBoostingClassifier(), classes=[0, 1]),
        PrivateVotingClassifier(
            make_pipeline(SimpleImputer(), LogisticRegression()), classes=[0, 1]
        ),
        PURE,
    ],
    ids=["released", "asked", "imputed", "without"],
)
def test_missing_values_are_searched_where_the_learner_takes_them(estimator):
    X = np.where(BITS < -0.6, np.nan, BITS)
    assert np.isnan(X[:, 1]).any()
    search = PrivateSearch(estimator, {}, Budget(2.0, 1e-6))
    takes = estimator is not PURE
    assert get_tags(search).input_tags.allow_nan == takes
    if not takes:
        with pytest.raises(ValueError, match="NaN"):
            search.fit(X, YES.astype(int))
        return
    search.fit(X, YES.astype(int))
    assert search.predict(X).shape == (400,)


@pytest.mark.parametrize(
    ("estimator", "parameters", "budget"),
    [
        (PURE, {"regularization": [0.01, 0.1, 1.0]}, Budget(2.0)),
        (GRADIENT, {"steps": [5, 10], "clip": [0.5, 1.0]}, Budget(2.0, 1e-6)),
    ],
)
def test_the_best_run_is_released_within_the_budget(estimator, parameters, budget):
    search = searched(estimator, parameters, budget, method="best-run")
    certificate = search.certificate_
    recheck(certificate)
    assert budget.covers(certificate.guarantee)
    assert certificate.guarantee.epsilon > 0.99 * budget.epsilon
    assert certificate.proved
    assert certificate.scope is Scope.MODEL
    assert certificate.relation == ReplaceOne(400)
    assert search.best_estimator_.certificate_ is certificate
    assert not hasattr(search.best_estimator_, "gaussian_certificate_")
    assert not hasattr(search.best_estimator_, "zcdp_certificate_")
    assert set(search.best_params_) == set(parameters)
    assert list(search.classes_) == [False, True]
    assert search.predict(BITS).shape == (400,)
    assert search.predict_proba(BITS).shape == (400, 2)


CUTS = np.linspace(-0.7, 0.7, 5)


@pytest.mark.parametrize(
    "estimator",
    [
        ExponentialMechanismClassifier(Thresholds(), points=CUTS, classes=[0, 1]),
        PerfectlyGeneralizingClassifier(Thresholds(), points=CUTS, classes=[0, 1]),
        OutputPerturbationClassifier(classes=[0, 1]),
        PrivateTabularClassifier(classes=[0, 1]),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.parametrize("budget", [Budget(2.0), Budget(2.0, 1e-6)])
def test_learners_of_every_kind_of_promise_are_searched(estimator, budget):
    """Bounded range, several certificates, pure and approximate promises."""
    if isinstance(estimator, PrivateTabularClassifier) and not budget.delta:
        with pytest.raises(InvalidParameterError, match="give the budget a delta"):
            PrivateSearch(estimator, {}, budget).fit(BITS, YES.astype(int))
        return
    search = PrivateSearch(estimator, {}, budget, method="best-run", runs=2.0)
    search.fit(BITS[:, :1], YES.astype(int))
    recheck(search.certificate_)
    assert budget.covers(search.certificate_.guarantee)
    kept = vars(search.best_estimator_)
    stated = [name for name, value in kept.items() if isinstance(value, Certificate)]
    assert stated == ["certificate_"]


def test_wrong_settings_are_refused_before_the_first_run(monkeypatch):
    def run(*_):
        raise AssertionError("a run was made")

    monkeypatch.setattr(RunTask, "run", run)
    with pytest.raises(ValueError, match="regularization"):
        searched(PURE, {"regularization": [1.0, -1.0]}, Budget(1.0), runs=2.0)


@pytest.mark.parametrize("budget", [Budget(4.0), Budget(4.0, 1e-6)])
def test_a_predictor_is_tuned_and_then_fitted_on_all_rows(budget):
    voting = PrivateVotingClassifier(LogisticRegression(), 0.7, [False, True])
    search = searched(voting, {"n_shards": [5, 21]}, budget, questions=30)
    assert budget.covers(search.certificate_.guarantee)
    assert search.certificate_.scope is Scope.CHOICE
    assert search.best_estimator_.n_units_ == 400
    assert search.best_estimator_.certificate_.guarantee == PureDP(0.7)
    assert search.best_estimator_.n_shards_ == search.best_params_["n_shards"]
    recheck(search.certificate_)


def test_regressors_are_searched_too():
    y = (BITS[:, 0] + 0.7) / 1.4
    search = searched(
        NoisyGradientRegressor(bounds=(0, 1), steps=5),
        {"clip": [0.5, 1.0]},
        Budget(3.0, 1e-6),
        y,
    )
    assert search.best_score_ > 0.5
    averaging = PrivateAveragingRegressor(Ridge(), 1.0, bounds=(0, 1))
    search = searched(averaging, {"n_shards": [5, 21]}, Budget(3.0, 1e-6), y)
    recheck(search.certificate_)


def test_units_of_several_rows_are_searched():
    units = np.arange(400) // 2
    search = PrivateSearch(
        PURE, {"regularization": [0.1, 1.0]}, Budget(2.0), runs=2.0
    ).fit(BITS, YES, units=units)
    assert search.certificate_.relation == ReplaceOne(200)


def test_nothing_tells_how_many_runs_there_were():
    search = searched(PURE, {"regularization": [0.1, 1.0]}, Budget(2.0), runs=30.0)
    assert not hasattr(search, "cv_results_")
    told = {name for name in vars(search) if name.endswith("_")}
    assert told == {
        "best_estimator_",
        "best_params_",
        "best_score_",
        "certificate_",
        "classes_",
        "n_features_in_",
        "n_units_",
        "repetitions_",
    }


def test_a_good_setting_wins():
    wins = 0
    for seed in range(5):
        search = searched(
            PURE,
            {"regularization": [0.01, 1000.0]},
            Budget(50.0),
            runs=8.0,
            eta=30.0,
            random_state=seed,
        )
        wins += search.best_params_["regularization"] == 0.01
        assert not search.certificate_.proved  # the seed
    assert wins >= 4


def test_training_beyond_the_promise_is_refused():
    class Dear(ObjectivePerturbationClassifier):
        def fit(self, X, y):
            self.set_params(epsilon=2 * self.epsilon)
            return super().fit(X, y)

    with pytest.raises(InvalidParameterError, match="where a run may cost"):
        searched(Dear(classes=[False, True]), {"regularization": [1.0]}, Budget(1.0))


def test_misuse_is_explained():
    with pytest.raises(InvalidParameterError, match="parameters name epsilon"):
        searched(PURE, {"epsilon": [1.0]}, Budget(1.0))
    with pytest.raises(InvalidParameterError, match="has no epsilon"):
        searched(LogisticRegression(), {"C": [1.0]}, Budget(1.0))
    with pytest.raises(InvalidParameterError, match="has no delta"):
        plan_runs("gaussian", Budget(1.0), Repetitions(1.0, 0.1))
    with pytest.raises(TooFewRecordsError, match="leaves a part"):
        searched(PURE, {"regularization": [1.0]}, Budget(1.0), holdout=1e-9)


class LoudGradient(NoisyGradientClassifier):
    """A released learner that complains wherever it can."""

    def fit(self, X, y, units=None):
        complain()
        return super().fit(X, y, units)

    def predict(self, X):
        complain()
        return super().predict(X)


def complain():
    warnings.warn("one line for each run", stacklevel=2)
    _ = np.array([1e308]) * 10.0
    _ = np.array([0.0]) / 0.0


@pytest.mark.parametrize("method", ["best-run", "choose-then-fit"])
def test_runs_and_their_scores_say_nothing(method, monkeypatch):
    heard = []
    learner = LoudGradient(classes=[False, True], steps=3)
    with warnings.catch_warnings(record=True) as found, np.errstate(all="call"):
        warnings.simplefilter("always")
        before = np.seterrcall(lambda kind, _: heard.append(kind))
        try:
            searched(
                learner,
                {"clip": [0.2, 0.5]},
                Budget(4.0, 1e-5),
                method=method,
                runs=3.0 if method == "best-run" else 2,
            )
        finally:
            np.seterrcall(before)
    lines = [each for each in found if "one line for each run" in str(each.message)]
    # Only the last fit of a choice, on all units, may speak: it happens once.
    assert len(lines) == (0 if method == "best-run" else 1)
    assert len(heard) <= 2 * len(lines)
