"""A private metric with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.guarantees import Certificate


@dataclass(frozen=True, eq=False)
class PrivateMetric:
    """A metric that may be released, with an interval.

    Attributes
    ----------
    name : str
        Which metric.
    value : float or ndarray
        The private estimate.
    low, high : float or ndarray
        An interval for the metric on the population that the units were drawn from.
    confidence : float
        Probability with which the interval covers it; all intervals of an array at
        once.
    n_units : int
        Number of units that were looked at; public.
    certificate : Certificate
        What releasing it promises to these units.
    """

    name: str
    value: Any
    low: Any
    high: Any
    confidence: float
    n_units: int
    certificate: Certificate[Any]

    def __str__(self) -> str:
        share = f"{100 * self.confidence:g} %"
        if np.ndim(self.value):
            return f"{self.name} of {self.n_units} units, {share} intervals"
        return (
            f"{self.name} {self.value:.4f}, {share} interval {self.low:.4f} to "
            f"{self.high:.4f}, {self.n_units} units"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; `low` is None where nothing bounds it."""
        unbounded = np.ndim(self.low) == 0 and self.low == -math.inf
        return {
            "metric": self.name,
            "value": np.asarray(self.value).tolist(),
            "low": None if unbounded else np.asarray(self.low).tolist(),
            "high": np.asarray(self.high).tolist(),
            "confidence": self.confidence,
            "units": self.n_units,
            "certificate": self.certificate.id,
        }
