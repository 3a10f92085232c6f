"""Mechanisms that draw as they should and let a label out all the same."""

from __future__ import annotations

import numpy as np

from reticent.mechanisms import (
    Response,
    SoftmaxResponse,
    draw_bernoulli,
    flip_labels,
    flipped,
    soft_vote,
)
from tests.audit.broken_mechanisms import SOURCE, broken, coin, on


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


@broken
def a_lie_behind_a_flip(X, y):
    return int(flipped(Lying(int(y[0])), 0.01).draw(SOURCE)[0])


@broken
def a_law_that_is_out_of_date(X, y):
    response = SoftmaxResponse(np.zeros((1, 2)))
    assert response.log_probabilities.shape == (1, 2)
    response.log_weights[0, 0] = 40.0 * y[0]
    return int(response.draw(SOURCE)[0])


@broken
def arguments_in_another_order(X, y):
    return tuple(y[SOURCE.subset(m=1, n=2)].tolist())


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
