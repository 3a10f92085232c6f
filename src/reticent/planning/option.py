"""One option of a plan: its settings, its price and its expected error."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from reticent.errors import InvalidParameterError
from reticent.guarantees import ApproxDP, PureDP

#: What a bound is about.
ERROR, LOSS = "error", "loss"


@dataclass(frozen=True)
class Sketch:
    """A method's settings and expected error for given facts."""

    # Parameters of the estimator that are functions of the facts.
    settings: dict[str, Any]
    # Expected error by the model of `reticent.planning.curves`; None if that model does
    # not cover the method.
    estimate: float | None = None
    # Proved bound on the expectation over data, model and query, for the learner and
    # the settings that `build` uses; None if there is no theorem for them.
    bound: float | None = None
    # What is bounded: the share of wrong answers, "error", or a surrogate "loss".
    bound_on: str = ERROR
    # The setting of the bound, what it is above, and its theorem; or why there is no
    # bound.
    bound_says: str = ""
    reason: str = ""  # for these settings


@dataclass(frozen=True, kw_only=True)
class Option(Sketch):
    """One way to answer the queries."""

    method: str  #: its name in the planner
    #: What it does: "ask" keeps the model and answers queries, "release" releases it,
    #: "public" releases it with the help of public rows.
    job: str
    title: str  #: a description for people
    estimator: str  #: the estimator's class, with its module
    #: What all queries together cost; never more than the budget.
    total: PureDP | ApproxDP
    composition: str  #: the rule of composition
    n_shards: int | None = None  #: number of shards, if the method has any
    #: Smallest number of rows with an estimate within the wanted error.
    rows_needed: int | None = None
    #: Smallest number of rows for which the bound is within the wanted error.
    rows_proved: int | None = None
    command: str | None = None  #: a command line that runs it
    _rank: float = field(default=1.0, repr=False)

    def build(self, *, schema: Any = None, **changes: Any) -> Any:
        """Return the estimator, not yet fitted, with the settings of the plan.

        Parameters
        ----------
        schema : Schema, default=None
            The public schema. Methods that need encoded rows get an encoder in front.
        **changes
            Parameters to change: `classes`, `estimator`, `norm_bound`, `bounds`,
            `random_state` ...
        """
        from reticent.planning.all_methods import METHODS

        method = METHODS.get(self.method)
        if method is None:
            raise InvalidParameterError(
                f"method={self.method!r} is not known to this version of the planner."
            )
        return method.build(self.settings, schema, changes)

    def as_dict(self) -> dict[str, Any]:
        """Return the option as JSON scalars, lists and dictionaries."""
        document = {
            name: value for name, value in asdict(self).items() if name != "total"
        }
        document["rank"] = document.pop("_rank")
        document["total"] = {
            "epsilon": self.total.epsilon,
            "delta": getattr(self.total, "delta", 0.0),
        }
        return document

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Option:
        """Return the option that `as_dict` described."""
        values = dict(document)
        values["_rank"] = values.pop("rank")
        epsilon, delta = values["total"]["epsilon"], values["total"]["delta"]
        values["total"] = ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
        return cls(**values)
