"""The error bounds of S1 and S2 against measured error, and error against n.

Two parts. *Checks*: at the sample size that a theorem asks for, the measured error
must be below the theorem's bound (and, on the lower bound's own distribution, above
the lower bound). *Curves*: excess error against n at epsilon = 1 for P1 (vote), P3
(stable linear), P4 (walk), P5, P6 and P7. Answers' laws are exact; P5-P7 average over
fresh subsets and hypotheses.

    python -m benchmarks.studies.ask_theory [--quick]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies import ask_problems as problems
from benchmarks.studies import theorem_sizes as sizes
from benchmarks.studies.ask_problems import Problem
from reticent.errors import ReticentError
from reticent.estimators.linear.rows import rows_in_ball
from reticent.hypotheses import LinearBall, LogisticLoss
from reticent.planning import bounds
from reticent.prediction import ProjectedWalkClassifier, StableLinearClassifier

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "ask_theory.json"
FIGURE = ROOT / "docs" / "figures" / "ask_theory.png"
FAILURE = 0.05  # probability with which a bound may fail
EPSILON = 1.0
VOTERS = 21
# Equal stability: what a 1-DP answer has (G1).
STABILITY = math.tanh(EPSILON / 2)


def check(
    theorem: str, problem: str, n: int, bound: float, measured: list[float]
) -> dict[str, Any]:
    row = {
        "theorem": theorem,
        "problem": problem,
        "n": n,
        "bound": bound,
        "measured_mean": float(np.mean(measured)),
        "measured_worst": float(np.max(measured)),
        # A bound that says nothing does not count.
        "holds": bool(np.max(measured) <= bound < 0.5),
    }
    print(json.dumps(row))
    return row


def check_votes(trials: int, *, quick: bool = False) -> list[dict[str, Any]]:
    rows = []
    error = 0.1
    plane = [] if quick else [problems.halfspace()]  # fits there take most of the time
    for problem in (problems.threshold(0.0), problems.four_intervals(), *plane):
        family = problem.hypotheses.on(problem.points.shape[1])
        shards, n = sizes.vote_sizes(family, error, FAILURE, EPSILON)
        found = [
            problem.excess(problems.vote(problem, n, EPSILON, seed, shards))
            for seed in range(trials)
        ]
        rows.append(check("P1, S1 Thm 4.1", problem.name, n, error, found))
    return rows


def check_averages(trials: int) -> list[dict[str, Any]]:
    problem, error = problems.threshold(), 0.2
    shards, n = sizes.average_sizes(problem.hypotheses, error, FAILURE, EPSILON)
    found = [
        problem.excess(problems.average(problem, n, EPSILON, seed, shards))
        for seed in range(trials)
    ]
    return [check("P2, S1 Cor. 4.7", problem.name, n, error, found)]


def check_walks(trials: int) -> list[dict[str, Any]]:
    rows, error = [], 0.05
    for problem in (problems.threshold(), problems.four_intervals()):
        for epsilon in (0.25, 1.0):
            n = bounds.walk_size(problem.ends, error, epsilon)
            found = [
                problem.excess(problems.walk(problem, n, epsilon, seed, error))
                for seed in range(trials)
            ]
            # The theorem bounds the mean error, as a multiple of Opt + error.
            bound = math.exp(epsilon) * (problem.noise + error) - problem.noise
            name = f"P4, S1 Thm 5.3, epsilon={epsilon}"
            rows.append(check(name, problem.name, n, bound, [float(np.mean(found))]))
    problem, epsilon = problems.four_intervals(), 1 / (16 * math.log(1 / FAILURE))
    n = bounds.walk_size(problem.ends, error, epsilon)
    found = [
        problem.excess(problems.walk(problem, n, epsilon, seed, error))
        for seed in range(trials)
    ]
    name = "P4, S1 Thm 5.3, with high probability"
    rows.append(check(name, problem.name, n, 3 * error, found))
    return [*rows, check_walk_on_the_sample(trials)]


def check_walk_on_the_sample(trials: int) -> dict[str, Any]:
    """Check S1 Lemma 5.2, which holds for every sample."""
    problem, error, n = problems.threshold(), 0.05, 500
    found = []
    for seed in range(trials):
        X, y = problem.sample(n, seed)
        model = ProjectedWalkClassifier(EPSILON, error=error, random_state=0).fit(X, y)
        law = model.response(X).probabilities
        best = problem.hypotheses.minimise(X, y).value / n
        found.append(float(1 - law[np.arange(n), y].mean() - best))
    reach = bounds.walk_reach(error, EPSILON)
    bound = (problem.ends + 2) * reach / n + math.exp(-EPSILON * reach / 2)
    return check("P4, S1 Lemma 5.2, on the sample", problem.name, n, bound, found)


def check_selection(trials: int, *, quick: bool) -> list[dict[str, Any]]:
    rows = []
    problem = problems.threshold()
    sizes: list[tuple[str, int, dict[str, float]]] = [
        ("P5, S2 Thm 1", 100_000, {"stability": 0.1}),
        ("P6, S2 Cor. 1", 100_000, {"epsilon": EPSILON, "flip": 0.02}),
    ]
    for name, n, settings in sizes:
        found = []
        for seed in range(trials):
            ones, model = problems.select(problem, n, seed, 10, **settings)
            found.append(problem.excess(ones))
        bound = bounds.selection_bound(
            problem.hypotheses, n, model.plan_, FAILURE, population=True
        )
        rows.append(check(name, problem.name, n, bound, found))
    if quick:
        return rows
    # In the plane the subset's labelings are many; Lemma 7 is about the sample.
    problem, n = problems.halfspace(), 5_000
    ones, model = problems.select(problem, n, 0, 5, stability=0.16)
    X, y = problem.sample(n, 0)
    family = problem.hypotheses.on(2)
    wrong = [
        float((family.predict(model.law_.hypothesis(), X) != y).mean())
        for _ in range(5 * trials)
    ]
    bound = bounds.selection_bound(family, n, model.plan_, FAILURE, population=False)
    name = "P5, S2 Lemma 7, on the sample"
    return [*rows, check(name, problem.name, n, bound, [float(np.mean(wrong))])]


def check_relabeling(trials: int) -> list[dict[str, Any]]:
    problem, n, flip, error = problems.threshold(), 200_000, 0.02, 0.2
    # The vote has a sixth of epsilon, so it needs six times the shards.
    shards = math.ceil(6 * math.log(4 / error) / (EPSILON / 6) * 1.001)
    found = []
    for seed in range(trials):
        ones, model = problems.relabel(
            problem, n, EPSILON, seed, 3, flip=flip, shards=shards
        )
        found.append(problem.excess(ones))
    bound = sizes.relabeling_bound(problem.hypotheses, n, model, FAILURE, error)
    return [check("P7, S2 Thm 2", problem.name, n, bound, found)]


def check_linear(trials: int) -> list[dict[str, Any]]:
    problem, n, rows = problems.halfspace(), 10_000, []
    bound_of_rows, settings = 2**0.5, {"radius": 3.0, "tolerance": 1e-3}
    test = rows_in_ball(problem.points, bound_of_rows, True)
    truth = problem.truth(problem.points).astype(float)
    best = LinearBall(settings["radius"]).minimise(
        test, truth, loss=LogisticLoss(), gap=1e-6
    )
    quantiles = (np.arange(400) + 0.5) / 400
    noise = np.where(
        quantiles < 0.5, np.log(2 * quantiles), -np.log(2 * (1 - quantiles))
    )
    for solver in ("erm", "psgd"):
        found = []
        for seed in range(trials):
            X, y = problem.sample(n, seed)
            model = StableLinearClassifier(
                EPSILON,
                solver=solver,
                norm_bound=bound_of_rows,
                random_state=seed,
                **settings,
            ).fit(X, y)
            scores = (test @ model.coefficients_)[
                :, None
            ] + model.law_.noise.scale * noise
            losses = np.logaddexp(0, -(2 * truth - 1)[:, None] * scores)
            found.append(float(losses.mean() - (best.value - best.gap)))
        lipschitz = math.sqrt(2)
        reach = settings["radius"] * lipschitz
        bound = (
            bounds.erm_excess_loss(lipschitz, settings["radius"], n, EPSILON, 1e-3)
            if solver == "erm"
            else sizes.psgd_excess_loss(
                lipschitz, 0.25, reach, settings["radius"], n, EPSILON
            )
        )
        name = f"P3 {solver}, S1 Cor. {'4.11' if solver == 'erm' else '4.13'}, loss"
        rows.append(check(name, problem.name, n, bound, [float(np.mean(found))]))
    return rows


def flip_for(n: int) -> float:
    """Return the flips of P6 and P7: both terms of the error then fall alike."""
    return min(0.25, 1 / math.sqrt(n))


def stability_for(problem: Problem, n: int) -> float:
    """Return P5's stability: that of P1, unless the labelings would be too many."""
    return STABILITY if problem.ends else min(STABILITY, 8 / math.sqrt(n))


