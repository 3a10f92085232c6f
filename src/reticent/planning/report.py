"""A plan as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent._html import box, paragraph
from reticent._html import table as _html_table

if TYPE_CHECKING:
    from reticent.planning.option import Option
    from reticent.planning.planner import Plan

HEADINGS = ("", "option", "estimate", "proved", "shards", "one answer", "all", "rows")


def percent(value: float | None) -> str:
    """Return an error in percent, or a dash."""
    return "-" if value is None else f"{100 * value:.3g} %"


def proved(option: Option) -> str:
    """Return a bound on the error, or a dash if it is trivial."""
    if option.bound is None or option.bound_on != "error" or option.bound >= 0.5:
        return "-"
    return percent(option.bound)


def row(place: int, option: Option) -> tuple[str, ...]:
    """Return the cells of one option, under `HEADINGS`."""
    step = option.settings.get("epsilon") if option.job == "ask" else None
    return (
        str(place),
        option.title,
        percent(option.estimate),
        proved(option),
        "-" if option.n_shards is None else str(option.n_shards),
        "-" if step is None else f"{step:.3g}",
        str(option.total),
        "-" if option.rows_needed is None else f"{option.rows_needed}",
    )


def rows(plan: Plan) -> list[tuple[str, ...]]:
    """Return headings and one row per option."""
    # Without a wanted error there is no column of rows.
    kept = len(HEADINGS) - (plan.facts.alpha is None)
    return [
        HEADINGS[:kept],
        *(row(place, option)[:kept] for place, option in enumerate(plan.options, 1)),
    ]


def remarks(plan: Plan) -> list[str]:
    """Return the remarks under the table."""
    facts = plan.facts
    asked = f"{int(facts.queries)} queries" if facts.limited else "unlimited queries"
    lines = [
        f"{facts.n} rows of {facts.units} units, {facts.features} columns; {asked} "
        f"under {facts.budget}.",
        "Estimates assume an error without privacy of "
        f"{percent(facts.flexible_error)} for boosted trees, "
        f"{percent(facts.additive_error)} for additive and "
        f"{percent(facts.linear_error)} for linear models, and "
        f"{percent(facts.chance_error)} for guessing; set base_accuracy, "
        "linear_accuracy and majority if you know better.",
    ]
    if plan.lower_bound > 0:  # a class of dimension 1 has none
        lines.append(
            "No method can guarantee an excess error below "
            f"{percent(plan.lower_bound)} for every distribution, for a class of VC "
            f"dimension {facts.d} (S2 Thm 4)."
        )
    if plan.rows_for_anyone:
        lines.append(
            f"For {percent(facts.alpha)} any method needs at least "
            f"{plan.rows_for_anyone} units in the worst case."
        )
    if plan.crossover is None:
        lines.append("Asking is expected to stay better than releasing.")
    elif plan.crossover == 1:
        lines.append("Releasing is expected to be better from the first query on.")
    else:
        lines.append(
            "Releasing is expected to be better from about "
            f"{plan.crossover} queries on."
        )
    lines.append(
        "Settings that were chosen by looking at the same rows are not covered; "
        "'reticent tune' (PrivateSearch) covers them, for a share of the budget."
    )
    return lines


def table(plan: Plan) -> str:
    """Return a plan as lines of text."""
    cells = rows(plan)
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in cells
    ]
    return "\n".join([*lines, "", *remarks(plan)])


def page(plan: Plan) -> str:
    """Return a plan as HTML for notebooks."""
    header, *lines = rows(plan)
    return box(_html_table(header, lines), *(paragraph(line) for line in remarks(plan)))
