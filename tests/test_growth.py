"""Growth is measured for every public estimator; none can stay out."""

from __future__ import annotations

import inspect
import json
from types import ModuleType

import numpy as np
import pytest

import reticent.generalization
from benchmarks.growth.__main__ import GOAL, RESULT, exponent, missed
from benchmarks.growth.cases import CASES, NOT_MEASURED
from reticent.generalization import Scheme
from reticent.generalization.compression.classifier import _SCHEMES
from tests.audit.registry import ROOMS, public_estimators

FOUND = json.loads(RESULT.read_text("utf-8"))


def unmeasured(rooms=ROOMS):
    covered = {case.covers for case in CASES.values()} | set(NOT_MEASURED)
    return sorted(set(public_estimators(rooms)) - covered)


def test_every_public_estimator_is_measured_or_says_why_not():
    missing = unmeasured()
    assert not missing, (
        f"{', '.join(missing)}: growth is not measured. Add a Case in "
        "benchmarks/growth/cases.py and run python -m benchmarks.growth --only NAME."
    )


def test_a_new_estimator_would_be_missed():
    class Newcomer:
        def fit(self, X, y):
            return self

    room = ModuleType("room")
    room.__all__, room.Newcomer = ["Newcomer"], Newcomer
    assert unmeasured([room]) == ["Newcomer"]


def test_every_compression_scheme_is_measured():
    public = {
        value
        for value in vars(reticent.generalization).values()
        if inspect.isclass(value) and issubclass(value, Scheme) and value is not Scheme
    }
    assert public == set(_SCHEMES.values())
    for scheme in _SCHEMES:
        assert any(name.startswith(f"compression, {scheme}") for name in CASES)


# Whether a sampler's chains have mixed is judged by chance, and not the question here.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", sorted(CASES))
def test_every_case_runs(name):
    case = CASES[name]
    X, y = case.rows(300)
    answers = getattr(case.fitted(X, y), case.ask)(case.rows(20)[0])
    assert len(answers) == 20


def test_the_committed_measurement_is_of_these_cases():
    assert set(FOUND["rows"]) == set(FOUND["queries"]) == set(CASES)
    assert not FOUND["quick"]
    for axis in ("rows", "queries"):
        for found in FOUND[axis].values():
            assert found["sizes"][-1] >= 99 * found["sizes"][0]  # two decades
            slope = exponent(found["sizes"], found["seconds"])
            assert found["exponent"] == pytest.approx(slope)
    assert FOUND["not measured"] == NOT_MEASURED


def test_every_case_grows_linearly():
    assert GOAL == 1.1
    assert missed(FOUND) == []
    slopes = [
        c["exponent"] for axis in ("rows", "queries") for c in FOUND[axis].values()
    ]
    assert max(slopes) == max(FOUND["ratios"].values()) <= 1.1


@pytest.mark.parametrize("name", ["noisy gradient", "noisy gradient numbers"])
def test_the_number_of_passes_does_not_grow_with_rows(name):
    case = CASES[name]
    passes = {case.fitted(*case.rows(n)).n_iter_ for n in (20, 2_000, 40_000)}
    assert len(passes) == 1


def test_faster_growth_is_found():
    sizes = [100, 1000, 10_000]
    square = {"sizes": sizes, "exponent": exponent(sizes, [float(n**2) for n in sizes])}
    assert square["exponent"] == pytest.approx(2)
    line = {"exponent": GOAL}
    found = {"rows": {"a": square, "b": line}, "queries": {"c": line}}
    assert missed(found) == ["a, rows: 2.00"]
    assert missed({**found, "queries": {"c": {"exponent": np.nan}}}) != []
