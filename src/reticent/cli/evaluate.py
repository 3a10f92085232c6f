"""``reticent evaluate``: how good a model is, as a private number with an interval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import Output, aligned
from reticent.errors import InvalidParameterError
from reticent.guarantees import in_plain_words
from reticent.home import METRICS, Home, evaluate_model, evaluation_history


def evaluate(
    model: Annotated[str, typer.Argument(help="The name of a model.")],
    data: Annotated[
        Path | None,
        typer.Argument(help="Labelled rows that it was not trained on."),
    ] = None,
    metric: Annotated[
        str, typer.Option(help=f"What to measure: {', '.join(METRICS)}.")
    ] = "accuracy",
    epsilon: Annotated[float, typer.Option(help="Privacy cost of the metric.")] = 0.1,
    confidence: Annotated[
        float, typer.Option(help="Probability that the interval covers the truth.")
    ] = 0.95,
    client: Annotated[
        str, typer.Option(help="Whose account pays for answers.")
    ] = "evaluation",
    history: Annotated[
        bool, typer.Option("--history", help="Show earlier measurements instead.")
    ] = False,
    accept_noise: Annotated[
        bool,
        typer.Option(
            "--accept-noise", help="Measure even if there are too few rows for it."
        ),
    ] = False,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Measure a model privately; the cost goes to the model's dataset.

    Answers of a model that was not released are charged, too.

    Example: reticent evaluate income held-out.csv --epsilon 0.1

    Example: reticent evaluate income --history
    """
    output = Output(as_json)
    place = Home.existing(home)
    if history == (data is not None):
        raise InvalidParameterError(
            "give a file of labelled rows to measure on, or --history for earlier "
            f"measurements{', not both' if history else ''}."
        )
    if data is None:
        found = evaluation_history(place, model)
        head = ("time", "metric", "value", "interval", "")
        lines = aligned([head, *map(_row, found)])
        output.result(
            {"evaluations": found}, lines if found else ["nothing measured yet."]
        )
        return
    result = evaluate_model(
        place,
        model,
        data,
        metric=metric,
        epsilon=epsilon,
        confidence=confidence,
        client=client,
        accept_noise=accept_noise,
        note=output.note,
    )
    lines = [f"{model}: {result}."]
    if np.ndim(result.value):
        lines += aligned(_table(result.as_dict()))
    lines.append(f"{result.certificate.headline()}, for the measured rows.")
    lines.append(in_plain_words(result.certificate))
    output.result(result.as_dict(), lines)


def _row(found: dict[str, Any]) -> tuple[str, ...]:
    if isinstance(found["value"], list):
        return found["time"], found["metric"], "(table)", "see --json", ""
    low = "any number" if found["low"] is None else f"{found['low']:.4f}"
    interval = f"{low} to {found['high']:.4f}"
    note = "worse than before" if found["fell"] else ""
    return found["time"], found["metric"], f"{found['value']:.4f}", interval, note


def _table(found: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the numbers of a confusion matrix or a calibration curve as rows."""
    parts = (np.atleast_2d(np.array(found[name])) for name in ("value", "low", "high"))
    return [
        tuple(f"{v:.3f} ({a:.3f} to {b:.3f})" for v, a, b in zip(*row, strict=True))
        for row in zip(*parts, strict=True)
    ]
