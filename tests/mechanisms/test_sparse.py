"""P9: transcripts are private, nothing leaks, nothing is spent twice."""

from __future__ import annotations

import copy
import json
import os
import pickle
import threading

import numpy as np
import pytest

from reticent._numbers import exact
from reticent.errors import BudgetExhaustedError
from reticent.guarantees import PureDP, Scope, recheck
from reticent.mechanisms import (
    SeededSource,
    SparseVector,
    SystemSource,
    discrete_laplace_law,
    sparse_scale,
    sparse_vector_certificate,
)
from tests.stats import assert_follows, rejects


def passes(values, noisy_threshold, scale):
    """Return the chance that value + discrete Laplace noise exceeds each threshold."""
    need = noisy_threshold - values + 1  # noise >= need
    a = np.exp(-1 / scale)
    tail = a ** np.where(need > 0, need, 1 - need)
    return np.where(need > 0, tail, 1 + a - tail) / (1 + a)


def transcript_law(queries, threshold, positives, *, scale, query_scale):
    """Return the exact law of all answers, as a dictionary, by summing over noise.

    Each turn sums over the threshold's noise; a yes starts the next turn.
    """
    reach = int(60 * max(scale, 1)) + 60
    noise = np.arange(-reach, reach + 1)
    weights = np.exp(discrete_laplace_law(noise, scale))
    law = {}

    def turn(start, left, chance, answers):
        if not left or start == len(queries):
            law[answers] = law.get(answers, 0.0) + chance
            return
        quiet = weights.copy()
        for place in range(start, len(queries)):
            up = passes(queries[place], threshold + noise, query_scale)
            heard = float((quiet * up).sum())
            no = answers + (0,) * (place - start)
            turn(place + 1, left - 1, chance * heard, (*no, 1))
            quiet = quiet * (1 - up)
        silent = answers + (0,) * (len(queries) - start)
        law[silent] = law.get(silent, 0.0) + chance * float(quiet.sum())

    turn(0, positives, 1.0, ())
    return law


def worst_loss(positives, *, scale, query_scale):
    """Return the largest log-ratio over some moves of every query by -1 or 1.

    The worst sequences have many queries well above the threshold that get a no, so
    that only the threshold's noise explains them, then one well below with a yes.
    """
    far = int(5 * max(scale, query_scale))
    signs = np.random.default_rng(0).choice([-1, 1], (12, 5 * positives))
    worst = 0.0
    for base in (np.zeros(5 * positives, dtype=int), [far] * 4 + [-far]):
        queries = np.tile(base, positives)[: 5 * positives]
        settings = {"scale": scale, "query_scale": query_scale}
        first = transcript_law(queries, 0, positives, **settings)
        for move in (np.sign(queries), -np.sign(queries), *signs):
            second = transcript_law(queries + move, 0, positives, **settings)
            worst = max(worst, *(abs(np.log(first[t] / second[t])) for t in first))
    return worst


@pytest.mark.parametrize("positives", [1, 2])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_transcripts_lose_at_most_epsilon(epsilon, positives):
    s = sparse_scale(epsilon, positives)
    worst = worst_loss(positives, scale=s, query_scale=2 * s)
    assert 0.9 * epsilon <= worst <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(
    ("name", "threshold", "query"),
    [
        ("half the noise", 0.5, 1.0),
        ("half the noise on queries", 1.0, 1.0),
        ("half the noise on the threshold", 0.5, 2.0),
    ],
)
def test_broken_variants_are_caught(name, threshold, query):
    s = sparse_scale(1.0, 1)
    assert worst_loss(1, scale=threshold * s, query_scale=query * s) > 1.2, name


def test_more_positives_than_calibrated_for_are_caught():
    s = sparse_scale(1.0, 1)  # calibrated for one yes, used for two
    assert worst_loss(2, scale=s, query_scale=2 * s) > 1.8


def test_scale_is_never_too_small():
    for epsilon in (0.1, 0.3, 1 / 3, 2.0):
        for positives in (1, 7):
            scale = sparse_scale(epsilon, positives)
            assert exact_float(scale) * exact(epsilon) >= 2 * positives
            assert scale == pytest.approx(2 * positives / epsilon)


def exact_float(value):
    return (
        exact(0.0)
        + exact(1.0)
        * float(value).as_integer_ratio()[0]
        / (float(value).as_integer_ratio()[1])
    )


