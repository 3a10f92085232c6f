"""Listening: heard when asked for, silent and without effect otherwise."""

import threading

import numpy as np
import pytest

from reticent.guarantees import ReplaceOne, Scope, Sensitivity, claim
from reticent.mechanisms import (
    Listener,
    SeededSource,
    SystemSource,
    calibrate_gaussian,
    calibrate_laplace,
    exponential_mechanism,
    flip_labels,
    geometric_vote,
    listen,
    reach,
    soft_vote,
)

SOURCE = SystemSource()


class Ear(Listener):
    def __init__(self):
        self.values, self.draws = [], []

    def reached(self, reached):
        self.values.append(reached)

    def drawn(self, draw, sample):
        outcome = sample()
        self.draws.append((draw.kind, outcome))
        return outcome


def test_values_and_draws_are_heard_in_order():
    ear = Ear()
    with listen(ear):
        geometric_vote([[1, 4], [3, 2]], 1.0).draw(SOURCE)
        exponential_mechanism([0, 2], 1.0, bound=2, sensitivity=2).draw(SOURCE)
    votes, scores = ear.values
    assert votes.mechanism == "geometric vote"
    assert votes.values.tolist() == [[1, 4], [3, 2]]
    assert (votes.largest, votes.l1, votes.settings) == (1, 2, (1.0, 5))
    assert (scores.largest, scores.values.tolist()) == (2, [[0, 2]])
    assert [kind for kind, _ in ear.draws] == ["label", "label"]


@pytest.mark.parametrize("calibrate", [calibrate_laplace, calibrate_gaussian])
def test_noise_declares_the_move_it_was_calibrated_to(calibrate):
    premise = claim(
        Sensitivity(3.0, 2.0), ReplaceOne(9), Scope.ANSWER, statement="a test"
    )
    delta = {"delta": 1e-6} if calibrate is calibrate_gaussian else {}
    noise = calibrate(
        premise, epsilon=1.0, dimension=2, grid=0.5, on_grid=True, **delta
    )
    ear = Ear()
    with listen(ear):
        drawn = noise.response([[1.0, 2.0]]).draw(SOURCE)
    (heard,) = ear.values
    assert heard.values.tolist() == [[2, 4]]
    declared = heard.l1 if calibrate is calibrate_laplace else heard.l2
    assert declared == (6.0 if calibrate is calibrate_laplace else 4.0)
    ((kind, noisy),) = ear.draws
    assert kind == "noise"
    assert (noisy * 0.5).tolist() == drawn.tolist()


def test_draws_within_a_draw_are_one():
    ear = Ear()
    with listen(ear):
        SOURCE.permutation(5)
        SOURCE.subset(100, 3)
        flip_labels([0, 1], 0.1, SOURCE)
        SOURCE.words(2)
    assert [kind for kind, _ in ear.draws] == ["permutation", "subset", "flip", "words"]


def test_a_listener_may_set_what_is_drawn():
    class Puppeteer(Listener):
        def drawn(self, draw, sample):
            return np.array([7])

    with listen(Puppeteer()):
        assert soft_vote([[1, 2]], 1.0).draw(SOURCE).tolist() == [7]
    assert soft_vote([[1, 2]], 1.0).draw(SOURCE)[0] in (0, 1)


def test_listening_changes_no_draw():
    def draws():
        source = SeededSource(5)
        return [soft_vote([[1, 2]] * 20, 1.0).draw(source).tolist(), source.words(3)]

    alone = draws()
    with listen(Ear()):
        overheard = draws()
    assert alone[0] == overheard[0]
    assert (alone[1] == overheard[1]).all()


def test_nothing_is_heard_outside_the_block_or_in_another_thread():
    ear = Ear()
    values = np.array([[1]])
    with listen(ear):
        thread = threading.Thread(target=reach, args=("other", values))
        thread.start()
        thread.join()
    with pytest.raises(RuntimeError, match="on purpose"), listen(ear):
        raise RuntimeError("on purpose")
    reach("later", values)
    assert not ear.values


def test_a_failing_draw_leaves_the_listener_in_place():
    ear = Ear()
    with listen(ear):
        with pytest.raises(ValueError, match="subset"):
            SOURCE.subset(1, 2)
        SOURCE.permutation(2)
    assert [kind for kind, _ in ear.draws] == ["permutation"]


def test_what_is_heard_is_a_copy():
    ear, values = Ear(), np.array([[1, 2]])
    with listen(ear):
        reach("copy", values)
    values[0, 0] = 9
    assert ear.values[0].values.tolist() == [[1, 2]]
