"""``reticent fit``: from a file of sensitive rows to a model that is safe to use."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent._text import counted, protected_one
from reticent.cli.options import (
    HOME,
    AsJson,
    Decimal,
    Encoding,
    HomeOption,
    Separator,
    Thousands,
    read_schema,
)
from reticent.cli.output import Output
from reticent.estimators import ReleaseExpectation
from reticent.guarantees import guess_in_words, in_plain_words
from reticent.home import (
    LEARNERS,
    LOCAL,
    RELATIONS,
    DatasetBudget,
    FitOptions,
    Home,
    PeriodTotal,
    evaluation_history,
    total_over_periods,
    train_and_store,
)
from reticent.ledger import NO_SPEND, Balance, Charge
from reticent.prediction import promised_by
from reticent.schemas import Schema

Release = Annotated[
    bool,
    typer.Option(
        "--release/--ask",
        help="Make the model itself private, with free answers; or keep it inside "
        "and make each answer private.",
    ),
]
Lasting = Annotated[
    bool,
    typer.Option(
        "--lasting",
        help="Unlimited answers under one total: records near a question answer it, "
        "and each pays for itself.",
    ),
]
Relation = Annotated[
    str,
    typer.Option(
        help=f"What the total of lasting answers is about: {' or '.join(RELATIONS)}."
    ),
]
Local = Annotated[
    str,
    typer.Option(
        help="Whether records near a question vote on lasting answers: "
        f"{', '.join(LOCAL)}. auto decides by the number of units and the budget."
    ),
]
Questions = Annotated[
    int,
    typer.Option(
        help="For how many questions the noise of lasting answers is planned; more may "
        "be asked."
    ),
]
ClientShare = Annotated[
    float,
    typer.Option(
        help="Which share of a record's budget the questions of one client may use, "
        "with lasting answers."
    ),
]
ConstantTime = Annotated[
    bool,
    typer.Option(
        "--constant-time",
        help="Look at all records for each lasting answer, so that its time does not "
        "tell how many are near; much slower.",
    ),
]
Public = Annotated[
    Path | None,
    typer.Option(
        help="Public rows without labels: release a student of private answers "
        "about them."
    ),
]
Learner = Annotated[
    str | None,
    typer.Option(
        help=f"What is trained: {' or '.join(LEARNERS)}.",
        show_default="boosting; for a release, a model for tables",
    ),
]
BudgetOption = Annotated[
    float | None,
    typer.Option(
        help="Epsilon of all that is made from the dataset.",
        show_default="the dataset's, or 50",
    ),
]
DeltaOption = Annotated[
    float | None,
    typer.Option(
        help="Delta of all of it; 0 for pure privacy.",
        show_default="the dataset's, or 1e-6",
    ),
]
ChangeBudget = Annotated[
    bool,
    typer.Option(
        "--change-budget",
        help="Change the budget of a dataset that has another one, for all its models.",
    ),
]
Scratch = Annotated[
    Path | None,
    typer.Option(
        help="For a file larger than memory: rows pass through nameless temporary "
        "files in this folder.",
    ),
]

Epsilon = Annotated[
    float,
    typer.Option(
        help="Privacy cost of one answer, of the release, or of all answers that last."
    ),
]
AcceptNoise = Annotated[
    bool,
    typer.Option(
        "--accept-noise",
        help="Train even if answers will be hardly more than noise.",
    ),
]

Measure = Annotated[
    float | None,
    typer.Option(
        help="Hold out a tenth of the units (at most 100 with --ask, whose answers "
        "cost), and measure on them at this privacy cost.",
        show_default="measure nothing",
    ),
]
Dataset = Annotated[
    str, typer.Option(help="Whose budget is spent; one name per population.")
]
Shards = Annotated[
    int | None, typer.Option(help="Number of shards; chosen if left out.")
]
Replace = Annotated[
    bool, typer.Option("--replace", help="Replace a model of this name.")
]

_NOT_YOUR_TABLE = (
    "This says what the noise costs. Your own table may be much harder: only a "
    "measurement tells (--measure, or reticent evaluate)."
)
# What was asked of such a model changes its later answers, so held-out rows are not.
_LASTING_UNMEASURED = (
    "This says what the noise costs. Your own table may be much harder. Lasting "
    "answers cannot be measured; a release of the same rows can: 'fit --release "
    "--measure'."
)


def fit(
    data: Annotated[Path, typer.Argument(help="The sensitive rows: CSV or Parquet.")],
    schema: Annotated[Path, typer.Option(help="The public schema.")],
    name: Annotated[str, typer.Option(help="What to call the model.")] = "model",
    release: Release = False,
    lasting: Lasting = False,
    relation: Relation = RELATIONS[0],
    local: Local = LOCAL[0],
    questions: Questions = FitOptions.questions,
    client_share: ClientShare = FitOptions.client_share,
    constant_time: ConstantTime = False,
    public: Public = None,
    epsilon: Epsilon = 1.0,
    budget: BudgetOption = None,
    delta: DeltaOption = None,
    change_budget: ChangeBudget = False,
    dataset: Dataset = "data",
    learner: Learner = None,
    shards: Shards = None,
    jobs: Annotated[int | None, typer.Option(help="Shards trained at a time.")] = None,
    scratch: Scratch = None,
    replace: Replace = False,
    accept_noise: AcceptNoise = False,
    measure: Measure = None,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Train a model and store it: one that answers privately, or a private one.

    Example: reticent fit adult.csv --schema adult.json --name income --epsilon 1

    Example: reticent fit adult.csv --schema adult.json --release --epsilon 1

    Example: reticent fit adult.csv --schema adult.json --lasting --epsilon 1

    Example: reticent fit adult.csv --schema adult.json --public queries.csv
    """
    output = Output(as_json)
    options = FitOptions(
        name=name,
        dataset=dataset,
        epsilon=epsilon,
        budget=budget,
        delta=delta,
        change_budget=change_budget,
        learner=learner,
        release=release,
        lasting=lasting,
        relation=relation,
        local=local,
        questions=questions,
        client_share=client_share,
        constant_time=constant_time,
        public=public,
        shards=shards,
        jobs=jobs,
        scratch=scratch,
        replace=replace,
        accept_noise=accept_noise,
        measure=measure,
        verbose=sys.stderr.isatty(),
    )
    declared = read_schema(schema, separator, encoding, decimal, thousands)
    _train(output, Home.at(home), data, declared, options)


