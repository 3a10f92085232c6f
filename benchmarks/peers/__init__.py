"""Other libraries, in an environment of their own, on the same rows.

python -m benchmarks.peers
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
SKIPPED = (
    "diffprivlib and InterpretML: their environment, .venv-peers, is not here; "
    "`python -m benchmarks.peers` makes it, in some minutes"
)


def skipped(*, quick: bool) -> list[str]:
    """Say what a quick run leaves out; a full one makes the environment first."""
    if not quick:
        set_up()
    return [] if PYTHON.exists() else [SKIPPED]


def set_up() -> None:
    """Make the environment of the peers if it is not there yet."""
    if PYTHON.exists():
        return
    print("setting up .venv-peers ...", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", ROOT / ".venv-peers"], check=True)
    lock = HERE / "requirements.lock"
    pip = [PYTHON, "-m", "pip", "install", "-qq", "--require-hashes", "-r", lock]
    subprocess.run(pip, check=True)


def run(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    jobs: list[dict],
    bounds: tuple[np.ndarray, np.ndarray],
    *,
    worker: str = "worker.py",
) -> list[dict]:
    """Fit and score peers; `jobs` name a model, its settings and a seed each.

    `worker` is the program of this folder that does it.
    """
    set_up()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        np.savez(
            data,
            X=train[0],
            y=train[1],
            X_test=test[0],
            y_test=test[1],
            low=bounds[0],
            high=bounds[1],
        )
        done = subprocess.run(
            [PYTHON, HERE / worker, data],
            input=json.dumps(jobs),
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"the peers failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
