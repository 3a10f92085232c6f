"""Questions to rows on a cluster, compared with those to rows in one place."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from reticent.prediction import DaskWorkers, RayWorkers, split_over
from tests.ensembles.lost_workers import CLUSTERS
from tests.prediction.same_transcript import recorded
from tests.prediction.test_neighbors_split import ROWS, fitted


def workers(backend: str) -> Any:
    """Return two workers of the cluster that is running."""
    if backend == "ray":
        return RayWorkers(2, num_cpus=0.5)
    from distributed import default_client

    return DaskWorkers(default_client(), 2)


def main(backend: str) -> dict[str, Any]:
    """Ask the same, with the same noise, in both places."""
    model = fitted("two")
    law = model.law_
    codes = law.encode(np.vstack([ROWS[:12], ROWS[:12] + 0.001]))
    spending = law.start()
    one, before = recorded(lambda: law.ask(codes, spending))
    with CLUSTERS[backend]():
        split = split_over(model, workers(backend)).law_
        parts = split.start()
        other, _ = recorded(lambda: split.ask(codes, parts), before)
        same = bool(np.array_equal(one.trace, other.trace))
        same = same and parts.to_bytes() == spending.to_bytes()
    return {"same": same, "asked": len(other.answers)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1])) + "\n")
