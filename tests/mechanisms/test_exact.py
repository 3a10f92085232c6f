"""Exact samplers: no interval is wrong, every boundary is decided, laws are kept."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from reticent.errors import ReticentError
from reticent.mechanisms import (
    SeededSource,
    SystemSource,
    discrete_gaussian_law,
    discrete_laplace_law,
    draw_below,
    draw_bernoulli,
    draw_bernoulli_exp,
    draw_categorical,
    draw_discrete_gaussian,
    draw_discrete_laplace,
)
from reticent.mechanisms.sampling import categorical, exact
from reticent.mechanisms.sampling.exact import exp_interval
from tests.mechanisms.scripted import ScriptedSource, bits_of
from tests.stats import assert_follows, assert_rate, mutant, rejects

DRAWS = 1_000_000
mp = mpmath.MPContext()
mp.prec = 600


def adversarial_exponents():
    rng = np.random.default_rng(0)
    special = [0.0, 5e-324, 1e-300, 2.0**-53, 0.5, 1.0, 699.9, 700.0, 701.0, 745.2]
    special += [np.log(2), 1e7, 1e300, 1.7e308, np.nextafter(700, 0), np.pi]
    spread = np.exp(rng.uniform(-40, np.log(720), 4_000))
    # Just beside multiples of ln 2, where range reduction is hardest.
    multiples = np.arange(1, 1_000) * np.log(2)
    return np.concatenate(
        [
            special,
            spread,
            multiples,
            np.nextafter(multiples, 0),
            rng.integers(0, 720, 99),
        ]
    )


def true_exp(x):
    return mp.exp(-mp.mpf(float(x)))


@pytest.mark.parametrize("error", [0.0, 2.0**-38])
def test_float_interval_holds_the_exponential(error):
    x = adversarial_exponents()
    low, high = exp_interval(x, error)
    assert (low >= 0).all()
    assert (high <= 1).all()
    for exponent, a, b in zip(x, low, high, strict=True):
        for moved in {exponent, max(0.0, exponent - error), exponent + error}:
            assert mp.mpf(a) <= true_exp(moved) <= mp.mpf(b)


def test_float_interval_is_narrow():
    x = np.linspace(0, 30, 1_001)
    low, high = exp_interval(x)
    assert ((high - low) <= 1e-14 * np.exp(-x)).all()


def test_interval_check_catches_bare_floats():
    x = adversarial_exponents()
    bare = np.exp(-np.minimum(x, 740))
    missed = [mp.mpf(float(b)) != true_exp(e) for e, b in zip(x, bare, strict=True)]
    assert sum(missed) > 1_000


def decisions(draw, threshold, n_words):
    """Draw with U just below and just above a threshold, `n_words` words deep.

    `threshold` is the real number p as an mpf. Returns the outcomes, and how many
    bytes were left over.
    """
    depth = 53 + 64 * n_words
    at = int(mp.floor(mp.ldexp(threshold, depth)))
    results = []
    for value in (at - 1, at + 1):
        source = ScriptedSource(bits_of(value, n_words))
        results.append((draw(source), len(source.left)))
    return results


@pytest.mark.parametrize("n_words", [1, 2])
@pytest.mark.parametrize(
    "x", [1e-9, 0.1, 0.5, np.log(2), 1.0, 3.7, 20.0, 36.0, 30.000000000000004]
)
def test_bernoulli_exp_decides_at_its_boundary(x, n_words):
    below, above = decisions(
        lambda source: bool(draw_bernoulli_exp([x], source)[0]), true_exp(x), n_words
    )
    assert below == (True, 0)
    assert above == (False, 0)


def test_boundary_check_catches_a_float_comparison():
    x = 0.1
    at = int(mp.floor(mp.ldexp(true_exp(x), 117)))
    verdicts = {value / 2**117 < np.exp(-x) for value in (at - 1, at + 1)}
    assert len(verdicts) == 1  # a float cannot tell the two sides apart


def test_unlikely_success_is_possible():
    # exp(-2000) has 2885 zeros after the point; U starts with that many, and succeeds.
    source = ScriptedSource(bytes(4 + 8 * 47))
    assert draw_bernoulli_exp([2000.0], source)[0]
    assert 0 < len(source.left) < 3 * 8


@pytest.mark.parametrize("p", [0.1, 1 / 3, 0.7, 1e-3, 2.0**-60, 3e-17])
def test_bernoulli_takes_a_float_for_what_it_is(p):
    # Deep enough to hold every bit of p; p itself is no longer below p.
    at = int(Fraction(p) * 2**181)
    assert Fraction(at, 2**181) == Fraction(p)
    for value, expected in ((at - 1, True), (at, False)):
        source = ScriptedSource(bits_of(value, 2))
        assert draw_bernoulli([p], source)[0] == expected


@pytest.mark.parametrize("p", [Fraction(1, 3), Fraction(2, 7), Fraction(1, 10**40)])
def test_bernoulli_takes_rationals(p):
    at = int(p * 2**245)
    for value, expected in ((at - 1, True), (at + 1, False)):
        source = ScriptedSource(bits_of(value, 3))
        assert draw_bernoulli(np.array([p], dtype=object), source)[0] == expected


def test_certain_and_impossible_need_no_luck():
    p = np.array([0.0, 1.0])
    for script in (bytes(8), b"\xff" * 8):
        assert draw_bernoulli(p, ScriptedSource(script)).tolist() == [False, True]
    assert draw_bernoulli_exp([0.0, -0.0], ScriptedSource(b"\xff" * 8)).all()
    ends = np.array([Fraction(0), Fraction(1)])
    assert draw_bernoulli(ends, SystemSource()).tolist() == [False, True]


LOG_WEIGHTS = {
    "two": [0.0, 1.5],
    "two, far apart": [0.0, 33.0],
    "five": [0.3, -2.0, 1.1, 0.0, 4.0],
    "with far ones": [0.0, -1e6, -30.0, -1e300, -745.0],
    "many": np.linspace(-3, 3, 300).tolist(),
    "very many": np.linspace(-3, 3, 600).tolist(),
    "equal": [7.0] * 3,
}


def cumulative(weights):
    chances = [mp.exp(mp.mpf(w) - mp.mpf(max(weights))) for w in weights]
    total = mp.fsum(chances)
    return [mp.fsum(chances[: j + 1]) / total for j in range(len(weights) - 1)]


@pytest.mark.parametrize("n_words", [1, 2])
@pytest.mark.parametrize("name", LOG_WEIGHTS)
def test_categorical_decides_at_its_boundaries(name, n_words):
    weights = LOG_WEIGHTS[name]
    depth = 53 + 64 * n_words
    ends = cumulative(weights)
    for edge in ends[:: max(1, len(ends) // 7)]:
        at = int(mp.floor(mp.ldexp(edge, depth)))
        for value in (at - 2, at + 2):
            point = mp.ldexp(mp.mpf(2 * value + 1), -depth - 1)
            if not 0 < point < 1:
                continue
            source = ScriptedSource(bits_of(value, n_words) + b"\x80" * 16)
            label = draw_categorical([weights], source)[0]
            assert label == sum(point >= end for end in ends)
            assert len(source.left) <= 16


@pytest.mark.parametrize("name", LOG_WEIGHTS)
def test_categorical_agrees_with_exact_cumulative_sums(name, seed):
    weights, rng = LOG_WEIGHTS[name], np.random.default_rng(seed)
    values = [int(v) for v in rng.integers(0, 2**53, 300)]
    ends = cumulative(weights)
    labels = [
        draw_categorical([weights], ScriptedSource(bits_of(v, 0)))[0] for v in values
    ]
    points = [mp.ldexp(mp.mpf(v), -53) for v in values]
    assert labels == [sum(point >= end for end in ends) for point in points]


@pytest.mark.parametrize("near", [-3, -1, 0, 1, 3])
def test_categorical_decides_between_32_and_53_bits(near):
    # U agrees with a boundary to 32 bits and a few more: the second look is enough.
    weights = LOG_WEIGHTS["five"]
    ends = cumulative(weights)
    for end in ends:
        value = int(mp.floor(mp.ldexp(end, 53))) + near * 2**13
        source = ScriptedSource(bits_of(value, 0) + bytes(8))
        point = mp.ldexp(mp.mpf(value), -53)
        expected = sum(point >= other for other in ends)
        assert near == 0 or draw_categorical([weights], source)[0] == expected
        assert near == 0 or len(source.left) == 8


def test_block_and_row_by_row_draws_agree(seed):
    rng = np.random.default_rng(seed)
    weights = rng.normal(scale=4, size=(500, 6))
    heads = rng.bytes(4 * 500)
    block = draw_categorical(weights, ScriptedSource(heads))
    # Hopeless labels push the row over the limit for blocks; the law stays.
    padded = np.hstack([weights, np.full((500, 600), -1e9)])
    script = b"".join(heads[4 * i : 4 * i + 4] + rng.bytes(8) for i in range(500))
    rows = draw_categorical(padded, ScriptedSource(script))
    assert (block == rows).all()


@pytest.mark.parametrize("p", [0.3, 0.001, 0.999])
def test_bernoulli_follows_its_law(p, seed):
    hits = int(draw_bernoulli(np.full(DRAWS, p), SeededSource(seed)).sum())
    counts, law = [hits, DRAWS - hits], np.array([p, 1 - p])
    assert_follows(counts, law)
    assert rejects(assert_follows, counts, mutant(law))


@pytest.mark.parametrize("x", [0.05, 0.7, 3.0])
def test_bernoulli_exp_follows_its_law(x, seed):
    hits = int(draw_bernoulli_exp(np.full(DRAWS, x), SeededSource(seed)).sum())
    counts, law = [hits, DRAWS - hits], np.array([np.exp(-x), -np.expm1(-x)])
    assert_follows(counts, law)
    assert rejects(assert_follows, counts, mutant(law))


@pytest.mark.parametrize("name", ["two", "five", "equal"])
@pytest.mark.parametrize("kind", ["seeded", "system"])
def test_categorical_follows_its_law(name, kind, seed):
    source = SeededSource(seed) if kind == "seeded" else SystemSource()
    weights = np.array(LOG_WEIGHTS[name])
    labels = draw_categorical(np.tile(weights, (DRAWS, 1)), source)
    law = np.exp(weights) / np.exp(weights).sum()
    counts = np.bincount(labels, minlength=len(law))
    assert_follows(counts, law)
    assert rejects(assert_follows, counts, mutant(law))


@pytest.mark.parametrize("name", ["many", "very many"])
def test_categorical_over_many_labels_follows_its_law(name, seed):
    weights = np.array(LOG_WEIGHTS[name])
    labels = draw_categorical(np.tile(weights, (20_000, 1)), SeededSource(seed))
    law = np.exp(weights) / np.exp(weights).sum()
    counts = np.bincount(labels, minlength=len(law))
    assert_follows(counts, law)
    wrong = np.exp(1.2 * weights)
    assert rejects(assert_follows, counts, wrong / wrong.sum())


@pytest.fixture
def _nothing_is_sure(monkeypatch):
    """Make every interval useless, so that whole numbers decide every draw."""

    def useless(x, _error=0.0):
        return np.zeros_like(x), np.ones_like(x)

    monkeypatch.setattr(exact, "exp_interval", useless)
    monkeypatch.setattr(categorical, "_slack", lambda _n_labels: 2.0)


@pytest.mark.usefixtures("_nothing_is_sure")
@pytest.mark.parametrize("name", ["two", "five", "equal", "very many"])
def test_slow_path_alone_follows_the_law(name, seed):
    weights = np.array(LOG_WEIGHTS[name])
    count = 100 if name == "very many" else 4_000
    labels = draw_categorical(np.tile(weights, (count, 1)), SeededSource(seed))
    law = np.exp(weights) / np.exp(weights).sum()
    assert_follows(np.bincount(labels, minlength=len(law)), law)
    hits = draw_bernoulli_exp(np.full(4_000, 0.7), SeededSource(seed))
    assert_rate(int(hits.sum()), 4_000, np.exp(-0.7))


@pytest.mark.usefixtures("_nothing_is_sure")
@pytest.mark.parametrize("scale", [0.6, 3.7])
def test_slow_path_alone_draws_the_right_noise(scale, seed):
    k, zeros = np.arange(-200, 201), np.zeros(4_000, dtype=int)
    for law, draw in (
        (discrete_laplace_law, draw_discrete_laplace),
        (discrete_gaussian_law, draw_discrete_gaussian),
    ):
        counts = np.bincount(
            draw(zeros, scale, SeededSource(seed)) + 200, minlength=401
        )
        assert_follows(counts, np.exp(law(k, scale)))
        wrong = np.exp(law(k, 1.3 * scale))
        assert rejects(assert_follows, counts, wrong / wrong.sum())


def test_rows_are_independent(seed):
    # Two rows drawn together follow the product law; one draw used twice does not.
    pairs = draw_categorical(np.zeros((100_000, 2)), SeededSource(seed)).reshape(-1, 2)
    assert_follows(np.bincount(pairs @ [2, 1], minlength=4), np.full(4, 0.25))
    reused = np.repeat(pairs[:, :1], 2, axis=1)
    assert rejects(
        assert_follows, np.bincount(reused @ [2, 1], minlength=4), np.full(4, 0.25)
    )


@pytest.mark.parametrize("n", [1, 2, 100])
@pytest.mark.parametrize("n_labels", [1, 2, 5, 200, 600])
def test_arguments_are_left_alone(n, n_labels):
    weights = np.full((n, n_labels), 3.0)
    draw_categorical(weights, SystemSource())
    draw_bernoulli_exp(weights, SystemSource())
    assert (weights == 3.0).all()


def test_shapes_are_kept():
    source = SystemSource()
    assert draw_bernoulli(np.full((2, 3), 0.5), source).shape == (2, 3)
    assert draw_bernoulli_exp(np.ones((4, 1)), source).shape == (4, 1)
    assert draw_bernoulli(0.5, source).shape == ()
    assert draw_categorical(np.zeros((0, 3)), source).shape == (0,)
    assert draw_categorical(np.zeros((5, 1)), source).tolist() == [0] * 5


def test_any_probability_with_an_interval_can_be_drawn(seed):
    # 1/pi, known to floats as an interval and to more bits on demand.
    def refine(_index, bits):
        scaled = mp.ldexp(1 / mp.pi, bits)
        return int(mp.floor(scaled)), int(mp.ceil(scaled))

    wide = np.full(20_000, 0.3), np.full(20_000, 0.35)
    hits = draw_below(*wide, refine, SeededSource(seed)).sum()
    assert_rate(int(hits), 20_000, float(1 / mp.pi))


@pytest.mark.parametrize(
    "draw",
    [
        lambda s: draw_bernoulli([float("nan")], s),
        lambda s: draw_bernoulli([1.0000001], s),
        lambda s: draw_bernoulli([-1e-300], s),
        lambda s: draw_bernoulli([float("inf")], s),
        lambda s: draw_bernoulli([Fraction(4, 3)], s),
        lambda s: draw_bernoulli(np.array([0.5, "x"], dtype=object), s),
        lambda s: draw_bernoulli(["a"], s),
        lambda s: draw_bernoulli([1j], s),
        lambda s: draw_bernoulli_exp([-1e-9], s),
        lambda s: draw_bernoulli_exp([float("nan")], s),
        lambda s: draw_bernoulli_exp([float("inf")], s),
        lambda s: draw_bernoulli_exp([Fraction(-1, 7)], s),
        lambda s: draw_bernoulli_exp([2**53 + 1], s),
        lambda s: draw_categorical([[0.0, float("nan")]], s),
        lambda s: draw_categorical([[0.0, float("-inf")]], s),
        lambda s: draw_categorical([[0.0, 1e305]], s),
        lambda s: draw_categorical([0.0, 1.0], s),
        lambda s: draw_categorical(np.zeros((3, 0)), s),
        lambda s: draw_categorical([[10**30, 1]], s),
    ],
)
def test_nonsense_is_refused(draw):
    source = ScriptedSource(b"")  # refused before a single bit is drawn
    with pytest.raises(ReticentError) as raised:
        draw(source)
    assert isinstance(raised.value, ValueError)
