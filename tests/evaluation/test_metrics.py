"""Private metrics: exact promises, and intervals that cover what they say."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from reticent.errors import (
    BudgetExhaustedError,
    InvalidDataError,
    InvalidParameterError,
)
from reticent.evaluation import (
    UNIT_STEPS,
    Evaluation,
    NoisySums,
    in_steps,
    unit_sums,
)
from reticent.evaluation.intervals import (
    count_interval,
    mean_interval,
    share_interval,
)
from reticent.guarantees import Budget, PureDP, ReplaceOne, recheck
from reticent.ledger import AccountId, AccountScope, Cap, Charge, MemoryLedger, Request
from tests.stats import assert_rate_at_most

N = 400


def drawn_rows(seed):
    """Draw scores, labels and numbers of a known population."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(2, 2, size=N)
    labels = rng.uniform(size=N) < scores
    return scores, labels


def accuracy(seed, how):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, N)
    answers = np.where(rng.uniform(size=N) < 0.8, truth, 1 - truth)
    found = how.accuracy(truth, answers)
    return found.low <= 0.8 <= found.high


def accuracy_of_units(seed, how):
    rng = np.random.default_rng(seed)
    units = np.arange(2 * N) // 2
    skill = np.repeat(rng.choice([0.5, 1.0], N), 2)
    answers = (rng.uniform(size=2 * N) < skill).astype(int)
    found = how.accuracy(np.ones(2 * N, int), answers, units=units)
    return found.low <= 0.75 <= found.high


def log_loss(seed, how):
    scores, labels = drawn_rows(seed)
    said = np.stack([1 - scores, scores], axis=1)
    found = how.log_loss(labels, said, [False, True], floor=0.05)
    x = (np.arange(20_000) + 0.5) / 20_000
    kept = np.clip(x, 0.05, 1)
    other = np.clip(1 - x, 0.05, 1)
    true = np.mean(
        stats.beta(2, 2).pdf(x) * -(x * np.log(kept) + (1 - x) * np.log(other))
    )
    return found.low <= true <= found.high


def auc(seed, how):
    rng = np.random.default_rng(seed)
    truth = rng.uniform(size=N) < 0.3
    scores = rng.normal(size=N) + truth
    found = how.auc(truth, scores, True)
    return found.low <= stats.norm.cdf(1 / math.sqrt(2)) <= found.high


