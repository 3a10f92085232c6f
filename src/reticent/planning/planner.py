"""Ranks the options for given public facts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.planning import bounds
from reticent.planning.all_methods import METHODS
from reticent.planning.facts import Facts, PlanArguments
from reticent.planning.option import ERROR, Option, Sketch
from reticent.planning.planned_method import PlannedMethod
from reticent.planning.report import page, table

_MOST_ROWS = 10**10
_MOST_QUERIES = 10**9
_FORMAT = 1


@dataclass(frozen=True)
class Plan:
    """Ranked options for a task, and lower bounds that hold for every method.

    Examples
    --------
    >>> found = plan("classification", 30_000, 1.0, delta=1e-6, queries=1, features=14)
    >>> found.best.job
    'ask'
    >>> plan("classification", 30_000, 1.0, delta=1e-6, features=14).best.job
    'release'
    """

    facts: Facts  #: the basis of the plan
    options: tuple[Option, ...]  #: the best first
    #: Error above the best of its class that every private method has for some
    #: distribution, if the class has VC dimension `facts.d`; at most 1/4.
    lower_bound: float
    #: With fewer units than this no method can guarantee the wanted error.
    rows_for_anyone: int | None
    #: Number of queries from which releasing is expected to err less than asking; None
    #: if asking stays better.
    crossover: int | None

    @property
    def best(self) -> Option:
        """The option to take."""
        if not self.options:
            raise InvalidParameterError(
                "no method fits these facts. With delta=0 and more than two labels the "
                "number of queries must be limited: give queries= or delta=."
            )
        return self.options[0]

    def __str__(self) -> str:
        return table(self)

    def _repr_html_(self) -> str:
        return page(self)

    def plot(self, path: Any = None) -> Any:
        """Draw expected error against queries, epsilon and rows; needs matplotlib.

        Parameters
        ----------
        path : str or Path, default=None
            Where to save the plot.

        Returns
        -------
        matplotlib.figure.Figure
            The plot.
        """
        from reticent.planning.figures import draw

        return draw(self, path)

    def to_json(self) -> str:
        """Return the plan as one JSON document."""
        facts = asdict(self.facts)
        facts["queries"] = self.facts.queries if self.facts.limited else None
        return json.dumps(
            {
                "format": _FORMAT,
                "facts": facts,
                "options": [option.as_dict() for option in self.options],
                "lower_bound": self.lower_bound,
                "rows_for_anyone": self.rows_for_anyone,
                "crossover": self.crossover,
            },
            indent=1,
            allow_nan=False,
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """Return the plan that `to_json` wrote."""
        try:
            document = json.loads(text)
            if document["format"] != _FORMAT:
                raise InvalidDataError(
                    f"this plan has format={document['format']!r}; this version reads "
                    f"format {_FORMAT}."
                )
            facts = dict(document["facts"])
            if facts["queries"] is None:
                facts["queries"] = math.inf
            return cls(
                Facts(**facts),
                tuple(map(Option.from_dict, document["options"])),
                document["lower_bound"],
                document["rows_for_anyone"],
                document["crossover"],
            )
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise InvalidDataError(
                "this is not a plan written by to_json()."
            ) from error


def plan(
    task: str,
    n: int,
    epsilon: float,
    *,
    delta: float = 0.0,
    queries: float | None = None,
    alpha: float | None = None,
    d: int | None = None,
    features: int = 10,
    labels: int = 2,
    public: int = 0,
    rows_per_unit: int = 1,
    base_accuracy: float | None = None,
    linear_accuracy: float | None = None,
    majority: float | None = None,
    learning_exponent: float | None = None,
    schema: Any = None,
) -> Plan:
    """Rank the ways to answer queries privately, from public facts alone.

    No data are used. *Bounds* are theorems; *estimates* come from a learning curve that
    is typical of public tables, and rank the options.

    Parameters
    ----------
    task : {"classification", "regression"}
        What is predicted.
    n : int
        Number of rows.
    epsilon, delta : float
        The budget for all answers together, or for the one release.
    queries : int, default=None
        Number of different queries; None for no limit.
    alpha : float, default=None
        The wanted error; the plan then says how many rows each option needs.
    d : int, default=None
        VC dimension for the lower bound. None takes that of a linear model.
    features, labels : int
        Columns of the table, and labels.
    public : int, default=0
        Public rows without labels.
    rows_per_unit : int, default=1
        The largest number of rows that belong to one person: all of them are protected
        together.
    base_accuracy : float, default=None
        Expected accuracy of boosted trees with all the data and no privacy; None takes
        0.90, or half the error of chance if that is less error. For regression, one
        minus the error.
    linear_accuracy : float, default=None
        The same for a linear model; None takes 0.025 less.
    majority : float, default=None
        Expected share of the most frequent label; None takes one over the root of the
        number of labels.
    learning_exponent : float, default=None
        How fast models learn from more rows; None takes 0.6.
    schema : Schema, default=None
        The public schema, which gives columns, labels and task.

    Returns
    -------
    Plan
        Print it, or read `best`, `options`, `lower_bound` and `crossover`.
    """
    facts = PlanArguments(
        task=task,
        n=n,
        epsilon=epsilon,
        delta=delta,
        queries=queries,
        alpha=alpha,
        d=d,
        features=features,
        labels=labels,
        public=public,
        rows_per_unit=rows_per_unit,
        base_accuracy=base_accuracy,
        linear_accuracy=linear_accuracy,
        majority=majority,
        learning_exponent=learning_exponent,
        schema=schema,
    ).facts()
    found = [
        _option(method, facts, sketch)
        for method in METHODS.values()
        if (sketch := method.sketch(facts)) is not None
    ]
    lowest = bounds.lower_bound(facts.d, facts.units, facts.epsilon, facts.delta)
    anyone = None
    if facts.alpha is not None and facts.alpha <= 1 / 4 and facts.classifies:
        anyone = math.ceil(lowest * facts.units / facts.alpha)
    return Plan(
        facts=facts,
        options=tuple(sorted(found, key=lambda option: option._rank)),
        lower_bound=min(1 / 4, lowest) if facts.classifies else 0.0,
        rows_for_anyone=anyone,
        crossover=_crossover(facts),
    )


def rank(facts: Facts, sketch: Sketch) -> float:
    """Return the error that a sketch is ranked by: its estimate, else its bound.

    A bound is above the best of its class, which is assumed to err like a linear model.
    """
    if sketch.estimate is not None:
        return sketch.estimate
    if sketch.bound is not None and sketch.bound_on == ERROR:
        return min(1.0, facts.linear_error + sketch.bound)
    return 1.0


def _option(method: PlannedMethod, facts: Facts, sketch: Sketch) -> Option:
    total, composition = method.total(facts, sketch)
    return Option(
        method=method.key,
        job=method.job,
        title=method.title,
        estimator=method.estimator_for(facts),
        **{**vars(sketch), "reason": method.reason(facts, sketch)},
        total=total,
        composition=composition,
        n_shards=sketch.settings.get("n_shards"),
        rows_needed=_rows(method, facts, lambda s: s.estimate),
        rows_proved=_rows(
            method, facts, lambda s: s.bound if s.bound_on == ERROR else None
        ),
        command=method.command(facts, sketch),
        _rank=rank(facts, sketch),
    )


def _rows(
    method: PlannedMethod, facts: Facts, read: Callable[[Sketch], float | None]
) -> int | None:
    """Return the smallest number of rows with which an error is within `alpha`."""
    if facts.alpha is None:
        return None
    alpha = facts.alpha

    def enough(n: int) -> bool:
        sketch = method.sketch(replace(facts, n=n))
        value = None if sketch is None else read(sketch)
        return value is not None and value <= alpha

    return smallest(enough, facts.rows_per_unit, _MOST_ROWS)


def _crossover(facts: Facts) -> int | None:
    """Return the number of queries from which the best release is better."""

    def best(job: Callable[[str], bool], queries: float) -> float:
        asked = replace(facts, queries=queries)
        sketches = [
            sketch
            for method in METHODS.values()
            if job(method.job) and (sketch := method.sketch(asked)) is not None
        ]
        return min((rank(facts, sketch) for sketch in sketches), default=1.0)

    released = best(lambda job: job != "ask", math.inf)
    return smallest(
        lambda queries: released < best(lambda job: job == "ask", queries),
        1,
        _MOST_QUERIES,
    )


def smallest(enough: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the smallest number that is enough, to two digits from 1000 on.

    The condition must be monotone; None if even `high` is not enough.
    """
    if enough(low):
        return low
    upper = 2 * low
    while not enough(upper):
        if upper >= high:
            return None
        low, upper = upper, min(high, 4 * upper)
    while upper - low > max(1, low // 100):
        middle = round(math.sqrt(low * upper))
        middle = min(max(middle, low + 1), upper - 1)
        low, upper = (low, middle) if enough(middle) else (middle, upper)
    return upper
