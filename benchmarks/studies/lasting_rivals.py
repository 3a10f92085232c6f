"""What the study of lasting answers compares, as far as it is in the library.

Every rival maps questions to a score, within one total.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks import data
from reticent.learners import (
    NoisyGradientClassifier,
    NoisyGradientRegressor,
    PrivateTabularClassifier,
    PrivateTabularRegressor,
)
from reticent.planning import plan
from reticent.prediction import PrivateNeighborsClassifier, PrivateNeighborsRegressor
from reticent.prediction.voting import VoteRule
from reticent.schemas import Encoder

DELTA = 1e-6
KNOTS = 8
# With fewer questions than this a score is an average over several sessions.
LEAST_SCORED = 2_000
QUESTIONS = (100, 1_000, 10_000)


@dataclass
class Rows:
    """One data set: declared columns, and a random draw of questions by seed."""

    name: str
    most_train: int | None = None
    _spline_rows: Any = field(default=None, repr=False)

    @property
    def file(self) -> str:
        return self.name.removesuffix("7")

    @cached_property
    def table(self) -> data.Columns:
        return data.load_columns(self.file, all_labels=self.name.endswith("7"))

    @cached_property
    def train(self) -> np.ndarray:
        return self.table.train[: self.most_train]

    @property
    def y(self) -> np.ndarray:
        return self.table.y

    @property
    def classes(self) -> list[int] | None:
        return None if self.table.bounds else list(range(self.table.n_labels))

    def sessions(self, questions: int, seed: int) -> list[np.ndarray]:
        """Return the rows that are asked, session by session; never one twice."""
        order = np.random.default_rng(seed).permutation(self.table.test)
        count = max(1, min(LEAST_SCORED, len(order)) // questions)
        return [order[k * questions : (k + 1) * questions] for k in range(count)]

    def splines(self) -> tuple[np.ndarray, float]:
        if self._spline_rows is None:
            encoder = Encoder(self.table.schema, basis="splines", knots=KNOTS)
            rows = encoder.transform(self.table.schema.table(self.table.frame))
            self._spline_rows = (rows, encoder.row_norm_bound)
        return self._spline_rows

    def score(self, answers: list[np.ndarray], asked: list[np.ndarray]) -> float:
        """Return accuracy, or R^2 with the variance of all test rows."""
        found, truth = np.concatenate(answers), self.y[np.concatenate(asked)]
        if self.table.bounds is None:
            return float((found == truth).mean())
        spread = float(np.var(self.y[self.table.test]))
        return float(1 - np.mean((found - truth) ** 2) / spread)


@dataclass(frozen=True)
class Cell:
    """One measurement."""

    data: str
    method: str
    total: float
    questions: int
    seed: int


class Rival:
    """A method; what it fits is kept while only the number of questions changes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._key: Any = None
        self._fitted: Any = None

    def suits(self, name: str) -> bool:
        return True

    def kept(self, key: Any, make: Any) -> Any:
        if self._key != key:
            self._key, self._fitted = key, make()
        return self._fitted

    def score(self, cell: Cell, rows: Rows) -> dict[str, Any]:
        raise NotImplementedError


class Lasting(Rival):
    """The lasting predictor at its defaults, told how many questions will come."""

    def __init__(self, relation: str) -> None:
        super().__init__(f"lasting, {relation}")
        self.relation = relation

    def score(self, cell: Cell, rows: Rows) -> dict[str, Any]:
        # The number of questions decides who may answer, and then the noise of
        # questions, and nothing else of the fit: this is the law of a model that was
        # told this number.
        fresh = self._model(cell, rows)
        near = fresh.local_questions(len(rows.train)) == cell.questions
        key = (cell.data, cell.total, cell.seed, near)
        model = self.kept(key, lambda: self._fit(fresh, rows))
        law = replace(model.law_, plan=model.plan_for(cell.questions))
        asked = rows.sessions(cell.questions, cell.seed)
        # Every session starts from the state after the fit.
        found = [law.ask(law.encode(rows.table.X[each]), law.start()) for each in asked]
        return {
            "score": rows.score([each.answers for each in found], asked),
            "evidence": float(np.mean([each.evidence.mean() for each in found])),
            "certificate": model.certificate_.headline(),
            "local": model.local_,
        }

    def _fit(self, model: Any, rows: Rows) -> Any:
        return model.fit(rows.table.X[rows.train], rows.y[rows.train])

    def _model(self, cell: Cell, rows: Rows) -> Any:
        table = rows.table
        known: dict[str, Any] = {
            "delta": DELTA,
            "columns": list(table.schema.columns.values()),
            "relation": self.relation,
            "questions": cell.questions,
            "random_state": cell.seed,
        }
        if table.bounds:
            return PrivateNeighborsRegressor(cell.total, bounds=table.bounds, **known)
        return PrivateNeighborsClassifier(cell.total, classes=rows.classes, **known)


