"""Fixtures that every room's tests share."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.stats import parse_seeds
from tests.warm_command import warm_command

# Homes keep checkpoints in the user's folder for state; those of tests do not stay.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="reticent-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

# The same examples on every machine and at every hour, and no verdict by the clock: a
# first call that is slow, or a slow machine, is not a finding.
hypothesis.settings.register_profile(
    "house",
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("house")


@pytest.fixture(scope="session")
def warm() -> Iterator[Path]:
    """Give a folder, for the front of PATH, with a `reticent` that starts at once."""
    with warm_command() as programs:
        yield programs


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests of no room, such as the build of the documents.

    They are the longest, and at the end one worker would wait for the other.
    """
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `seed` with each of RETICENT_TEST_SEEDS (default 0)."""
    if "seed" in metafunc.fixturenames:
        seeds = parse_seeds(os.environ.get("RETICENT_TEST_SEEDS", "0"))
        metafunc.parametrize("seed", seeds)
