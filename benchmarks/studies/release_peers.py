r"""Other libraries in the comparison of releases, all for replacing one unit.

Their own promises are about different neighbours; read from their sources:

- diffprivlib's logistic regression is objective perturbation for replacing one row
  (noise of scale ``2 norm / epsilon``): it keeps its epsilon.
- diffprivlib's naive Bayes counts labels with sensitivity one, its forest draws labels
  with monotonic utilities, and its linear regression perturbs sums by what one row
  adds: all for adding or removing a row. A replaced row is removed and added, so they
  get half of epsilon. They are pure.
- DP-EBM adds Gaussian noise to histograms and to sums of residuals, scaled to what one
  row adds. It is mu-Gaussian DP for adding or removing a row, hence 2 mu for replacing
  one. It gets the epsilon at which its binning and its boosting, composed as Gaussian
  mechanisms, have half the mu of (epsilon, delta). That is kinder to it than its own
  accounting, which adds up two epsilons.
- MST is written for replacing one row, and is accounted as zCDP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from benchmarks import peers
from benchmarks.studies.release_methods import DELTA, Rows, Scores
from reticent.guarantees import gaussian_ratio, zcdp_epsilon
from reticent.schemas import Categorical

#: DP-EBM spends this share of epsilon on bins, and splits delta in halves.
BIN_SHARE = 0.1
BINS = 32
#: The better two of the rates 0.01 (the default), 0.1, 0.3 and 1 on these test rows.
RATES = {"california": (0.01, 0.1), "skin": (0.3, 1.0)}


def boosting_epsilon(epsilon: float, delta: float) -> float:
    """Return the epsilon of DP-EBM that promises (epsilon, delta) for replacing."""

    def surplus(own: float) -> float:
        parts = [
            gaussian_ratio(own * share, delta / 2)
            for share in (BIN_SHARE, 1 - BIN_SHARE)
        ]
        return 2 * float(np.hypot(*parts)) - gaussian_ratio(epsilon, delta)

    return float(brentq(surplus, epsilon / 100, 2 * epsilon, xtol=1e-9))


def replace_one_rho(epsilon: float, delta: float) -> float:
    """Return the zCDP that (epsilon, delta) allows."""
    return float(brentq(lambda rho: zcdp_epsilon(rho, delta) - epsilon, 1e-12, 1e4))


def declared_ends(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return the public ranges of numbers, and those of the codes of levels."""
    ends = [
        (0.0, len(column.levels) - 1.0)
        if isinstance(column, Categorical)
        else (column.low, column.high)
        for column in rows.columns
    ]
    low, high = np.array(ends, dtype=float).T
    return low, high


def raw_rows(rows: Rows) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return numbers and codes within the public ranges; missing ones are zero."""
    low, high = declared_ends(rows)
    return np.clip(np.nan_to_num(rows.table.X, nan=0.0), low, high), (low, high)


def scored(
    rows: Rows,
    X: np.ndarray,
    bounds: tuple,
    jobs: dict[str, dict],
    **options: Any,
) -> Scores:
    """Run jobs by name of their setting; a failure has no score."""
    named = [{"name": name, **job} for name, job in jobs.items()]
    if rows.bounds:
        named = [{**job, "bounds_y": list(rows.bounds)} for job in named]
    found = peers.run(
        (X[rows.train], options.pop("targets", rows.y)[rows.train]),
        (X[rows.test], rows.y[rows.test]),
        named,
        bounds,
        **options,
    )
    failed = [each["error"] for each in found if "error" in each]
    if failed:
        raise RuntimeError(f"{rows.name}: {failed[0]}")
    return {each["name"]: each.get("accuracy", each.get("r2")) for each in found}


@dataclass(frozen=True)
class BoostedCurves:
    """InterpretML's DP-EBM, at two learning rates."""

    seeds: int = 3

    def suits(self, name: str, epsilon: float) -> bool:
        return name != "covtype 7"  # two labels at most

    def scores(self, rows: Rows, epsilon: float, seed: int) -> Scores:
        X, bounds = raw_rows(rows)
        own = {
            "model": "DP-EBM",
            "epsilon": boosting_epsilon(epsilon, DELTA),
            "delta": DELTA,
            "seed": seed,
            "nominal": rows.nominal,
        }
        rates = RATES.get(rows.name, (0.1, 0.3))
        jobs = {f"rate {rate:g}": {**own, "learning_rate": rate} for rate in rates}
        return scored(rows, X, bounds, jobs)


@dataclass(frozen=True)
class Diffprivlib:
    """diffprivlib's models; all are pure."""

    strengths: tuple[float, ...] = (0.01, 0.1)
    seeds: int = 1

    def suits(self, name: str, epsilon: float) -> bool:
        return name not in ("covtype", "covtype 7")

    def scores(self, rows: Rows, epsilon: float, seed: int) -> Scores:
        unit = rows.one_hot
        zero_one = (np.zeros(unit.shape[1]), np.ones(unit.shape[1]))
        halved = {"epsilon": epsilon / 2, "seed": seed}
        if rows.bounds:
            job = {"model": "diffprivlib.LinearRegression", **halved}
            return scored(rows, unit, zero_one, {"linear regression": job})
        jobs: dict[str, dict] = {
            f"logistic regression, C {strength:g}": {
                "model": "diffprivlib.LogisticRegression",
                "C": strength,
                "data_norm": float(np.sqrt(len(rows.columns))),
                "epsilon": epsilon,
                "seed": seed,
            }
            for strength in self.strengths
        }
        jobs["naive Bayes"] = {"model": "diffprivlib.GaussianNB", **halved}
        found = scored(rows, unit, zero_one, jobs)
        X, bounds = raw_rows(rows)
        forest = {"model": "diffprivlib.RandomForestClassifier", **halved}
        return {**found, **scored(rows, X, bounds, {"forest": forest})}


@dataclass(frozen=True)
class SyntheticRows:
    """Rows by MST, then boosted trees on them; numbers in bins of equal width.

    A fit takes minutes, so there is one seed, and large tables only at epsilon 1.
    """

    seeds: int = 1

    def suits(self, name: str, epsilon: float) -> bool:
        small = name in ("adult", "bank", "california")
        return small or (epsilon == 1.0 and name in ("skin", "covtype 100k"))

    def scores(self, rows: Rows, epsilon: float, seed: int) -> Scores:
        unit = rows.unit.copy()
        sizes = []
        for k, column in enumerate(rows.columns):
            if k in rows.nominal:
                sizes.append(len(column.levels))
                continue
            unit[:, k] = np.minimum(np.floor(unit[:, k] * BINS), BINS - 1)
            sizes.append(BINS)
        targets = rows.y
        if rows.bounds:
            low, high = rows.bounds
            share = (rows.y - low) / (high - low)
            targets = np.clip(np.floor(share * BINS), 0, BINS - 1)
        job = {
            "sizes": [*sizes, rows.n_labels or BINS],
            "rho": replace_one_rho(epsilon, DELTA),
            "seed": seed,
            "nominal": [k for k in rows.nominal if len(rows.columns[k].levels) < 255],
        }
        ends = (np.zeros(len(sizes)), np.array(sizes) - 1.0)
        jobs = {"trees on synthetic rows": job}
        return scored(rows, unit, ends, jobs, worker="synthesis.py", targets=targets)


def peer_methods() -> dict[str, Any]:
    """Return the peers by name."""
    return {
        "DP-EBM": BoostedCurves(),
        "diffprivlib": Diffprivlib(),
        "MST, then boosted trees": SyntheticRows(),
    }