def confusion(seed, how):
    rng = np.random.default_rng(seed)
    law = np.array([[0.4, 0.1], [0.05, 0.45]])
    kinds = rng.choice(4, N, p=law.ravel())
    found = how.confusion(kinds // 2, kinds % 2, [0, 1])
    return bool(((found.low <= law) & (law <= found.high)).all())


def calibration(seed, how):
    rng = np.random.default_rng(seed)
    scores = rng.uniform(size=N)
    truth = rng.uniform(size=N) < scores**2
    found = how.calibration(truth, scores, True, bins=4)
    ends = np.arange(5) / 4
    true = (ends[1:] ** 3 - ends[:-1] ** 3) / 3 / 0.25
    return bool(((found.low <= true) & (true <= found.high)).all())


def r2(seed, how):
    rng = np.random.default_rng(seed)
    truth = rng.uniform(size=N)
    answers = np.clip(truth, 0.2, 0.8)
    found = how.r2(truth, answers, (0, 1))
    error = 2 * 0.2**3 / 3
    return found.low <= 1 - 12 * error <= found.high


METRICS = (
    accuracy,
    accuracy_of_units,
    log_loss,
    auc,
    confusion,
    calibration,
    r2,
)


def misses(metric, repetitions, confidence):
    return sum(
        not metric(seed, Evaluation(0.5, confidence, random_state=10_000 + seed))
        for seed in range(repetitions)
    )


@pytest.mark.parametrize("metric", METRICS)
def test_intervals_cover_the_truth(metric):
    assert_rate_at_most(misses(metric, 40, 0.8), 40, 0.2)


@pytest.mark.long
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_cover_the_truth_in_a_thousand_repetitions(metric, confidence):
    missed = misses(metric, 1000, confidence)
    assert missed <= (1 - confidence) * 1000


@pytest.mark.parametrize("share", [0.02, 0.5, 0.93])
def test_the_interval_of_accuracy_covers_by_its_exact_law(share, monkeypatch):
    """Enumerate the sample and the noise: no simulation."""
    n, epsilon, confidence = 30, 1.0, 0.9
    how = Evaluation(epsilon, confidence)
    size = 40
    noise = np.exp(-epsilon * np.abs(np.arange(-size, size + 1)))
    noise /= noise.sum()
    covered = {}

    def shifted(by):
        def drawn(cls, sums, sensitivity, epsilon, source):
            made = original(sums, sensitivity, epsilon, source)
            return cls(sums + float(by), made.noise, made.certificate)

        return classmethod(drawn)

    original = NoisySums.drawn
    truth = np.ones(n, int)
    total = 0.0
    law = stats.binom(n, share).pmf(np.arange(n + 1))
    for noisy in range(-size, n + size + 1):
        monkeypatch.setattr(NoisySums, "drawn", shifted(noisy))
        found = how.accuracy(truth, np.zeros(n, int))
        covered[noisy] = found.low <= share <= found.high
    for right in range(n + 1):
        for place, mass in enumerate(noise):
            total += law[right] * mass * covered[right + place - size]
    assert total >= confidence


def test_a_metric_promises_what_it_costs():
    found = Evaluation(0.3).accuracy([1, 0, 1], [1, 1, 1])
    assert found.certificate.guarantee.epsilon == pytest.approx(0.3)
    assert isinstance(found.certificate.guarantee, PureDP)
    assert found.certificate.relation == ReplaceOne(3)
    recheck(found.certificate)
    assert "accuracy" in str(found)
    assert found.as_dict()["units"] == 3
    many = Evaluation(0.3).confusion([1, 0, 1], [1, 1, 1], [0, 1])
    recheck(many.certificate)
    assert "intervals" in str(many)


def test_an_interval_without_a_lower_end_is_plain_json():
    found = Evaluation(0.1, random_state=0).r2([0.1, 0.9, 0.5], [0.1, 0.9, 0.5], (0, 1))
    assert found.low == -math.inf
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["low"] is None


def test_one_unit_moves_sums_and_counts_by_what_is_certified():
    """Each neighbour of a small table, for every metric: what noise is added to."""
    seen = []

    class Heard(Evaluation):
        def _drawn(self, sums, sensitivity, source):
            seen.append((np.asarray(sums, dtype=float), sensitivity.guarantee.l1))
            return super()._drawn(sums, sensitivity, source)

    how = Heard(1.0, random_state=3)
    said = {0: 0.0, 1: 1.0}
    tables = [(truth, answer) for truth in (0, 1) for answer in (0, 1)]

    def sums(rows):
        seen.clear()
        truth = np.array([row[0] for row in rows])
        answers = np.array([row[1] for row in rows])
        scores = np.array([said[answer] for answer in answers])
        how.accuracy(truth, answers)
        how.accuracy(truth, answers, units=[0, 0, 1, 2])
        how.log_loss(truth, np.stack([1 - scores, scores], axis=1), [0, 1])
        how.r2(truth, answers, (0, 1))
        how.auc(truth, scores, 1)
        how.confusion(truth, answers, [0, 1])
        how.calibration(truth, scores, 1)
        return list(seen)

    largest = np.zeros(7)
    base = [(0, 0), (1, 1), (1, 0), (0, 1)]
    for changed in range(2, 4):  # a unit of one row in every metric
        for old in tables:
            for new in tables:
                pair = [
                    sums([*base[:changed], row, *base[changed + 1 :]])
                    for row in (old, new)
                ]
                for place, (one, two) in enumerate(zip(*pair, strict=True)):
                    moved = np.abs(one[0] - two[0]).sum()
                    assert moved <= one[1]
                    largest[place] = max(largest[place], moved / one[1])
    assert (largest > 0.49).all()  # the bounds are not idle


@pytest.mark.parametrize("truth", [2.0**53, 0.0])
def test_a_unit_is_counted_once_however_its_label_compares(truth, monkeypatch):
    """Its label may equal two classes: after rounding, or because one is named twice.

    A unit in several counts would move them by more than the two that are certified.
    """
    counted = []
    original = NoisySums.drawn

    def drawn(cls, sums, *rest):
        counted.append(int(sums.sum()))
        return original(sums, *rest)

    monkeypatch.setattr(NoisySums, "drawn", classmethod(drawn))
    how, same = Evaluation(1.0), np.full(3, truth)
    how.confusion(same, same, np.array([0, 2**53, 2**53 + 1]))
    assert counted == [3]
    for twice in ([0, 0], ["a", "b", "a"], [1, True]):
        with pytest.raises(InvalidParameterError, match="each label once"):
            how.confusion([0, 1], [0, 1], twice)
    assert counted == [3]


def test_a_ledger_is_charged_before_noise_is_drawn(monkeypatch):
    account = AccountId(AccountScope.DATASET, "data")
    ledger = MemoryLedger()
    ledger.open_account(account, Cap.within(Budget(1.0)))
    order = []

    def pay(certificate):
        order.append("paid")
        ledger.charge(
            Request(
                key=str(len(order)),
                accounts=(account,),
                charge=Charge.of(certificate),
                queries=(b"metric",),
            )
        )

    original = NoisySums.drawn

    def drawn(cls, *rest):
        order.append("drawn")
        return original(*rest)

    monkeypatch.setattr(NoisySums, "drawn", classmethod(drawn))
    how = Evaluation(0.4, pay=pay)
    how.accuracy([1, 0], [1, 1])
    how.auc([1, 0], [0.9, 0.1], 1)
    assert order == ["paid", "drawn"] * 2
    with pytest.raises(BudgetExhaustedError):
        how.accuracy([1, 0], [1, 1])
    assert order[-1] == "paid"


def test_intervals_without_noise_are_the_textbook_ones():
    low, high = count_interval(7.0, 20, 1e-3, 0.05)
    exact = stats.binomtest(7, 20).proportion_ci(0.95, "exact")
    assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-6)
    low, high = mean_interval(15.0, 50, 1e-9, 0.1)
    for edge in (low, high):  # Chernoff's bound
        gap = 0.3 * math.log(0.3 / edge) + 0.7 * math.log(0.7 / (1 - edge))
        assert gap == pytest.approx(math.log(20) / 50, rel=1e-3)
    low, high = share_interval(15.0, 35.0, 1e-6, 0.1)
    assert 0.15 < low < 0.2
    assert 0.45 < high < 0.5
    assert count_interval(-50.0, 20, 1.0, 0.05)[0] == 0.0
    assert mean_interval(500.0, 20, 1.0, 0.05)[1] == 1.0


