"""The exact auditor hears every coin or refuses; nothing broken is called kept."""

import gc
import math
import time

import numpy as np
import pytest
from opendp import domains, measurements, metrics, mod

from reticent.audit import exact_law, verify_release
from reticent.audit.verification.hidden_randomness import watched
from reticent.audit.verification.outcomes import observable_form
from reticent.errors import CannotJudgeError, InvalidParameterError
from reticent.guarantees import PureDP
from reticent.hypotheses import Intervals, Thresholds
from reticent.learners import ExponentialMechanismClassifier
from reticent.mechanisms import (
    SystemSource,
    draw_bernoulli,
    draw_bernoulli_exp,
    draw_categorical,
    draw_discrete_laplace,
    flip_labels,
)
from tests.audit import broken_releases
from tests.audit.broken_mechanisms import BROKEN

SOURCE = SystemSource()
LABELS = [(0, 0), (0, 1)]
PROMISE = PureDP(1.5)


def verdict(release, claim=PROMISE, domain=LABELS, n=2):
    try:
        return "kept" if verify_release(release, domain, n, claim=claim).holds else "no"
    except CannotJudgeError:
        return "refused"


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_what_is_broken_is_never_called_kept(name):
    assert verdict(BROKEN[name]) in ("no", "refused")


def test_there_are_broken_ones_of_both_kinds():
    modules = {getattr(each, "__module__", "") for each in BROKEN.values()}
    assert broken_releases.__name__ in modules
    assert len(BROKEN) >= 60


def test_opendp_beside_our_own_samplers_is_refused():
    mod.enable_features("contrib")
    noise = measurements.make_laplace(
        domains.atom_domain(T="i64"), metrics.absolute_distance(T="i64"), 1.0
    )
    assert verdict(lambda X, y: noise(int(y[0])) > 0) == "refused"


def test_a_label_on_a_fair_coin_is_seen_by_every_sampler():
    for name in ("a-bernoulli", "a-bernoulli-exp", "a-draw-below", "a-categorical"):
        report = verify_release(BROKEN[name], LABELS, 2, claim=PureDP(0.1))
        assert not report.holds
        assert report.worst == math.inf
    assert not verify_release(BROKEN["one-byte"], LABELS, 2, claim=PureDP(0.1)).holds


# Randomised response that lies one time in four: exactly ln 3, by each sampler.
LOSS = math.log(3)


def right(X, y):
    return int(y[0]) ^ int(draw_bernoulli(0.25, SOURCE))


def right_by_categories(X, y):
    return int(y[0]) ^ int(draw_categorical([[math.log(3), 0.0]], SOURCE)[0])


def right_by_a_byte(X, y):
    return int(y[0]) ^ (SOURCE.bytes(1)[0] < 64)


def right_by_digits(X, y):
    return int(y[0]) ^ (int(SOURCE.below(np.array([4], dtype=np.uint64))[0]) == 3)


def right_by_flipping(X, y):
    return int(flip_labels(y[:1], 0.25, SOURCE)[0])


def right_by_several_steps(X, y):
    # Two coins of one half; NaN, text and exceptions are as good as labels.
    if draw_bernoulli([0.5, 0.5], SOURCE).all() != bool(y[0]):
        return (float("nan"), "yes", {"a": [1.5]})
    raise ValueError("no")


def right_with_numpy_seeded_by_a_constant(X, y):
    order = np.random.default_rng(3).permutation(len(y))
    return int(flip_labels(y[order][:1], 0.25, SOURCE)[0])


RIGHT = [
    right,
    right_by_categories,
    right_by_a_byte,
    right_by_digits,
    right_by_flipping,
    right_by_several_steps,
    right_with_numpy_seeded_by_a_constant,
]


@pytest.mark.parametrize("release", RIGHT)
def test_right_ones_are_called_kept_with_their_exact_loss(release):
    reports = [
        verify_release(release, LABELS, 2, claim=PureDP(LOSS + 1e-12)) for _ in range(2)
    ]
    assert all(report.holds for report in reports)
    assert reports[0].worst == pytest.approx(LOSS, abs=1e-9)
    # The same every time: nothing in a verdict is drawn.
    assert len({(report.worst, report.pairs) for report in reports}) == 1
    assert not verify_release(release, LABELS, 2, claim=PureDP(0.99 * LOSS)).holds


def test_a_right_exponential_draw_has_its_law():
    def release(X, y):
        return int(y[0]) ^ bool(draw_bernoulli_exp(math.log(4), SOURCE))

    report = verify_release(release, LABELS, 1, claim=PureDP(2.0))
    assert report.worst == pytest.approx(LOSS, abs=1e-12)


