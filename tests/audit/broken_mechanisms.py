"""Mechanisms that break a small promise, each in a way of its own.

Most reveal the first label on a fair coin: exact loss infinity. What differs is where
the coin comes from, or how the label gets out.
"""

from __future__ import annotations

import contextvars
import itertools
import os
import random
import secrets
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from os import urandom

import numpy as np

from reticent.mechanisms import (
    RandomSource,
    Response,
    SeededSource,
    SoftmaxResponse,
    SystemSource,
    draw_below,
    draw_bernoulli,
    draw_bernoulli_exp,
    draw_categorical,
    flip_labels,
    soft_vote,
)

SOURCE = SystemSource()
KEPT = np.random.default_rng(5)
PYTHON_KEPT = random.Random(5)
POOL = ThreadPoolExecutor(1)
COUNTS = {"runs": 0}
EMPTY = contextvars.Context()

BROKEN = {}


def broken(function):
    BROKEN[function.__name__.replace("_", "-")] = function
    return function


def coin(source=SOURCE):
    return bool(draw_bernoulli(0.5, source))


def on(drawn, y):
    """Reveal the first label, or nothing."""
    return int(y[0]) if drawn else -1


# --- where the coin comes from ---------------------------------------------------


@broken
def a_bernoulli(X, y):
    return on(coin(), y)


@broken
def a_bernoulli_exp(X, y):
    return on(draw_bernoulli_exp(0.7, SOURCE), y)


@broken
def a_draw_below(X, y):
    half = np.array([0.5])
    drawn = draw_below(half, half, lambda i, bits: (1 << bits - 1,) * 2, SOURCE)
    return on(drawn[0], y)


@broken
def bounds_that_do_not_agree(X, y):
    # By its floats the coin is nearly sure, by its refinement it is fair.
    p = np.array([0.001 + 0.998 * y[0]])
    return bool(draw_below(p, p, lambda i, bits: (1 << bits - 1,) * 2, SOURCE)[0])


@broken
def a_categorical(X, y):
    return on(draw_categorical([[0.0, 0.0]], SOURCE)[0], y)


@broken
def one_byte(X, y):
    return on(SOURCE.bytes(1)[0] & 1, y)


@broken
def eight_bytes(X, y):
    return on(SOURCE.bytes(8)[0] & 1, y)


@broken
def a_word(X, y):
    return on(int(SOURCE.words(1)[0]) & 1, y)


@broken
def a_name(X, y):
    return on(int(SOURCE.name(4), 16) & 1, y)


@broken
def numpy_at_large(X, y):
    return on(np.random.rand() < 0.5, y)  # noqa: NPY002


@broken
def a_fresh_numpy_generator(X, y):
    return on(np.random.default_rng().random() < 0.5, y)


@broken
def a_kept_numpy_generator(X, y):
    return on(KEPT.random() < 0.5, y)


@broken
def python_at_large(X, y):
    return on(random.random() < 0.5, y)


@broken
def a_kept_python_generator(X, y):
    return on(PYTHON_KEPT.getrandbits(1), y)


@broken
def a_fresh_python_generator(X, y):
    return on(random.Random().random() < 0.5, y)


@broken
def secret_bits(X, y):
    return on(secrets.randbits(1), y)


@broken
def bits_of_the_system(X, y):
    return on(os.urandom(1)[0] & 1, y)


@broken
def bits_of_the_system_by_another_name(X, y):
    return on(urandom(1)[0] & 1, y)


@broken
def a_random_identifier(X, y):
    return on(uuid.uuid4().int & 1, y)


