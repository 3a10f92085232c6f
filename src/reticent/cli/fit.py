"""``reticent fit``: from a file of sensitive rows to a model that answers privately."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.home import Home
from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import Output
from reticent.errors import InvalidParameterError
from reticent.guarantees import Budget, Certificate
from reticent.ledger import AccountId, AccountScope, Balance, Cap, Charge
from reticent.prediction import PrivateAveragingRegressor, PrivateVotingClassifier
from reticent.schemas import Encoder, NumericTarget, Schema, read_table
from reticent.storage import save_model

LEARNERS = ("boosting", "linear")


def fit(
    data: Annotated[Path, typer.Argument(help="The sensitive rows: CSV or Parquet.")],
    schema: Annotated[Path, typer.Option(help="The public schema.")],
    name: Annotated[str, typer.Option(help="What to call the model.")] = "model",
    epsilon: Annotated[float, typer.Option(help="Privacy cost of one answer.")] = 1.0,
    budget: Annotated[
        float, typer.Option(help="Epsilon of all answers to all clients together.")
    ] = 50.0,
    delta: Annotated[
        float, typer.Option(help="Delta of all answers together; 0 for pure privacy.")
    ] = 1e-6,
    dataset: Annotated[
        str, typer.Option(help="Whose budget answers spend; one name a population.")
    ] = "data",
    learner: Annotated[
        str, typer.Option(help=f"What is trained on a shard: {' or '.join(LEARNERS)}.")
    ] = "boosting",
    shards: Annotated[
        int | None, typer.Option(help="Number of shards; chosen if left out.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Shards trained at a time.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a model of this name.")
    ] = False,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Train models on shards and store them, ready to answer privately.

    Example: reticent fit adult.csv --schema adult.json --name income --epsilon 1
    """
    if learner not in LEARNERS:
        raise InvalidParameterError(
            f"--learner {learner!r} must be one of {', '.join(LEARNERS)}."
        )
    output = Output(as_json)
    public = Schema.read(schema)
    total = Budget(budget, delta)
    output.note(f"training on {data} ...")
    place = Home.at(home)
    model = train_and_store(
        place,
        data,
        public,
        name=name,
        dataset=dataset,
        learner=learner,
        epsilon=epsilon,
        budget=total,
        shards=shards,
        jobs=jobs,
        replace=replace,
    )
    _report(output, place, name, model, total)


def _report(output: Output, place: Home, name: str, model: Any, total: Budget) -> None:
    answers = _covered(model.certificate_, total)
    output.result(
        {
            "model": name,
            "path": str(place.models / name),
            "certificate": model.certificate_.as_dict(),
            "shards": model.n_shards_,
            "units": model.n_units_,
            "answers": answers,
        },
        [
            f"{name}: {model.shard_choice_.reason}.",
            str(model.certificate_),
            f"A budget of {total} covers {answers} answers.",
            f"Serve it with: reticent serve --home {place.path}",
        ],
    )


def train_and_store(
    place: Home,
    data: Path,
    schema: Schema,
    *,
    name: str,
    dataset: str,
    learner: str,
    epsilon: float,
    budget: Budget,
    shards: int | None = None,
    jobs: int | None = None,
    replace: bool = False,
) -> Any:
    """Train on a file, store the model in a home, and return the fitted predictor."""
    if schema.label is None:
        raise InvalidParameterError(
            "the schema declares no label; name the column to be predicted."
        )
    rows = read_table(data, schema)
    encoder = Encoder(schema, style="dense" if learner == "linear" else "ordinal")
    # Accounts with a delta count zCDP, by which a soft vote costs a quarter.
    rule = "soft" if budget.delta > 0 else "auto"
    model = _predictor(schema, learner, epsilon, rule, shards, jobs)
    model.fit(encoder.transform(rows), rows.label, units=rows.units)
    save_model(
        place.models / name,
        model,
        schema,
        signing_key=place.signing_key(),
        encoder=encoder,
        dataset=dataset,
        replace=replace,
    )
    place.register(name, dataset, {"epsilon": budget.epsilon, "delta": budget.delta})
    return model


def _covered(certificate: Certificate[Any], budget: Budget) -> int:
    """Return how many answers the ledger will grant under a budget."""
    account = AccountId(AccountScope.DATASET, "plan")
    return Balance(account, Cap.within(budget)).answers_left(Charge.of(certificate))


def _predictor(
    schema: Schema,
    learner: str,
    epsilon: float,
    rule: str,
    shards: int | None,
    jobs: int | None,
) -> Any:
    settings: dict[str, Any] = {
        "n_shards": "auto" if shards is None else shards,
        "n_jobs": jobs,
        "verbose": sys.stderr.isatty(),
    }
    target = schema.label
    if isinstance(target, NumericTarget):
        base = _regressor(learner)
        bounds = (target.low, target.high)
        return PrivateAveragingRegressor(base, epsilon, bounds, **settings)
    base = _classifier(learner)
    codes = list(range(len(schema.classes)))
    return PrivateVotingClassifier(base, epsilon, codes, rule=rule, **settings)


def _classifier(learner: str) -> Any:
    if learner == "linear":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression()
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(**_trees())


def _regressor(learner: str) -> Any:
    if learner == "linear":
        from sklearn.linear_model import Ridge

        return Ridge()
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(**_trees())


def _trees() -> dict[str, Any]:
    """Return settings for a shard's few rows; category codes are split as numbers."""
    return {
        "max_iter": 60,
        "max_leaf_nodes": 8,
        "min_samples_leaf": 10,
        "l2_regularization": 1.0,
        "early_stopping": False,
    }
