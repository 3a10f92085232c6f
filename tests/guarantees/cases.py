"""Premises to start from, and random derivations over every rule."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import numpy as np

from reticent.errors import ReticentError
from reticent.guarantees import (
    ZCDP,
    AddRemove,
    ApproxDP,
    BoundedRange,
    Certificate,
    Compression,
    FiniteRange,
    GaussianDP,
    Guarantee,
    PerfectGeneralization,
    PureDP,
    ReplaceOne,
    RobustGeneralization,
    Sample,
    Scope,
    Sensitivity,
    UniformStability,
    ZeroOut,
    any_on_subsample,
    claim,
    compression,
    finite_range,
    rules,
)

HOSTILE_NUMBERS = [
    math.nan,
    math.inf,
    -math.inf,
    -1.0,
    -5e-324,
    True,
    "1",
    b"1",
    None,
    [1.0],
    1j,
    -(2**63),
    10**400,
    -(10**400),
    10**5000,
    object(),
]


def given(
    guarantee: Guarantee,
    *,
    n: int = 100,
    scope: Scope = Scope.MODEL,
    relation: Any = None,
) -> Certificate[Any]:
    """Return a claimed certificate: what a test starts from."""
    about = ReplaceOne(n) if relation is None else relation
    return claim(guarantee, about, scope, statement="a test says so")


def answer(guarantee: Guarantee, *, n: int = 100) -> Certificate[Any]:
    """Return a claimed certificate of one answer."""
    return given(guarantee, n=n, scope=Scope.ANSWER)


def sampled(guarantee: Guarantee, *, n: int = 100) -> Certificate[Any]:
    """Return a claimed certificate about an independent sample."""
    return given(guarantee, relation=Sample(n))


# The rules of this room; other rooms register theirs when they are imported.
OWN_RULES = sorted(
    name
    for name, rule in rules.items()
    if rule.apply.__module__.startswith("reticent.guarantees")
)

# Those that start from something, so that derivations grow.
STEPS = [name for name in OWN_RULES if rules[name].takes]


def _number(rng: np.random.Generator, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def _parameters(name: str, rng: np.random.Generator, n: int) -> dict[str, Any]:
    share = _number(rng, 1e-6, 0.4)
    return {
        "G3": {"p": share},
        "G3k": {"p": share, "labels": int(rng.integers(2, 9))},
        "G4": {"p": share},
        "G5-laplace": {"scale": _number(rng, 0.1, 100)},
        "G5-gaussian": {"scale": _number(rng, 0.1, 100)},
        "G6": {"shards": int(rng.integers(1, n + 1)), "n": n},
        "G7": {"size": int(rng.integers(1, 4))},
        "G7-replace": {"n": n},
        "G8": {"n": 3 * n, "order": str(rng.choice(["symmetric", "shuffled"]))},
        "G9": {"drawn": int(rng.integers(1, n)), "n": n, "scope": "model"},
        "G10": {"beta": share},
        "G11": {"beta": share},
        "G12": {"beta": share},
        "G12-range": {"size": int(rng.integers(1, 10**6)), "n": n, "scope": "model"},
        "G13": {"delta": share},
        "G13-keep": {
            "kept": int(rng.integers(0, 9)),
            "n": n,
            "side_bits": int(rng.integers(0, 9)),
            "size_from_data": bool(rng.random() < 0.5),
        },
        "G15": {"outputs": int(rng.integers(1, 99)), "beta": share},
        "G19": {"loss_bound": _number(rng, 0.5, 9), "moment": int(rng.integers(1, 4))},
        "G20": {"beta": share},
        "G21": {"rate": _number(rng, 1e-3, 1)},
        "G22-zcdp-approx": {"delta": share},
        "G23": {"what": "a table of means"},
        "G24": {"n": n, "mu": _number(rng, 0.01, 3), "scope": "interface"},
        "G24-rounds": {"n": n, "mu": _number(rng, 0.01, 3), "scope": "interface"},
        "G24-noise": {"scale": _number(rng, 0.1, 100)},
        "G24-replace": {"acute": bool(rng.random() < 0.5)},
        "G24-approx": {"delta": share},
    }.get(name, {})


def _starts(rng: np.random.Generator, n: int) -> list[Certificate[Any]]:
    epsilon, delta = _number(rng, 1e-3, 2), _number(rng, 1e-9, 1e-3)
    scope = Scope(str(rng.choice([scope.value for scope in Scope])))
    relation = [ReplaceOne(n), AddRemove(), ZeroOut(n)][
        rng.choice(3, p=[0.7, 0.2, 0.1])
    ]
    private = [
        PureDP(epsilon),
        BoundedRange(epsilon),
        ApproxDP(epsilon, delta),
        ZCDP(epsilon),
        GaussianDP(epsilon),
        UniformStability(min(1.0, epsilon / 2)),
        Sensitivity(epsilon, epsilon / 2),
    ]
    general = [
        FiniteRange(int(rng.integers(1, 99))),
        Compression(int(rng.integers(0, 9))),
        RobustGeneralization(epsilon, delta),
        PerfectGeneralization(delta, epsilon, delta * float(rng.integers(0, 2))),
    ]
    claimed = [given(kind, relation=relation, scope=scope) for kind in private]
    claimed += [given(kind, relation=Sample(n), scope=scope) for kind in general]
    proved = [
        any_on_subsample(drawn=1, n=n, scope=scope.value),
        finite_range(size=5, n=n, scope=scope.value),
        compression(kept=2, n=n),
    ]
    return claimed + proved


def _grow(
    known: list[Certificate[Any]], rng: np.random.Generator, n: int
) -> Certificate[Any]:
    name = str(rng.choice(OWN_RULES if rng.random() < 0.2 else STEPS))
    premises = [known[int(rng.integers(len(known)))] for _ in range(3)]
    parameters = _parameters(name, rng, n)
    if name.startswith("G22-") and name not in {
        "G22-approx",
        "G22-pure-zcdp",
        "G22-zcdp-approx",
        "G22-parallel",
    }:
        premises = premises[: 1 if name == "G22-exact" else int(rng.integers(1, 3))]
        parameters = {"counts": [int(rng.integers(1, 30)) for _ in premises]}
        if name != "G22-basic":
            parameters["delta"] = _number(rng, 1e-6, 0.1)
        if name in {"G22-filter", "G22-odometer"}:
            parameters["slack"] = parameters["delta"] / 2
            parameters["totals"] = parameters["delta"] / 4
        if name == "G22-filter":
            parameters["epsilon"] = _number(rng, 0.1, 100.0)
    elif name.startswith("G25"):
        premises = premises[: 1 if name == "G25-odometer" else int(rng.integers(1, 3))]
        counts = [int(rng.integers(1, 9)) for _ in premises]
        parameters = {"counts": counts, "delta": _number(rng, 1e-6, 0.1)}
        if name == "G25-odometer":
            parameters["totals"] = parameters["delta"] / 4
            parameters["most"] = 9
    elif name == "G24-compose":
        premises = premises[: int(rng.integers(1, 3))]
        parameters = {"counts": [int(rng.integers(1, 30)) for _ in premises]}
    elif name in {"G14", "G18", "G22-parallel"}:
        premises = premises[: int(rng.integers(1, 4))]
    else:
        premises = premises[: len(rules[name].takes) > 0]
    return rules[name].apply(*premises, **parameters)


@cache
def derivations(seed: int, *, count: int) -> tuple[Certificate[Any], ...]:
    """Return random derivations, some over several levels, by every rule that fits."""
    rng = np.random.default_rng(seed)
    made: list[Certificate[Any]] = []
    while len(made) < count:
        n = int(rng.integers(20, 2000))
        known = _starts(rng, n)
        fresh = len(known)
        for _ in range(400):
            try:
                known.append(_grow(known, rng, n))
            except (ReticentError, TypeError):
                continue
            if len(known) >= fresh + 40:
                break
        made += known[fresh:]
    return tuple(made[:count])


def plain(certificate: Certificate[Any]) -> Any:
    """Return the parsed JSON of a certificate."""
    return json.loads(certificate.to_json())