@pytest.mark.parametrize(
    ("family", "outcomes"), [(Thresholds("up"), 9), (Intervals(2, "0"), 1 + 8 + 28)]
)
def test_laws_on_a_grid_are_gone_through(family, outcomes):
    model = ExponentialMechanismClassifier(
        family, 1.0, bounds=(0.0, 8.0), resolution=8, classes=[0, 1]
    )
    X, y = [[1.0], [5.0]], [0, 1]
    response = model.response(X, y)
    law = exact_law(lambda: response.draw(SOURCE))
    assert math.fsum(map(math.exp, law.values())) == pytest.approx(1, abs=1e-12)
    assert len(law) == outcomes


def test_a_right_release_on_a_grid_holds_every_time():
    def release(epsilon):
        def run(X, y):
            model = ExponentialMechanismClassifier(
                Thresholds("up"),
                epsilon,
                bounds=(0.0, 4.0),
                resolution=4,
                classes=[0, 1],
            )
            return model.fit(X, y).hypothesis_

        return run

    domain = [(1.0, 0), (1.0, 1), (3.0, 1)]
    for _ in range(2):
        assert verdict(release(1.0), PureDP(1.0), domain) == "kept"
    assert verdict(release(4.0), PureDP(1.0), domain) == "no"


def test_noise_that_is_left_out_must_have_no_influence():
    def release(X, y):
        noisy = draw_discrete_laplace([int(y.sum())], 1.0, SOURCE)
        return int(flip_labels(y[:1], 0.25, SOURCE)[0]), noisy.shape

    def peeking(X, y):
        return int(draw_discrete_laplace([int(y.sum())], 1.0, SOURCE)[0]) > 100

    claim = PureDP(LOSS + 1e-12)
    assert verify_release(release, LABELS, 2, claim=claim, noiseless=True).holds
    with pytest.raises(CannotJudgeError, match="left out"):
        verify_release(
            lambda X, y: draw_discrete_laplace([0], 1.0, SOURCE)[0],
            LABELS,
            2,
            claim=claim,
            noiseless=True,
        )
    with pytest.raises(InvalidParameterError, match="infinitely many"):
        verify_release(peeking, LABELS, 2, claim=claim)


def test_an_order_that_matters_is_not_symmetric():
    def first(X, y):
        return int(flip_labels(y[:1], 0.25, SOURCE)[0])

    claim = PureDP(LOSS + 1e-12)
    with pytest.raises(CannotJudgeError, match="symmetric"):
        verify_release(first, LABELS, 2, claim=claim, symmetric=True)
    assert verify_release(first, LABELS, 2, claim=claim).holds


def test_a_program_that_always_fails_is_a_mistake():
    def release(X, y):
        raise NotImplementedError("soon")

    with pytest.raises(NotImplementedError, match="soon"):
        verify_release(release, LABELS, 2, claim=PROMISE)


def test_equal_outcomes_that_can_be_told_apart_have_no_table():
    def run():
        return True if draw_bernoulli(0.5, SOURCE) else 1

    with pytest.raises(CannotJudgeError, match="distinguishable"):
        exact_law(run)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (0.0, -0.0),
        ([1], (1,)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (np.zeros(2), np.zeros((2, 1))),
        (np.zeros(2, np.int32), np.zeros(2, np.int64)),
        (np.array(["a"], object), np.array(["b"], object)),
        (ValueError("a"), ValueError("b")),
        (Thresholds("up"), Thresholds("down")),
        (int, float),
    ],
)
def test_what_can_be_told_apart_is_spelled_differently(one, other):
    assert observable_form(one) != observable_form(other)
    assert observable_form(one) == observable_form(one)


def test_what_cannot_be_compared_is_refused():
    ring = []
    ring.append(ring)
    for outcome in (ring, lambda: 0, iter([1]), [].append, open):
        if outcome is open:
            observable_form(outcome)
        else:
            with pytest.raises(CannotJudgeError):
                observable_form(outcome)


def test_what_others_do_when_memory_is_collected_is_not_the_program_s():
    def timing(phase, info):
        time.perf_counter()

    gc.callbacks.append(timing)
    try:
        seen = []
        with watched(seen.append):
            for _ in range(20_000):
                [[]].append([])  # enough to start a collection
        assert not seen
        assert gc.isenabled()
    finally:
        gc.callbacks.remove(timing)