Predictor = Callable[[Problem, int, int], np.ndarray]

PREDICTORS: dict[str, Predictor] = {
    "P1 vote of 21": lambda p, n, s: problems.vote(p, n, EPSILON, s, VOTERS),
    "P3 stable linear": lambda p, n, s: problems.linear(p, n, EPSILON, s),
    "P4 walk": lambda p, n, s: problems.walk(
        p, n, EPSILON, s, min(0.5, bounds.walk_error(p.ends, n, EPSILON))
    ),
    "P5 stable selection": lambda p, n, s: problems.select(
        p, n, s, 10, stability=stability_for(p, n)
    )[0],
    "P6 selection and flip": lambda p, n, s: problems.select(
        p, n, s, 10, epsilon=EPSILON, flip=flip_for(n)
    )[0],
    "P7 relabeling": lambda p, n, s: problems.relabel(
        p, n, EPSILON, s, 10, flip=flip_for(n)
    )[0],
}


def curve(
    problem_for: Callable[[int, int], Problem],
    names: list[str],
    sizes: list[int],
    seeds: int,
) -> dict[str, list[dict[str, float]]]:
    table: dict[str, list[dict[str, float]]] = {}
    for name in names:
        table[name] = []
        for n in sizes:
            found = []
            for seed in range(seeds):
                problem = problem_for(n, seed)
                try:
                    ones = PREDICTORS[name](problem, n, seed)
                except ReticentError:
                    break  # too few units for this method
                found.append(problem.excess(ones))
            if len(found) == seeds:
                spread = float(np.std(found) / math.sqrt(seeds))
                mean = float(np.mean(found))
                table[name].append({"n": n, "excess": mean, "standard_error": spread})
        print(name, [f"{point['n']}: {point['excess']:.2g}" for point in table[name]])
    return table