def _train(
    output: Output, place: Home, data: Path, schema: Schema, options: FitOptions
) -> None:
    first = not place.config.exists()
    model = train_and_store(place, data, schema, options, note=output.note)
    _report(output, place, model, options, schema)
    if first:
        _warn(output, place)


def _report(
    output: Output,
    place: Home,
    model: Any,
    options: FitOptions,
    schema: Schema,
) -> None:
    about = protected_one(schema.unit)
    known = DatasetBudget(place, options.dataset).balance()
    answers = per_client = None
    delta = 0.0 if known is None else known.cap.budget.delta
    lines = [
        str(model.certificate_),
        in_plain_words(model.certificate_, about=about, delta=delta),
    ]
    lines = _foreseen(model, options) + lines
    if options.lasting:
        lines += _about_lasting(model, options)
    elif options.releases or known is None:
        lines.append(
            f"{options.name}: released, and charged to the dataset "
            f"{options.dataset!r}. Its answers are free."
        )
    else:
        charge = Charge.of(model.certificate_)
        answers = known.answers_left(charge)
        client = place.settings().client_budget
        per_client = None if client is None else client.cap().answers_left(charge)
        lines.insert(0, f"{options.name}: {model.shard_choice_.reason}.")
        lines += _about_answers(known, options, about, answers, per_client)
    if known is not None and options.paid_once:
        lines.append(
            f"All models of {options.dataset!r} together may spend {known.cap.budget}; "
            "choose with --budget when the dataset is new, or with 'accounts cap'."
        )
    total = _over_periods(place, options.dataset, model.certificate_)
    if total is not None:
        lines += [total.sentence(), str(total.certificate)]
    lines.append(f"Serve it with: reticent serve --home {place.path}")
    found = {
        "model": options.name,
        "path": str(place.model_path(options.name)),
        "certificate": model.certificate_.as_dict(),
        "shards": getattr(model, "n_shards_", None),
        "units": model.n_units_,
        "expectation": _expected(model),
        "measured": _measured(place, options),
        "answers": answers,
        "answers_per_client": per_client,
        "budget": None if known is None else known.as_dict(),
        "total": None if total is None else total.as_dict(),
    }
    output.result(found, lines)


def _foreseen(model: Any, options: FitOptions) -> list[str]:
    expected = getattr(model, "expectation_", None)
    if expected is None:
        return []
    told = f"Expected from public facts: {expected}."
    if not isinstance(expected, ReleaseExpectation) or options.measure is not None:
        return [told]
    return [told, _LASTING_UNMEASURED if options.lasting else _NOT_YOUR_TABLE]


def _about_answers(
    known: Balance,
    options: FitOptions,
    about: str,
    answers: int,
    per_client: int | None,
) -> list[str]:
    more = "answer" if known.spent == NO_SPEND else "more answer"
    chosen = "" if options.budget is not None else _of_whom(options)
    relation = known.cap.relation
    lines = [
        f"A budget of {known.cap.budget}{chosen} covers {counted(answers, more)}.",
        guess_in_words(promised_by(known), about=about, relation=relation),
    ]
    if per_client is not None and per_client < answers:
        lines.append(
            f"One client may have at most {per_client} of them."
            if per_client
            else "A client that is new may have none of them, before its cap is raised."
        )
    return lines


def _about_lasting(model: Any, options: FitOptions) -> list[str]:
    who = model.local_reason_
    lines = [
        f"{options.name}: this total was charged to the dataset {options.dataset!r}. "
        "Its answers are free, and there is no limit to them.",
        f"{who[0].upper()}{who[1:]}.",
    ]
    if not model.local_:
        lines.append(
            "Its answers come without evidence. --local always lets the records near a "
            "question vote."
        )
    return lines


def _over_periods(place: Home, dataset: str, found: Any) -> PeriodTotal | None:
    settings = place.settings()
    with settings.open_ledger() as ledger:
        return total_over_periods(settings, ledger, dataset, found)


def _warn(output: Output, place: Home) -> None:
    """Say at a home's first fit what would go unnoticed, and where to change that."""
    risk = place.settings().second_place_risk()
    if risk is not None:
        output.note(
            f"warning: {risk} The setting is 'checkpoints' in {place.config}; "
            "'reticent home show' has it, too."
        )


def _of_whom(options: FitOptions) -> str:
    """Say where the budget comes from if it was not chosen just now."""
    return f" (the budget of dataset {options.dataset!r}; choose with --budget)"


def _measured(place: Home, options: FitOptions) -> dict[str, Any] | None:
    """Return what was measured on held-out units, if anything was."""
    history = evaluation_history(place, options.name)
    return history[-1] if options.measure is not None and history else None


def _expected(model: Any) -> dict[str, Any] | None:
    """Return how good answers can be, from public facts, if that was looked at."""
    found = getattr(model, "expectation_", None)
    if found is None:
        return None
    return {"best": found.best, "chance": found.chance, "kept": found.kept}