def test_answers_follow_the_law(seed):
    queries, source = [1, 0, 3], SeededSource(seed)
    law = transcript_law(
        np.array(queries),
        1,
        2,
        scale=sparse_scale(4.0, 2),
        query_scale=2 * sparse_scale(4.0, 2),
    )
    transcripts = sorted(law)
    counts = dict.fromkeys(transcripts, 0)
    for _ in range(1_500):
        vector = SparseVector(1, epsilon=4.0, positives=2, source=source)
        counts[tuple(vector.ask(queries).astype(int).tolist())] += 1
    expected = np.array([law[t] for t in transcripts])
    assert_follows([counts[t] for t in transcripts], expected)
    other = transcript_law(np.array(queries), 1, 2, scale=1.5, query_scale=3.0)
    assert rejects(
        assert_follows,
        [counts[t] for t in transcripts],
        np.array([other[t] for t in transcripts]),
    )


def test_it_stops_after_its_last_yes():
    vector = SparseVector(0, epsilon=10.0, positives=2, source=SystemSource())
    answers = vector.ask([-(10**6)] * 5 + [10**6] * 5)
    assert answers.tolist() == [False] * 5 + [True] * 2
    assert vector.left == 0
    with pytest.raises(BudgetExhaustedError):
        vector.ask([0])
    assert vector.ask([]).tolist() == []


def test_a_saved_state_holds_no_noise_and_counts_the_turn_under_way():
    vector = SparseVector(3, epsilon=1.0, positives=4, source=SystemSource())
    vector.ask([-(10**6)])
    state = json.loads(json.dumps(vector.state()))
    assert set(state) == {"threshold", "epsilon", "positives", "left"}
    assert state["left"] == 3
    again = SparseVector.resume(state, SystemSource())
    assert again.left == 3
    assert again.ask([10**6] * 9).tolist() == [True] * 3


def test_crashes_never_win_a_yes():
    # Whatever the moment of the crash, turns begun in all stay within `positives`.
    turns, state = 0, None
    vector = SparseVector(0, epsilon=9.0, positives=5, source=SystemSource())
    state = vector.state()
    while vector.left:
        vector.ask([-(10**6)])  # a turn begins, nothing is saved: crash
        turns += 1
        vector = SparseVector.resume(state, SystemSource())
        state = vector.state()
    assert turns <= 5


def test_copies_and_pickles_are_refused():
    vector = SparseVector(0, epsilon=1.0, positives=1, source=SystemSource())
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ValueError, match="state"):
            attempt(vector)


def test_a_forked_copy_does_not_answer(monkeypatch):
    vector = SparseVector(0, epsilon=1.0, positives=1, source=SystemSource())
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(BudgetExhaustedError, match="process"):
        vector.ask([0])


def test_threads_share_one_budget():
    vector = SparseVector(0, epsilon=50.0, positives=20, source=SystemSource())
    answers = []

    def ask():
        for _ in range(20):
            try:
                answers.extend(vector.ask([10**6]).tolist())
            except BudgetExhaustedError:
                return

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(answers) == 20


def test_certificate_is_for_all_answers():
    certificate = sparse_vector_certificate(n=30, epsilon=0.5, positives=3)
    assert certificate.guarantee == PureDP(0.5)
    assert certificate.scope is Scope.INTERFACE
    recheck(certificate)


@pytest.mark.parametrize(
    "change",
    [
        {"threshold": 0.5},
        {"threshold": float("nan")},
        {"threshold": 2**60},
        {"epsilon": 0.0},
        {"epsilon": float("nan")},
        {"epsilon": -1.0},
        {"positives": 0},
        {"positives": 1.5},
        {"epsilon": 1e-200},
    ],
)
def test_nonsense_is_refused(change):
    arguments = {"threshold": 1, "epsilon": 1.0, "positives": 1, **change}
    with pytest.raises(ValueError, match=r".") as raised:
        SparseVector(**arguments, source=SystemSource())
    assert type(raised.value).__module__ == "reticent.errors"


@pytest.mark.parametrize("values", [[0.5], [float("nan")], [[1]], 3, [2**60], ["a"]])
def test_queries_must_be_whole_numbers(values):
    vector = SparseVector(0, epsilon=1.0, positives=1, source=SystemSource())
    with pytest.raises(ValueError, match="values"):
        vector.ask(values)


@pytest.mark.parametrize(
    "state",
    [{}, {"left": 1}, {"left": 9, "threshold": 0, "epsilon": 1.0, "positives": 2}],
)
def test_a_broken_state_is_refused(state):
    with pytest.raises(ValueError, match="state"):
        SparseVector.resume(state, SystemSource())
