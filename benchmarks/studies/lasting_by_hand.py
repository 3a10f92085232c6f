"""Rivals of lasting answers that are not in the library: two by hand, and peers.

They get what the lasting predictor does not: their settings are the best of several on
the test rows, and nobody pays for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.studies import release_methods
from benchmarks.studies.lasting_rivals import DELTA, Cell, Rival, Rows
from benchmarks.studies.release_peers import peer_methods
from reticent.guarantees import gaussian_ratio
from reticent.schemas import Categorical

TEACHERS = (100, 400)
# Neighbours that a ball has on average, and how many times as often as on average a
# unit may speak.
REACH = (30, 100, 300)
PATIENCE = (1, 3)
BLOCK = 100


class Pate(Rival):
    """Gaussian noise on votes of teachers; their number is the best on test rows."""

    def suits(self, name: str) -> bool:
        return name != "california"

    def score(self, cell: Cell, rows: Rows) -> dict[str, Any]:
        asked = rows.sessions(cell.questions, cell.seed)
        # A vote that moves changes two counts by one each.
        sigma = np.sqrt(2 * cell.questions) / gaussian_ratio(cell.total, DELTA)
        tried = {}
        rng = np.random.default_rng(cell.seed)
        for teachers in TEACHERS:
            if teachers > len(rows.train) // 20:
                continue
            counts = self._counts(rows, teachers, np.concatenate(asked), cell)
            noisy = counts + rng.normal(0, sigma, counts.shape)
            tried[teachers] = rows.score([noisy.argmax(axis=1)], asked)
        best = max(tried, key=lambda teachers: tried[teachers])
        return {"score": tried[best], "settings": {"teachers": best}}

    def _counts(
        self, rows: Rows, teachers: int, asked: np.ndarray, cell: Cell
    ) -> np.ndarray:
        """Return votes for each label on rows that are asked, once for all totals."""
        known = self.kept((rows.name, cell.seed), dict)
        if teachers not in known:
            known[teachers] = list(self._trained(rows, teachers, cell.seed))
        place = teachers, cell.questions
        if place not in known:
            known[place] = np.zeros((len(asked), rows.table.n_labels))
            for model in known[teachers]:
                trained = hasattr(model, "fit")
                said = model.predict(rows.table.X[asked]) if trained else model
                known[place][np.arange(len(asked)), said] += 1
        return known[place]

    def _trained(self, rows: Rows, teachers: int, seed: int) -> Iterator[Any]:
        columns = rows.table.schema.columns.values()
        # Trees take up to 255 levels.
        nominal = [isinstance(c, Categorical) and len(c.levels) < 255 for c in columns]
        trees = HistGradientBoostingClassifier(
            max_iter=60,
            max_leaf_nodes=8,
            min_samples_leaf=10,
            categorical_features=nominal,
        )
        deal = np.random.default_rng(seed).permutation(rows.train)
        for part in np.array_split(deal, teachers):
            y = rows.y[part]
            if len(np.unique(y)) < 2:
                yield int(y[0])
            else:
                yield clone(trees).fit(rows.table.X[part], y)


class IndividualNeighbours(Rival):
    """Units within a fixed radius vote until each has spent its own budget (G24).

    In the style of Zhu et al. 2023, on scaled columns: no prior, no metric, no radius
    that follows the density. Radius and noise are the best on test rows, and finding
    radii of a given reach costs nothing.
    """

    def score(self, cell: Cell, rows: Rows) -> dict[str, Any]:
        asked = rows.sessions(cell.questions, cell.seed)
        radii, near = self.kept(
            (cell.data, cell.questions, cell.seed),
            lambda: self._near(rows, np.concatenate(asked)),
        )
        cap = gaussian_ratio(cell.total, DELTA) ** 2 / 2  # replacing; votes are acute
        tried = {}
        for reach, radius in zip(REACH, radii, strict=True):
            often = cell.questions * reach / len(rows.train)
            for patience in PATIENCE:
                times = max(1, round(patience * often))
                answers, first = [], 0
                rng = np.random.default_rng(cell.seed)
                for each in asked:
                    lists = near[first : first + len(each)]
                    answers.append(_answers(rows, lists, radius, times, cap, rng))
                    first += len(each)
                tried[reach, patience] = rows.score(answers, asked)
        best = max(tried, key=lambda setting: tried[setting])
        return {
            "score": tried[best],
            "settings": {"reach": best[0], "patience": best[1]},
        }

    def _near(self, rows: Rows, asked: np.ndarray) -> tuple[np.ndarray, list[Any]]:
        """Return radii, and training rows within the largest with their distances."""
        scaled = rows.table.scaled().astype(np.float32)
        train = scaled[rows.train]
        own = (train**2).sum(axis=1)

        def squares(queries: np.ndarray) -> np.ndarray:
            found = own - 2 * queries @ train.T
            return found + (queries**2).sum(axis=1)[:, None]

        some = squares(scaled[asked[:BLOCK]])
        shares = np.minimum(np.array(REACH) / len(train), 1.0)
        radii = np.quantile(some, shares)
        near = []
        for start in range(0, len(asked), BLOCK):
            for line in squares(scaled[asked[start : start + BLOCK]]):
                places = np.flatnonzero(line <= radii[-1])
                near.append((places, line[places]))
        return radii, near


def _answers(
    rows: Rows,
    near: list[Any],
    radius: float,
    times: int,
    cap: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Answer by noisy sums over units that have spoken fewer than `times` times."""
    sigma = np.sqrt(times / cap)
    y, bounds = rows.y[rows.train], rows.table.bounds
    left = np.full(len(y), times)
    found = []
    for places, squares in near:
        able = places[squares <= radius]
        able = able[left[able] > 0]
        left[able] -= 1
        if bounds is None:
            counts = np.bincount(y[able], minlength=rows.table.n_labels)
            found.append(int((counts + rng.normal(0, sigma, len(counts))).argmax()))
            continue
        low, high = bounds
        # A number on the scale from -1 to 1 beside a one, together of norm one.
        scaled = 2 * (y[able] - low) / (high - low) - 1
        noise = rng.normal(0, np.sqrt(2) * sigma, 2)
        mean = (scaled.sum() + noise[0]) / max(len(able) + noise[1], 1.0)
        found.append(low + (np.clip(mean, -1, 1) + 1) / 2 * (high - low))
    return np.array(found)


class Peer(Rival):
    """A model that another library releases, at its best setting on test rows."""

    def __init__(self, name: str, word: str) -> None:
        super().__init__(name)
        self.word = word

    def suits(self, name: str) -> bool:
        # Peers know two labels; diffprivlib is too slow for all rows of Covertype.
        return not name.endswith("7") and peer_methods()[self.word].suits(name, 1.0)

    def score(self, cell: Cell, rows: Rows) -> dict[str, Any]:
        """Score all settings once, on most rows: questions do not change a release."""
        return self.kept(
            (cell.data, cell.total, cell.seed), lambda: self._best(cell, rows)
        )

    def _best(self, cell: Cell, rows: Rows) -> dict[str, Any]:
        asked = rows.sessions(10_000, cell.seed)
        table = release_methods.Rows(rows.file)
        table.train, table.test = rows.train, np.concatenate(asked)
        scores = peer_methods()[self.word].scores(table, cell.total, cell.seed)
        return {"score": max(scores.values()), "asked": len(table.test)}
