"""Record and replay: right programs pass, each way to be wrong is seen."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from reticent.audit import Replay, replay, replay_pairs
from reticent.errors import InvalidParameterError
from reticent.guarantees import ReplaceOne, Scope, Sensitivity, claim
from reticent.mechanisms import (
    SystemSource,
    calibrate_gaussian,
    calibrate_laplace,
    draw_discrete_laplace,
    exponential_mechanism,
    soft_vote,
)
from reticent.prediction import PrivateVotingClassifier
from tests.stats import assert_rate

SOURCE = SystemSource()
ONE, OTHER = np.array([1, 2, 3]), np.array([1, 2, 9])


def sensitivity(l1, l2=None):
    return claim(Sensitivity(l1, l2), ReplaceOne(3), Scope.MODEL, statement="a test")


def noisy_sum(declared, *, clip=4, calibrate=calibrate_laplace, **settings):
    noise = calibrate(
        sensitivity(declared), epsilon=1.0, grid=1.0, on_grid=True, **settings
    )

    def run(data):
        return noise.response(np.clip(data, 0, clip).sum()).draw(SOURCE)

    return run


@pytest.mark.parametrize("calibrate", [calibrate_laplace, calibrate_gaussian])
def test_a_right_sum_passes_and_uses_what_it_declared(calibrate):
    settings = {"delta": 1e-6} if calibrate is calibrate_gaussian else {}
    run = noisy_sum(4.0, calibrate=calibrate, **settings)
    found = replay(run, np.array([0, 2]), np.array([4, 2]))
    assert found.holds
    assert (found.share, found.values, found.pairs) == (1.0, 1, 1)
    assert "holds" in str(found)


@pytest.mark.parametrize("calibrate", [calibrate_laplace, calibrate_gaussian])
def test_a_wrong_sensitivity_is_seen(calibrate):
    settings = {"delta": 1e-6} if calibrate is calibrate_gaussian else {}
    run = noisy_sum(3.0, calibrate=calibrate, **settings)
    found = replay(run, np.array([0, 2]), np.array([4, 2]))
    assert not found.holds
    assert found.share > 1
    assert "moves by 4" in str(found)
    assert "declared 3" in str(found)


def test_an_unclipped_sum_is_seen():
    assert replay(noisy_sum(4.0), ONE, OTHER).holds
    assert not replay(noisy_sum(4.0, clip=np.inf), ONE, OTHER).holds


def test_noise_that_depends_on_the_data_is_seen():
    def run(data):
        noise = calibrate_laplace(
            sensitivity(float(np.abs(data).max())), epsilon=1.0, grid=1.0, on_grid=True
        )
        return noise.response(data.sum()).draw(SOURCE)

    found = replay(run, ONE, OTHER)
    assert any("setting" in violation.what for violation in found.violations)


def test_noise_on_an_undeclared_value_is_seen():
    def run(data):
        return draw_discrete_laplace([data.sum()], 3.0, SOURCE)

    found = replay(run, ONE, OTHER)
    assert any("was not declared" in violation.what for violation in found.violations)
    assert replay(run, ONE, ONE[::-1]).holds


def test_a_release_beside_the_mechanism_is_seen():
    def run(data):
        vote = soft_vote([[1, 2]], 1.0).draw(SOURCE)
        return vote, len(np.unique(data))

    found = replay(run, np.array([1, 1]), np.array([1, 2]))
    assert [violation.where for violation in found.violations] == ["release"]


def test_draws_that_depend_on_the_data_are_seen():
    def run(data):
        for _ in range(data[-1]):
            SOURCE.permutation(2)
        return 0

    assert not replay(run, ONE, OTHER).holds


def test_a_failure_of_one_neighbour_is_seen():
    def run(data):
        if data[-1] > 5:
            raise InvalidParameterError("record seen")
        return 0

    assert not replay(run, ONE, OTHER).holds


def test_candidates_that_depend_on_the_data_are_seen():
    def run(data):
        scores = np.zeros(len(np.unique(data)), dtype=int)
        return exponential_mechanism(scores, 1.0, bound=1).draw(SOURCE)

    assert not replay(run, np.array([1, 1]), np.array([1, 2])).holds


def test_the_second_run_gets_the_first_ones_outputs():
    # Each step counts the units above the last noisy answer. With fresh noise the
    # second count would differ by more than one unit; with the same, it cannot.
    noise = calibrate_laplace(sensitivity(1.0), epsilon=0.1, grid=1.0, on_grid=True)

    def run(data):
        level = 50.0
        for _ in range(5):
            level = float(noise.response(float((data > level).sum())).draw(SOURCE))
        return level

    rng = np.random.default_rng(0)
    for _ in range(20):
        data = rng.integers(0, 100, 60)
        other = data.copy()
        other[0] = 100 - other[0]
        assert replay(run, data, other).holds


def voting(scaled):
    def run(data):
        X, y = data
        if scaled:
            X = StandardScaler().fit_transform(X)
        model = PrivateVotingClassifier(
            DecisionTreeClassifier(max_depth=1, random_state=0), 1.0, [0, 1], 5
        )
        return model.fit(X, y).predict([[-0.5], [0.0], [0.5]])

    return run


def vote_pairs(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        X, y = rng.normal(size=(20, 1)), rng.integers(0, 2, 20)
        other, z = X.copy(), y.copy()
        other[0], z[0] = 30.0, 1 - y[0]
        yield (X, y), (other, z)


def test_preprocessing_outside_of_shards_is_seen():
    assert replay_pairs(voting(scaled=False), vote_pairs(15, 0)).holds
    # One pair in three shows it, by the deal; of a hundred, surely one does.
    broken = voting(scaled=True)
    assert not all(replay(broken, *pair).holds for pair in vote_pairs(100, 0))


def test_a_unit_in_its_subset_is_exempt_and_counted():
    def run(data):
        chosen = data[SOURCE.subset(len(data), 1)]
        scores = [int(10 * chosen[0]), 0]
        return exponential_mechanism(scores, 1.0, bound=100).draw(SOURCE)

    total = Replay()
    for _ in range(60):
        total += replay(run, ONE, OTHER, unit=2)
    assert total.holds
    assert total.exempt + total.values == 60
    assert_rate(total.exempt, 60, 1 / 3)
    assert not replay_pairs(run, [(ONE, OTHER)] * 60).holds


def test_units_of_measurement_may_be_given():
    run, moves = noisy_sum(1.0), {"discrete Laplace noise": 3.0}
    gone = np.array([1, 2, 0])
    assert not replay(run, ONE, gone).holds
    assert replay(run, ONE, gone, moves=moves).holds


def test_no_pair_is_no_evidence():
    with pytest.raises(InvalidParameterError, match="no pair"):
        replay_pairs(noisy_sum(1.0), [])
