"""What to make of a file of sensitive rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from reticent._numbers import positive
from reticent._text import checked_name
from reticent.errors import InvalidParameterError
from reticent.estimators import RELATIONS

__all__ = ["LEARNERS", "LOCAL", "RELATIONS", "FitOptions"]

#: Whether records near a question vote on lasting answers.
LOCAL = ("auto", "always", "never")

LEARNERS = ("boosting", "linear")


def check_above_zero(name: str, value: float) -> None:
    """Refuse a number that cannot be a privacy cost.

    Parameters
    ----------
    name : str
        The name of its option.
    value : float
        The number.
    """
    if not 0 < value < math.inf:
        raise InvalidParameterError(
            f"--{name} must be a number above 0; got {value:g}."
        )


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What to make of the rows; the options of ``reticent fit``.

    Parameters
    ----------
    name, dataset : str
        What to call the model, and whose budget it spends.
    epsilon : float, default=1.0
        Privacy cost of one answer; of the whole model if it is released; of all answers
        together if they last.
    budget, delta : float or None, default=None
        What everything made from the dataset may cost together. None takes what the
        dataset has, or 50 and 1e-6 for a new one.
    change_budget : bool, default=False
        Whether a dataset that has another budget gets this one, for all its models.
    learner : {"boosting", "linear"} or None, default=None
        What is trained. None takes boosting; for a release it takes a model for tables
        with linear and additive parts and random trees (with delta 0 and other than two
        labels, a linear model).
    release : bool, default=False
        Whether the model itself is made private, so that its answers are free.
    lasting : bool, default=False
        Whether one total covers any number of answers, each from the records near its
        question.
    relation : {"replace-one", "zero-out"}, default="replace-one"
        What the total of lasting answers is about.
    local : {"auto", "always", "never"}, default="auto"
        Whether records near a question vote on lasting answers; "auto" decides by the
        number of units and the budget.
    questions : int, default=10_000
        For how many questions the noise of lasting answers is planned. More may be
        asked.
    client_share : float, default=1.0
        Which share of any record's budget the questions of one client may use.
    constant_time : bool, default=False
        Whether each lasting answer looks at all records, near or not.
    public : Path or None, default=None
        Public rows without labels: a student of private answers about them is
        released.
    shards, jobs : int or None, default=None
        Number of shards, and how many are trained at a time.
    scratch : Path or None, default=None
        Where rows are kept while shards are trained, for files larger than memory; None
        reads the whole file.
    replace : bool, default=False
        Whether a model of this name may be replaced.
    accept_noise : bool, default=False
        Whether to train even if answers will be hardly more than noise.
    measure : float or None, default=None
        Privacy cost of measuring how good the model is on units that are held out of
        training, a tenth of all; None trains on all of them and measures nothing.
    verbose : bool, default=False
        Whether to show progress.
    """

    name: str = "model"
    dataset: str = "data"
    epsilon: float = 1.0
    budget: float | None = None
    delta: float | None = None
    change_budget: bool = False
    learner: str | None = None
    release: bool = False
    lasting: bool = False
    relation: str = RELATIONS[0]
    local: str = LOCAL[0]
    questions: int = 10_000
    client_share: float = 1.0
    constant_time: bool = False
    public: Path | None = None
    shards: int | None = None
    jobs: int | None = None
    scratch: Path | None = None
    replace: bool = False
    accept_noise: bool = False
    measure: float | None = None
    verbose: bool = False

    def __post_init__(self) -> None:
        checked_name("name", self.name)
        checked_name("dataset", self.dataset)
        self._check_numbers()
        if self.learner not in (None, *LEARNERS):
            raise InvalidParameterError(
                f"learner={self.learner!r} must be one of {', '.join(LEARNERS)}."
            )
        if self.relation not in RELATIONS:
            raise InvalidParameterError(
                f"relation={self.relation!r} must be one of {', '.join(RELATIONS)}."
            )
        if self.local not in LOCAL:
            raise InvalidParameterError(
                f"local={self.local!r} must be one of {', '.join(LOCAL)}."
            )
        if self.measure is not None:
            positive("FitOptions", "measure", self.measure)
            if self.lasting or self.scratch is not None:
                raise InvalidParameterError(
                    "measuring (--measure) takes rows in memory and a model that does "
                    "not remember its questions; leave out --scratch and --lasting."
                )
        self._check_lasting()

    def _check_numbers(self) -> None:
        """Refuse numbers by the names that people gave them under."""
        for name, value in (("epsilon", self.epsilon), ("budget", self.budget)):
            if value is not None:
                check_above_zero(name, value)
        if self.delta is not None and not 0 <= self.delta < 1:
            raise InvalidParameterError(
                f"--delta must be at least 0 and below 1; got {self.delta:g}."
            )
        if self.shards is not None and self.shards < 1:
            raise InvalidParameterError(
                f"--shards must be a whole number above 0; got {self.shards}."
            )

    def _check_lasting(self) -> None:
        others = (self.learner, self.public, self.shards, self.scratch)
        if self.lasting and self.release:
            raise InvalidParameterError(
                "--lasting keeps the records and answers about them, --release gives a "
                "model away. Give one of them."
            )
        if self.lasting and (any(other is not None for other in others)):
            raise InvalidParameterError(
                "lasting answers (--lasting) come from the records near a question: "
                "no learner, shards, scratch folder or public rows."
            )
        if self.questions < 1:
            raise InvalidParameterError(
                f"--questions must be a whole number above 0; got {self.questions}."
            )
        if not 0 < self.client_share <= 1:
            raise InvalidParameterError(
                "--client-share must be above 0 and at most 1; got "
                f"{self.client_share:g}."
            )
        for name in ("relation", "local", "questions", "client_share", "constant_time"):
            value = getattr(self, name)
            if not self.lasting and value != getattr(FitOptions, name):
                raise InvalidParameterError(
                    f"{name}={value!r} is for lasting answers (--lasting)."
                )

    @property
    def releases(self) -> bool:
        """Whether the model itself is made private."""
        return self.release or self.public is not None

    @property
    def paid_once(self) -> bool:
        """Whether the dataset pays once, for the model or for all of its answers."""
        return self.releases or self.lasting

    @property
    def linear(self) -> bool:
        """Whether linear models are trained."""
        return self.learner == "linear" or (self.learner is None and self.releases)