def test_the_noise_bounds_exponential_moments():
    """Discrete Laplace noise against the bound that intervals use."""
    for scale in (0.3, 1.0, 20.0):
        z = np.arange(-math.ceil(60 * scale), math.ceil(60 * scale) + 1)
        masses = np.exp(-np.abs(z) / scale)
        masses /= masses.sum()
        for share in (0.1, 0.5, 0.9):
            moment = masses @ np.exp(share * z / scale)
            assert moment <= 1 / (1 - share**2) * (1 + 1e-9)


def test_units_weigh_the_same_and_round_down():
    values = np.array([1.0, 0.0, 0.5, 2.0, np.nan])
    steps = in_steps(values, np.array([0, 0, 1, 2, 2]), 3)
    assert steps.tolist() == [UNIT_STEPS // 2, UNIT_STEPS // 2, UNIT_STEPS // 2]
    assert in_steps(values, None, 5).max() == UNIT_STEPS
    assert unit_sums(n=4, steps=7, dimension=3).guarantee.l1 == 21


def test_misuse_is_explained():
    how = Evaluation(1.0)
    with pytest.raises(InvalidDataError, match="one length"):
        how.accuracy([1, 0], [1])
    with pytest.raises(InvalidDataError, match="two units"):
        how.auc([1], [0.5], 1)
    with pytest.raises(InvalidParameterError, match="column per class"):
        how.log_loss([1, 0], [[0.5], [0.5]], [0, 1])
    for wrong in ({"epsilon": 0.0}, {"epsilon": 1.0, "confidence": 1.0}):
        with pytest.raises(InvalidParameterError):
            Evaluation(**wrong)