def hard_problem(n: int, seed: int) -> Problem:
    labels = np.random.default_rng(1000 + seed).integers(0, 2, 8)
    return problems.hard_points(labels, min(0.25, bounds.lower_bound(8, n, EPSILON)))


def curves(quick: bool) -> dict[str, Any]:
    seeds = 2 if quick else 20
    sizes = [100 * 4**k for k in range(2 if quick else 7)]
    plane = [n for n in sizes if n <= 25_600]
    every = list(PREDICTORS)
    fixed = {
        "threshold": problems.threshold(),
        "intervals": problems.four_intervals(),
        "halfspace": problems.halfspace(),
    }
    result = {
        "threshold": curve(
            lambda *_: fixed["threshold"],
            [name for name in every if name != "P3 stable linear"],
            sizes,
            seeds,
        ),
        "intervals": curve(
            lambda *_: fixed["intervals"], ["P1 vote of 21", "P4 walk"], sizes, seeds
        ),
        "halfspace": curve(
            lambda *_: fixed["halfspace"],
            [name for name in every if name not in ("P4 walk", "P7 relabeling")],
            plane[: 2 if quick else 4],
            max(2, seeds // 4),
        ),
        "lower bound's own": curve(
            hard_problem,
            [name for name in every if name != "P3 stable linear"],
            [n for n in sizes if n <= 25_600],
            3 * seeds,
        ),
    }
    for name, table in result.items():
        if name != "threshold":
            d = {"intervals": 8, "halfspace": 3, "lower bound's own": 8}[name]
            table["lower bound"] = [
                {"n": n, "excess": bounds.lower_bound(d, n, EPSILON)} for n in sizes
            ]
    return result


def check_lower_bound(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Nobody may be below S2 Thm 4 on its own distribution, but for chance."""
    least = {point["n"]: point["excess"] for point in table["lower bound"]}
    rows = []
    for name, points in table.items():
        for point in points if name != "lower bound" else []:
            bound = least[point["n"]]
            slack = 4 * point["standard_error"]
            rows.append(
                {
                    "theorem": "S2 Thm 4, lower bound",
                    "problem": name,
                    "n": point["n"],
                    "bound": bound,
                    "measured_mean": point["excess"],
                    "holds": bool(point["excess"] + slack >= bound),
                }
            )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    trials = 2 if quick else 20
    checks = [
        *check_votes(trials, quick=quick),
        *check_averages(trials),
        *check_walks(10 * trials),
        *check_selection(trials, quick=quick),
        *check_relabeling(1 if quick else 5),
        *check_linear(trials),
    ]
    drawn = curves(quick)
    checks += check_lower_bound(drawn["lower bound's own"])
    result = {"epsilon": EPSILON, "failure": FAILURE, "checks": checks, "curves": drawn}
    if not quick:
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")
        from benchmarks.studies.ask_theory_figure import draw

        draw(result, FIGURE)
    broken = [row for row in checks if not row["holds"]]
    print(f"{len(checks)} bounds checked, {len(broken)} broken", broken)
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