@broken
def a_clock(X, y):
    return on(time.time_ns() // 1000 & 1, y)


@broken
def a_date(X, y):
    return on(datetime.now().microsecond & 1, y)


@broken
def a_seed_from_the_data(X, y):
    return int(y[0]) ^ int(coin(SeededSource(int(y.sum()))))


class Constant(RandomSource):
    seeded = False

    def bytes(self, count):
        return b"\0" * count


@broken
def a_source_that_gives_zeros(X, y):
    return int(y[0]) ^ int(coin(Constant()))


class Tampered(SystemSource):
    def words(self, count):
        return np.zeros(count, dtype=np.uint64)


@broken
def a_source_of_another_class(X, y):
    return int(y[0]) ^ int(Tampered().below(np.array([2], dtype=np.uint64))[0])


@broken
def another_thread(X, y):
    found = []
    thread = threading.Thread(target=lambda: found.append(coin()))
    thread.start()
    thread.join()
    return on(found[0], y)


@broken
def a_thread_that_is_there_already(X, y):
    return on(POOL.submit(coin).result(), y)


@broken
def another_context(X, y):
    return on(EMPTY.run(coin), y)


@broken
def a_chance_that_is_random_itself(X, y):
    p = KEPT.random() * 0.01 + 0.98 * y[0]
    return bool(draw_bernoulli(p, SOURCE))


# --- what is remembered ----------------------------------------------------------


def remembering():
    kept = {}

    def run(X, y):
        if "coin" not in kept:
            kept["coin"] = coin()
        return int(y[0]) ^ int(kept["coin"])

    return run


BROKEN["a-coin-drawn-once"] = remembering()


@broken
def the_thousandth_run(X, y):
    COUNTS["runs"] += 1
    return int(y[0]) if COUNTS["runs"] % 100_000 == 0 else int(coin())


def counting():
    turns = itertools.count()

    def run(X, y):
        return int(y[0]) if next(turns) > 10**6 else int(coin())

    return run


def going_on():
    def turns():
        for turn in itertools.count():
            yield turn > 10**6

    going = turns()

    def run(X, y):
        return int(y[0]) if next(going) else int(coin())

    return run


class Stateful:
    def __init__(self):
        self.runs = 0

    def __call__(self, X, y):
        self.runs += 1
        return int(y[0]) if self.runs > 10**6 else int(coin())


BROKEN["a-counter"] = counting()
BROKEN["a-generator-that-goes-on"] = going_on()
BROKEN["an-object-that-counts"] = Stateful()
BROKEN["a-method-that-counts"] = Stateful().__call__


@broken
def its_own_data_are_overwritten(X, y):
    first = int(y[0])
    y[:] = 0
    return first if coin() else -1


# --- how the label gets out ------------------------------------------------------


@broken
def an_exception(X, y):
    if coin() and y[0]:
        raise ValueError("no convergence")
    return 0


@broken
def the_text_of_an_exception(X, y):
    raise ValueError(f"bad label {y[0]}" if coin() else "bad label")


@broken
def the_cause_of_an_exception(X, y):
    if not coin():
        return 0
    try:
        return {}[int(y[0])]
    except KeyError:
        raise ValueError("withheld") from None


@broken
def an_argument_that_a_sampler_refuses(X, y):
    return int(flip_labels([0], 0.6 if y[0] else 0.4, SOURCE)[0])


@broken
def the_type(X, y):
    return bool(coin()) if y[0] else int(coin())


@broken
def the_width_of_a_number(X, y):
    return np.float32(0.5) if y[0] and coin() else np.float64(0.5)


@broken
def the_sign_of_zero(X, y):
    return -0.0 if y[0] and coin() else 0.0


@broken
def the_sign_of_nan(X, y):
    return float(np.copysign(np.nan, -1.0 if y[0] and coin() else 1.0))


@broken
def the_last_bit(X, y):
    value = float(soft_vote([[1, 1]], 1.0).draw(SOURCE)[0]) + 1.0
    return float(np.nextafter(value, 9.0)) if y[0] else value


class Labelled(int):
    """A number that carries more than it shows."""


@broken
def an_attribute(X, y):
    result = Labelled(coin())
    result.about = int(y[0])
    return result


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Slotted)

    def __hash__(self):
        return 0


@broken
def an_object_that_calls_itself_equal(X, y):
    return Slotted(int(y[0]) if coin() else -1)


@broken
def the_order_of_a_dictionary(X, y):
    names = ("a", "b") if y[0] and coin() else ("b", "a")
    return dict.fromkeys(names, 0)


@broken
def the_order_of_a_set(X, y):
    return frozenset((0, 8) if y[0] and coin() else (8, 0))


@broken
def a_function_that_knows(X, y):
    first = int(y[0])
    return lambda: first


@broken
def a_generator_that_knows(X, y):
    return (int(label) for label in y)


@broken
def one_coin_for_two_cells(X, y):
    flip = int(draw_bernoulli(0.25, SOURCE))
    return tuple(int(label) ^ flip for label in y)


@broken
def how_many_draws(X, y):
    count = 0
    while count < 3 + y[0] and coin():
        count += 1
    return count


@broken
def a_loop_without_end(X, y):
    tries = 1
    while not draw_bernoulli(0.999 if y[0] else 0.001, SOURCE):
        tries += 1
    return tries


@broken
def an_order(X, y):
    return tuple(y[SOURCE.permutation(len(y))].tolist())


class Lying(Response):
    """States a fair coin and draws the label."""

    def __init__(self, label):
        self.label = label

    n_labels = 2

    def __len__(self):
        return 1

    def draw(self, source):
        return np.array([self.label])

    def _log_probabilities(self):
        return np.log(np.full((1, 2), 0.5))

    def _log_intervals(self, row, arithmetic):
        return [arithmetic.log(arithmetic.real(0.5))] * 2


@broken
def a_law_that_is_not_drawn_from(X, y):
    return int(Lying(int(y[0])).draw(SOURCE)[0])


class HalfLying(SoftmaxResponse):
    def _log_probabilities(self):
        return np.log(np.full(self.log_weights.shape, 0.5))


@broken
def a_law_that_is_stated_wrongly(X, y):
    return int(HalfLying(np.array([[0.0, 9.0 * y[0]]])).draw(SOURCE)[0])


@broken
def refusals_are_swallowed(X, y):
    try:
        drawn = np.random.default_rng().random() < 0.5
    except BaseException:  # noqa: BLE001
        return 0
    return on(drawn, y)


@broken
def refusals_of_raw_bits_are_swallowed(X, y):
    try:
        drawn = int(SOURCE.words(1)[0]) & 1
    except BaseException:  # noqa: BLE001
        return 0
    return on(drawn, y)
