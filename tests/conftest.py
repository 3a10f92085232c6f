"""Fixtures that every room's tests share."""

from __future__ import annotations

import os

import pytest

from tests.stats import parse_seeds


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `seed` with each of RETICENT_TEST_SEEDS (default 0)."""
    if "seed" in metafunc.fixturenames:
        seeds = parse_seeds(os.environ.get("RETICENT_TEST_SEEDS", "0"))
        metafunc.parametrize("seed", seeds)