class Release(Rival):
    """An additive model by noisy gradients: our release of one total."""

    def score(self, cell: Cell, rows: Rows) -> dict[str, Any]:
        X, norm = rows.splines()

        def fit() -> Any:
            known = {"delta": DELTA, "norm_bound": norm, "random_state": cell.seed}
            if rows.table.bounds:
                model: Any = NoisyGradientRegressor(
                    cell.total, bounds=rows.table.bounds, **known
                )
            else:
                model = NoisyGradientClassifier(
                    cell.total, classes=rows.classes, **known
                )
            return model.fit(X[rows.train], rows.y[rows.train])

        model = self.kept((cell.data, cell.total, cell.seed), fit)
        asked = rows.sessions(cell.questions, cell.seed)
        answers = [model.predict(X[each]) for each in asked]
        return {
            "score": rows.score(answers, asked),
            "certificate": model.certificate_.headline(),
        }


class PartitionRelease(Rival):
    """Sums over random partitions, as the lasting predictor's prior: a release."""

    def score(self, cell: Cell, rows: Rows) -> dict[str, Any]:
        table = rows.table

        def fit() -> Any:
            known = {
                "delta": DELTA,
                "columns": list(table.schema.columns.values()),
                "random_state": cell.seed,
            }
            if table.bounds:
                model: Any = PrivateTabularRegressor(
                    cell.total, bounds=table.bounds, **known
                )
            else:
                model = PrivateTabularClassifier(
                    cell.total, classes=rows.classes, **known
                )
            return model.fit(table.X[rows.train], rows.y[rows.train])

        model = self.kept((cell.data, cell.total, cell.seed), fit)
        asked = rows.sessions(cell.questions, cell.seed)
        answers = [model.predict(table.X[each]) for each in asked]
        return {
            "score": rows.score(answers, asked),
            "certificate": model.certificate_.headline(),
        }


class Votes(Rival):
    """Votes, or averages, of boosted trees on shards, set by the planner."""

    def score(self, cell: Cell, rows: Rows) -> dict[str, Any]:
        table, known = rows.table, {"random_state": cell.seed}
        options = plan(
            "regression" if table.bounds else "classification",
            len(rows.train),
            cell.total,
            delta=DELTA,
            queries=cell.questions,
            features=table.X.shape[1],
            labels=table.n_labels if table.bounds is None else 2,
        ).options
        key = "average-numbers" if table.bounds else "vote-trees"
        option = next(each for each in options if each.method == key)
        known |= {"bounds": table.bounds} if table.bounds else {"classes": rows.classes}
        model = option.build(**known)
        asked = rows.sessions(cell.questions, cell.seed)
        if table.bounds:
            model.fit(table.X[rows.train], rows.y[rows.train])
            answers = [model.predict(table.X[each]) for each in asked]
        else:
            votes = self._votes(cell, rows, model)[: sum(map(len, asked))]
            rule = VoteRule.choose(model, len(rows.classes or ()))
            law = rule.response(votes).log_probabilities
            rng = np.random.default_rng(cell.seed)
            answers = [(law + rng.gumbel(size=law.shape)).argmax(axis=1)]
        return {
            "score": rows.score(answers, asked),
            "settings": {"shards": option.n_shards},
        }

    def _votes(self, cell: Cell, rows: Rows, model: Any) -> np.ndarray:
        """Return votes on all rows that a seed asks, once for every number of shards.

        A price of answers changes how votes become labels, and not the models. Fewer
        questions are the first of more.
        """
        known = self.kept((cell.data, cell.seed), dict)
        if model.n_shards not in known:
            X, most = rows.table.X, rows.sessions(max(QUESTIONS), cell.seed)
            model.fit(X[rows.train], rows.y[rows.train])
            known[model.n_shards] = model.law_.votes(X[np.concatenate(most)])
        return known[model.n_shards]
