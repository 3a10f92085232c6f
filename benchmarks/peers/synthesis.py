"""Runs inside the peers' environment: synthetic rows by MST, then boosted trees.

MST (McKenna, Miklau, Sheldon 2021) measures every column, chooses a spanning tree of
pairs by the exponential mechanism, measures these pairs, and samples rows from the
graphical model that fits the measurements best. As published the tree may link the
label to a single column. Here every measurement has the label in it, for the sake of
the trees: pairs of a column and the label, then a tree of triples. The graphical model
is that of `mbi`. The mechanism is written here, for replacing one unit: counts change
by the square root of two in Euclidean norm, and a distance of counts by at most two. A
third of `rho` is for each of the three stages. Rare values of a column are merged
before triples are measured, as in the paper.
"""

import json
import os
import sys
import time
import warnings

import numpy as np

ITERATIONS = 500
MOST_ROWS = 100_000


class Merged:
    """One column whose rare values are one value; noisy counts say which are rare."""

    def __init__(self, noisy, sigma):
        frequent = np.flatnonzero(noisy >= 3 * sigma)
        rare = np.setdiff1d(np.arange(len(noisy)), frequent)
        self.groups = [np.array([value]) for value in frequent]
        if len(rare) or not self.groups:
            self.groups.append(rare if len(rare) else np.array([0]))
        self.place = np.zeros(len(noisy), dtype=int)
        for place, group in enumerate(self.groups):
            self.place[group] = place
        counts = np.maximum(noisy, 0)
        self.shares = [self._share(counts[group]) for group in self.groups]

    @staticmethod
    def _share(counts):
        total = counts.sum()
        return counts / total if total > 0 else np.full(len(counts), 1 / len(counts))

    @property
    def size(self):
        return len(self.groups)

    def spread(self, places, rng):
        """Draw a value for each merged one."""
        values = np.empty(len(places), dtype=int)
        for place, group in enumerate(self.groups):
            where = np.flatnonzero(places == place)
            values[where] = rng.choice(group, size=len(where), p=self.shares[place])
        return values


def counts_of(codes, sizes):
    """Return how often each combination of values occurs."""
    joint = np.ravel_multi_index(tuple(codes.T), sizes)
    return (
        np.bincount(joint, minlength=int(np.prod(sizes))).reshape(sizes).astype(float)
    )


def choose_tree(codes, sizes, tables, rho, rng):
    """Choose pairs that independence given the label explains worst, no circles.

    `tables` are noisy counts of each column with the label.
    """
    width, labels = len(tables), sizes[-1]
    tables = [np.maximum(table, 0) + 1e-9 for table in tables]
    total = np.mean([table.sum(axis=0) for table in tables], axis=0)
    given = [table / table.sum(axis=0) for table in tables]
    scores = {}
    for i in range(width):
        for j in range(i + 1, width):
            found = counts_of(codes[:, [i, j, width]], (sizes[i], sizes[j], labels))
            expected = np.einsum("il,jl,l->ijl", given[i], given[j], total)
            scores[i, j] = np.abs(found - expected).sum()
    epsilon = np.sqrt(8 * rho / (width - 1))
    root, chosen = list(range(width)), []
    for _ in range(width - 1):
        open_pairs = [(i, j) for i, j in scores if root[i] != root[j]]
        exponents = np.array([epsilon * scores[pair] / 4 for pair in open_pairs])
        weights = np.exp(exponents - exponents.max())
        i, j = open_pairs[rng.choice(len(open_pairs), p=weights / weights.sum())]
        chosen.append((i, j))
        root = [root[i] if each == root[j] else each for each in root]
    return chosen


def synthesise(codes, sizes, rho, seed):
    """Return synthetic rows, rho-zCDP under replacing one row; the label is last."""
    import mbi
    from mbi import estimation

    rng, n, width, labels = (
        np.random.default_rng(seed),
        len(codes),
        len(sizes) - 1,
        sizes[-1],
    )
    sigma = float(np.sqrt(width / (rho / 3)))
    columns, tables = [], []
    for k in range(width):
        noisy = counts_of(codes[:, [k, width]], (sizes[k], labels))
        noisy = noisy + rng.normal(0, sigma, noisy.shape)
        column = Merged(noisy.sum(axis=1), sigma * np.sqrt(labels))
        columns.append(column)
        tables.append(np.array([noisy[group].sum(axis=0) for group in column.groups]))
    merged = [column.place[codes[:, k]] for k, column in enumerate(columns)]
    merged = np.column_stack([*merged, codes[:, width]])
    small = [*(column.size for column in columns), labels]
    names = [f"c{k}" for k in range(width + 1)]
    measured = [
        mbi.LinearMeasurement(table.ravel(), (names[k], names[width]), sigma)
        for k, table in enumerate(tables)
    ]
    scale = float(np.sqrt((width - 1) / (rho / 3)))
    for i, j in choose_tree(merged, small, tables, rho / 3, rng):
        place = [i, j, width]
        noisy = counts_of(merged[:, place], tuple(small[k] for k in place)).ravel()
        noisy = noisy + rng.normal(0, scale, noisy.shape)
        clique = tuple(names[k] for k in place)
        measured.append(mbi.LinearMeasurement(noisy, clique, scale))
    model = estimation.mirror_descent(
        mbi.Domain(names, small), measured, known_total=float(n), iters=ITERATIONS
    )
    np.random.seed(seed)  # noqa: NPY002 (mbi draws from NumPy's global generator)
    # Not method="round": in mbi 1.1.0 it puts the rows of every column in one order, so
    # that columns with a common neighbour determine each other.
    drawn = model.synthetic_data(min(n, MOST_ROWS), method="sample").to_dict()
    made = [c.spread(np.asarray(drawn[names[k]]), rng) for k, c in enumerate(columns)]
    return np.column_stack([*made, np.asarray(drawn[names[width]])])


def trees(job, codes, y, seed):
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )

    kind = HistGradientBoostingRegressor if "bounds_y" in job else None
    kind = kind or HistGradientBoostingClassifier
    settings = {"max_iter": 100, "max_leaf_nodes": 16, "random_state": seed}
    return kind(**settings, categorical_features=job["nominal"]).fit(codes, y)


def main():
    warnings.simplefilter("ignore")
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    with np.load(sys.argv[1]) as data:
        X, y, X_test, y_test = (data[k] for k in ("X", "y", "X_test", "y_test"))
    results = []
    for job in json.loads(sys.stdin.read()):
        start = time.perf_counter()
        rows = np.column_stack([X, y]).astype(int)
        made = synthesise(rows, job["sizes"], job["rho"], job["seed"])
        codes, targets = made[:, :-1], made[:, -1]
        if len(np.unique(targets)) < 2:
            answers = np.full(len(X_test), targets[0])
        else:
            answers = trees(job, codes, targets, job["seed"]).predict(X_test)
        if "bounds_y" in job:
            low, high = job["bounds_y"]  # codes of the target are bins of equal width
            numbers = low + (answers + 0.5) * (high - low) / job["sizes"][-1]
            score = {"r2": float(1 - ((numbers - y_test) ** 2).mean() / y_test.var())}
        else:
            score = {"accuracy": float((answers == y_test).mean())}
        results.append({**job, **score, "fit_s": time.perf_counter() - start})
    print(json.dumps(results))


if __name__ == "__main__":
    main()
