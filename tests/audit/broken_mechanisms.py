"""Mechanisms that break a small promise, each in a way of its own.

Most reveal the first label on a fair coin: exact loss infinity. What differs is where
the coin comes from; `broken_releases` differ in how the label gets out.
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
    SeededSource,
    SystemSource,
    draw_below,
    draw_bernoulli,
    draw_bernoulli_exp,
    draw_categorical,
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
