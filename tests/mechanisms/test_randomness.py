"""Bits are fresh wherever they are drawn, and uniform draws are exactly uniform."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from itertools import permutations

import numpy as np
import pytest

from reticent.errors import ReticentError
from reticent.mechanisms import RandomSource, SeededSource, SystemSource, noise_source
from tests.stats import assert_follows, assert_rate, empirical_counts, rejects

# Children of one process draw tokens that follow a first draw, which fills a buffer.
FORKING = """
import io, os, sys
from reticent.mechanisms import SystemSource

class Naive:
    buffer = io.BytesIO(os.urandom(1 << 20))
    def bytes(self, count):
        return self.buffer.read(count)

source = {"system": SystemSource, "naive": Naive}[sys.argv[1]]()
children, tokens = int(sys.argv[2]), int(sys.argv[3])
source.bytes(16)
for child in range(children):
    if os.fork() == 0:
        text = "".join(source.bytes(16).hex() + "\\n" for _ in range(tokens))
        with open(f"{sys.argv[4]}/{child}", "w") as file:
            file.write(text)
        os._exit(0)
for child in range(children):
    os.wait()
"""


def forked_tokens(kind, folder, *, children=8, tokens=4_000):
    subprocess.run(
        [sys.executable, "-c", FORKING, kind, str(children), str(tokens), str(folder)],
        check=True,
    )
    return [line for file in folder.iterdir() for line in file.read_text().split()]


class FewBits(RandomSource):
    """A source of words with only a few different values, so that ties abound."""

    seeded = True

    def __init__(self, seed, values=5):
        self._random, self._values = np.random.default_rng(seed), values

    def bytes(self, count):
        words = self._random.integers(0, self._values, count // 8, dtype=np.uint64)
        return words.tobytes()


def test_no_token_repeats_across_forks(tmp_path):
    tokens = forked_tokens("system", tmp_path)
    assert len(tokens) == 32_000
    assert len(set(tokens)) == len(tokens)


def test_fork_check_catches_a_buffer_that_is_inherited(tmp_path):
    tokens = forked_tokens("naive", tmp_path, children=2, tokens=100)
    assert len(set(tokens)) < len(tokens)


def test_no_token_repeats_across_threads_copies_and_pickles():
    source = SystemSource()
    source.bytes(16)  # a buffer is there to be copied by mistake
    found = [[] for _ in range(4)]

    def draw(place):
        for _ in range(4_000):
            found[place].append(source.bytes(16))

    threads = [threading.Thread(target=draw, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tokens = [token for part in found for token in part]
    for copied in (
        pickle.loads(pickle.dumps(source)),
        copy.deepcopy(source),
        copy.copy(source),
        source,
    ):
        tokens += [copied.bytes(16) for _ in range(4_000)]
    tokens += [word.tobytes() for word in source.words(32_000).reshape(-1, 2)]
    assert len(tokens) == 48_000
    assert len(set(tokens)) == len(tokens)


def test_pickle_of_a_source_holds_no_bits():
    source = SystemSource()
    source.bytes(16)
    assert len(pickle.dumps(source)) < 200


@pytest.mark.parametrize("count", [0, 1, 7, 1 << 13, (1 << 13) + 1, 1 << 16])
def test_requests_of_any_size_are_filled(count):
    assert len(SystemSource().bytes(count)) == count
    assert len(SystemSource().words(count)) == count


def test_bits_are_fair(seed):
    for source in (SystemSource(), SeededSource(seed)):
        words = source.words(20_000)
        for shift in (0, 13, 63):
            ones = int((words >> np.uint64(shift) & np.uint64(1)).sum())
            assert_rate(ones, words.size, 0.5)


@pytest.mark.parametrize("source", [FewBits, SeededSource])
def test_permutation_is_uniform_even_when_keys_tie(source, seed):
    drawn = source(seed)
    counts = empirical_counts(
        [int("".join(map(str, drawn.permutation(4)))) for _ in range(20_000)],
        [int("".join(map(str, order))) for order in permutations(range(4))],
    )
    assert_follows(counts, np.full(24, 1 / 24))


def test_permutation_check_catches_ties_left_in_order(seed):
    source = FewBits(seed)
    orders = [source.words(4).argsort(kind="stable") for _ in range(20_000)]
    counts = empirical_counts(
        [int("".join(map(str, order))) for order in orders],
        [int("".join(map(str, order))) for order in permutations(range(4))],
    )
    assert rejects(assert_follows, counts, np.full(24, 1 / 24))


@pytest.mark.parametrize(("n", "m"), [(5, 2), (20, 2)])  # a dense and a sparse way
def test_subset_is_uniform_in_content_and_order(n, m, seed):
    source = SeededSource(seed)
    drawn = np.array([source.subset(n, m) for _ in range(60_000)])
    pairs = [a * n + b for a, b in permutations(range(n), 2)]
    counts = empirical_counts(drawn @ [n, 1], pairs)
    assert_follows(counts, np.full(len(pairs), 1 / len(pairs)))


def test_subset_check_catches_sorted_subsets(seed):
    source = SeededSource(seed)
    drawn = np.sort([source.subset(5, 2) for _ in range(5_000)], axis=1)
    counts = empirical_counts(
        drawn @ [5, 1], [5 * a + b for a, b in permutations(range(5), 2)]
    )
    assert rejects(assert_follows, counts, np.full(20, 1 / 20))


@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 0), (1, 1), (10**9, 1_000)])
def test_subset_has_the_right_size(n, m):
    drawn = SystemSource().subset(n, m)
    assert len(set(drawn.tolist())) == m
    assert all(0 <= value < n for value in drawn)


def test_below_has_no_modulo_bias(seed):
    # A third of the values is below 2^62; taking words modulo 3 * 2^62 makes it half.
    bound, words = 3 * 2**62, SeededSource(seed).words(20_000)
    bounds = np.full(20_000, bound, dtype=np.uint64)
    drawn = SeededSource(seed).below(bounds)
    assert drawn.max() < bound
    assert_rate(int((drawn < 2**62).sum()), drawn.size, 1 / 3)
    biased = words % np.uint64(bound)
    assert rejects(assert_rate, int((biased < 2**62).sum()), biased.size, 1 / 3)


def test_below_follows_each_of_its_bounds(seed):
    bounds = np.tile(np.array([1, 2, 3, 7], dtype=np.uint64), 20_000)
    drawn = SeededSource(seed).below(bounds).reshape(-1, 4)
    for column, bound in enumerate([1, 2, 3, 7]):
        counts = empirical_counts(drawn[:, column], range(bound))
        assert_follows(counts, np.full(bound, 1 / bound))


def test_a_seed_repeats_and_is_marked():
    first, second = noise_source(7), noise_source(7)
    assert first.seeded
    assert first.bytes(64) == second.bytes(64)
    assert noise_source(8).bytes(64) != noise_source(7).bytes(64)
    assert not noise_source().seeded


def test_generators_are_seeded_sources_that_move_on():
    for generator in (np.random.RandomState(1), np.random.default_rng(1)):
        source = noise_source(generator)
        assert source.seeded
        assert source.bytes(32) != source.bytes(32)


def test_a_source_is_its_own_random_state():
    source = SystemSource()
    assert noise_source(source) is source


@pytest.mark.parametrize("state", [-1, 0.5, float("nan"), "seed", True, [1], np.random])
def test_nonsense_is_no_random_state(state):
    with pytest.raises(ReticentError) as raised:
        noise_source(state)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.permutation(-1),
        lambda s: s.permutation(2.5),
        lambda s: s.subset(3, 4),
        lambda s: s.subset(3, -1),
        lambda s: s.subset(float("nan"), 1),
        lambda s: s.below(np.array([3, 0], dtype=np.uint64)),
    ],
)
def test_impossible_draws_are_refused(ask):
    with pytest.raises(ReticentError) as raised:
        ask(SystemSource())
    assert isinstance(raised.value, ValueError)
