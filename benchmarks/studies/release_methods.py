"""The methods of the comparison of releases that run in this environment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)

from benchmarks import data
from benchmarks.studies.release_boosting import RandomBoosting
from reticent.learners import (
    FourierFeatures,
    NoisyGradientClassifier,
    NoisyGradientRegressor,
    ObjectivePerturbationRegressor,
    PrivateTabularClassifier,
    PrivateTabularRegressor,
)
from reticent.schemas import Categorical, Encoder

DELTA = 1e-6
MOST_TEST = 50_000
KNOTS = 8
#: Table, file, whether all labels are told apart, most training rows.
TABLES = {
    "adult": ("adult", False, None),
    "bank": ("bank", False, None),
    "california": ("california", False, None),
    "covtype 100k": ("covtype", False, 100_000),
    "skin": ("skin", False, None),
    "covtype": ("covtype", False, None),
    "covtype 7": ("covtype", True, None),
}
Scores = dict[str, float]


class Rows:
    """One table of the study, encoded in the ways that the methods need."""

    def __init__(self, name: str, most: int | None = None) -> None:
        file, all_labels, most_train = TABLES[name]
        self.name, self.file = name, file
        self.table = data.load_columns(file, all_labels=all_labels)
        limits = [limit for limit in (most, most_train) if limit]
        self.train = self.table.train[: min(limits, default=None)]
        self.test = self.table.test[: min(MOST_TEST, most or MOST_TEST)]
        self.y, self.bounds = self.table.y, self.table.bounds
        self.columns = list(self.table.schema.columns.values())
        self.n_labels = None if self.bounds else self.table.n_labels
        self.nominal = [
            k for k, c in enumerate(self.columns) if isinstance(c, Categorical)
        ]

    @cached_property
    def labels(self) -> list[int]:
        return list(range(self.n_labels or 0))

    @cached_property
    def unit(self) -> np.ndarray:
        """Numbers in [0, 1] by their range, missing in the middle; codes of levels."""
        rows = np.array(self.table.X, dtype=float)
        for k, column in enumerate(self.columns):
            if k in self.nominal:
                rows[:, k] = np.nan_to_num(rows[:, k])
                continue
            low, high = (_bend(np.array(e), column) for e in (column.low, column.high))
            rows[:, k] = (_bend(rows[:, k], column) - low) / (high - low)
            rows[:, k] = np.nan_to_num(np.clip(rows[:, k], 0, 1), nan=0.5)
        return rows

    @cached_property
    def splines(self) -> tuple[np.ndarray, float]:
        encoder = Encoder(self.table.schema, basis="splines", knots=KNOTS)
        table = self.table.schema.table(self.table.frame, name=self.name)
        return encoder.transform(table), encoder.row_norm_bound

    @cached_property
    def one_hot(self) -> np.ndarray:
        return self.table.scaled()

    def score(self, answers: np.ndarray) -> float:
        """Return the accuracy on the test rows, or R^2."""
        truth = self.y[self.test]
        if self.bounds is None:
            return float((np.asarray(answers) == truth).mean())
        answers = np.clip(answers, *self.bounds)
        return float(1 - ((answers - truth) ** 2).mean() / truth.var())


def _bend(numbers: np.ndarray, column: Any) -> np.ndarray:
    if column.transform == "log1p":
        return np.log1p(np.maximum(numbers, 0))
    if column.transform == "signed_log1p":
        return np.sign(numbers) * np.log1p(np.abs(numbers))
    return numbers


class Method(Protocol):
    """Fits and scores, with each of its settings, for replacing one unit."""

    seeds: int

    def suits(self, name: str, epsilon: float) -> bool: ...

    def scores(self, rows: Rows, epsilon: float, seed: int) -> Scores: ...


def suits_study(name: str, epsilon: float) -> bool:
    """Say whether anybody is measured: with seven labels only at epsilon 1."""
    return name != "covtype 7" or epsilon == 1.0


@dataclass(frozen=True)
class Tabular:
    """The default of this package; its settings follow from public facts."""

    relation: str = "replace-one"
    delta: float = DELTA
    only: tuple[float, ...] = ()
    seeds: int = 10

    def suits(self, name: str, epsilon: float) -> bool:
        return suits_study(name, epsilon) and (not self.only or epsilon in self.only)

    def scores(self, rows: Rows, epsilon: float, seed: int) -> Scores:
        known: dict[str, Any] = {
            "delta": self.delta,
            "columns": rows.columns,
            "relation": self.relation,
            "random_state": seed,
        }
        model = (
            PrivateTabularRegressor(epsilon, bounds=rows.bounds, **known)
            if rows.bounds
            else PrivateTabularClassifier(epsilon, classes=rows.labels, **known)
        )
        X = rows.table.X
        model.fit(X[rows.train], rows.y[rows.train])
        return {"default": rows.score(model.predict(X[rows.test]))}


def _gradient(rows: Rows, epsilon: float, seed: int, norm: float) -> Any:
    known = {"delta": DELTA, "norm_bound": norm, "random_state": seed}
    if rows.bounds:
        return NoisyGradientRegressor(epsilon, bounds=rows.bounds, **known)
    return NoisyGradientClassifier(epsilon, classes=rows.labels, **known)


@dataclass(frozen=True)
class Splines:
    """Noisy gradients on splines of single columns: an additive model."""

    seeds: int = 3

    def suits(self, name: str, epsilon: float) -> bool:
        return name not in ("covtype", "covtype 7")

    def scores(self, rows: Rows, epsilon: float, seed: int) -> Scores:
        X, norm = rows.splines
        model = _gradient(rows, epsilon, seed, norm)
        model.fit(X[rows.train], rows.y[rows.train])
        return {"default": rows.score(model.predict(X[rows.test]))}


@dataclass(frozen=True)
class Pure:
    """Our default with delta 0; for numbers, objective perturbation on splines."""

    seeds: int = 5

    def suits(self, name: str, epsilon: float) -> bool:
        return epsilon == 1.0 and name != "covtype 7"

    def scores(self, rows: Rows, epsilon: float, seed: int) -> Scores:
        if not rows.bounds:
            return Tabular(delta=0.0).scores(rows, epsilon, seed)
        X, norm = rows.splines
        # Splines of a column add up to one, and so do the levels of a category.
        model = ObjectivePerturbationRegressor(
            epsilon,
            bounds=rows.bounds,
            norm_bound=norm,
            l1_bound=float(len(rows.columns)),
            random_state=seed,
        )
        model.fit(X[rows.train], rows.y[rows.train])
        return {"default": rows.score(model.predict(X[rows.test]))}


@dataclass(frozen=True)
class Fourier:
    """Noisy gradients on random waves: a kernel machine."""

    bandwidths: tuple[float, ...] = (1.0, 2.0)
    seeds: int = 1

    def suits(self, name: str, epsilon: float) -> bool:
        return name not in ("covtype", "covtype 7")

    def scores(self, rows: Rows, epsilon: float, seed: int) -> Scores:
        found = {}
        for width in self.bandwidths:
            waves = FourierFeatures(50, bandwidth=width, random_state=seed)
            train = waves.fit_transform(rows.one_hot[rows.train])
            model = _gradient(rows, epsilon, seed, 1.0).fit(train, rows.y[rows.train])
            answers = model.predict(waves.transform(rows.one_hot[rows.test]))
            found[f"bandwidth {width:g}"] = rows.score(answers)
        return found


@dataclass(frozen=True)
class Boosting:
    """Boosted random trees by hand; number, depth and rate are tried."""

    tried: tuple[tuple[int, int, float], ...] = (
        (20, 6, 1.0),
        (50, 6, 0.3),
        (50, 6, 1.0),
        (200, 4, 0.3),
        (200, 4, 1.0),
    )
    seeds: int = 3

    def suits(self, name: str, epsilon: float) -> bool:
        return suits_study(name, epsilon)

    def scores(self, rows: Rows, epsilon: float, seed: int) -> Scores:
        found = {}
        y = rows.y[rows.train]
        low, high = rows.bounds or (0.0, 1.0)
        for trees, depth, rate in self.tried:
            model = RandomBoosting(
                epsilon, DELTA, trees, depth, rate, seed, rows.n_labels
            )
            model.fit(rows.unit[rows.train], (y - low) / (high - low), rows.columns)
            answers = low + (high - low) * model.predict(rows.unit[rows.test])
            found[f"{trees} trees of depth {depth}, rate {rate:g}"] = rows.score(
                answers
            )
        return found


@dataclass(frozen=True)
class WithoutPrivacy:
    """Boosted trees that see everything, for the distance that is left."""

    seeds: int = 1

    def suits(self, name: str, epsilon: float) -> bool:
        return epsilon == 1.0

    def scores(self, rows: Rows, epsilon: float, seed: int) -> Scores:
        kind = (
            HistGradientBoostingRegressor
            if rows.bounds
            else HistGradientBoostingClassifier
        )
        model = kind(categorical_features=rows.nominal, random_state=seed)
        X = rows.table.X
        model.fit(X[rows.train], rows.y[rows.train])
        return {"default": rows.score(model.predict(X[rows.test]))}


OURS = "reticent"
ZEROED = "reticent, zeroing one unit"
PURE = "reticent, pure"


def own_methods() -> dict[str, Method]:
    """Return the methods by name, ours first."""
    return {
        OURS: Tabular(),
        ZEROED: Tabular("zero-out", only=(1.0,)),
        PURE: Pure(),
        "reticent, splines": Splines(),
        "reticent, Fourier features": Fourier(),
        "random boosting by hand": Boosting(),
        "boosted trees without privacy": WithoutPrivacy(),
    }


def quick(method: Method) -> Method:
    """Return a method with fewer seeds."""
    return replace(method, seeds=min(method.seeds, 2))  # type: ignore[type-var]
