"""The report as one HTML page with plots, without other files or scripts."""

from __future__ import annotations

import math
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from reticent.audit.report.plots import bars_picture, growth_picture, trade_off_picture
from reticent.audit.report.report import Check, Report, Status
from reticent.guarantees import Scope

_MEANING = (
    "Somebody who sees answers of this model must not find out whether one person's "
    "record was used to train it. The measure is a guess: a coin decides whether that "
    "person is in the data, and somebody who sees the answers guesses which. A blind "
    "guess is right 50 times in 100. The promise limits how much better anybody can "
    "do, however they choose their questions and whatever else they know."
)
_LIMITS = (
    "Checks can refute a promise; only the proof can establish it. Where the audit "
    "computed all cases the finding is certain; where it sampled, a true promise is "
    "called broken less than once in a thousand audits.",
    "The owner made the audit. It read the stored model and drew answers for invented "
    "votes; it did not ask the service and spent nothing of any budget.",
    "The promise is about one person's record. What is true of the population may be "
    "learned from answers all the same: that is what the model is for.",
    "The stored model itself is as secret as the records; only answers are private.",
)
_RELEASED = (
    "Checks can refute a promise; only the proof can establish it.",
    "The promise is about the model as a whole: it may be published and asked any "
    "number of questions. Its randomness was drawn once, when it was made, so an audit "
    "cannot draw new answers.",
    "The promise is about one person's record. What is true of the population may be "
    "learned all the same: that is what the model is for.",
)
_INTERNAL = (
    "Findings about real records, and the attack, were computed from records. No "
    "record is shown, but keep this page as carefully as the records themselves."
)


def report_page(report: Report) -> str:
    """Return a report as HTML."""
    template = Template(
        files("reticent.audit.report").joinpath("page.html").read_text("utf-8")
    )
    certificate = report.certificate
    headline = "The promise is broken" if report.refuted else "Nothing was refuted"
    released = certificate is not None and certificate.scope is Scope.MODEL
    limits = _RELEASED if released else _LIMITS
    if report.uses_records:
        limits = (*limits, _INTERNAL)
    return template.substitute(
        name=escape(str(report.model.get("name", "model"))),
        subject=escape(_subject(report.model)),
        made=escape(report.made.replace("T", " ").replace("+00:00", " UTC")),
        mood="bad" if report.refuted else "",
        headline=headline,
        verdict=escape(_explained(report.verdict)),
        promised="What is claimed" if report.refuted else "What is promised",
        meaning=escape(_MEANING),
        facts=_facts(report),
        pictures=_pictures(report),
        checks="\n".join(_row(check) for check in report.checks),
        limits="".join(f"<li>{escape(line)}</li>" for line in limits),
        derivation=escape("unreadable" if certificate is None else str(certificate)),
    )


def _explained(verdict: str) -> str:
    """Return a verdict without its first words, which the headline repeats."""
    rest = verdict.split(": ", 1)[-1]
    return rest[:1].upper() + rest[1:]


def _subject(model: dict[str, Any]) -> str:
    kinds = {
        "voting": "Labels by a private vote",
        "averaging-classifier": "Labels by a private average",
        "averaging-regressor": "Numbers by a private average",
        "released-linear-classifier": "A released linear classifier",
        "released-linear-regressor": "A released linear regressor",
    }
    if "kind" not in model:
        return "A model that could not be read."
    text = kinds.get(str(model["kind"]), str(model["kind"]))
    if model.get("shards"):
        text += f" of {model['shards']:,} models"
    if model.get("units"):
        text += f", trained on the records of {model['units']:,} people"
    return f"{text} (dataset {model.get('dataset')})."


def _facts(report: Report) -> str:
    certificate = report.certificate
    if certificate is None:
        return _fact("Promise", "unreadable", "the model does not say")
    answer = certificate.scope is Scope.ANSWER
    parts = [
        _fact(
            "One answer promises" if answer else "The model promises",
            str(certificate.guarantee),
            "claimed, and refuted"
            if report.refuted
            else "proved"
            if certificate.proved
            else "if its assumptions hold",
        )
    ]
    total = report.promise(report.answers)
    if answer and total is not None:
        parts.append(
            _fact(
                f"{report.answers:,} answers together promise",
                str(total.guarantee),
                "to everybody who works together",
            )
        )
    guesses = dict(report.guesses())
    wanted = (1, report.answers) if answer else (1,)
    for count in sorted(set(wanted) & set(guesses)):
        seen = "one answer" if count == 1 else f"{count:,} answers"
        parts.append(
            _fact(
                f"Right guesses after {seen if answer else 'seeing the model'}",
                f"at most {math.ceil(1000 * guesses[count] - 1e-6) / 10:g} in 100",
                "blind guessing: 50 in 100",
            )
        )
    return "".join(parts)


def _fact(name: str, value: str, note: str) -> str:
    return (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}"
        f"<small>{escape(note)}</small></dd></div>"
    )


def _row(check: Check) -> str:
    style = check.status.value.split()[0]
    return (
        f'<tr><th scope="row">{escape(check.question)}</th>'
        f'<td class="mark"><span class="tag {style}">{check.status.value}</span></td>'
        f"<td>{escape(check.finding)}</td></tr>"
    )


def _pictures(report: Report) -> str:
    figures = [
        figure
        for figure in (_trade_off(report), _bars(report), _growth(report))
        if figure
    ]
    if not figures:
        return ""
    return (
        '<section aria-labelledby="pictures"><h2 id="pictures">In pictures</h2>'
        f'<div class="pictures">{"".join(figures)}</div></section>'
    )


def _figure(title: str, caption: str, picture: str) -> str:
    return (
        f"<figure><figcaption><b>{escape(title)}</b>{escape(caption)}</figcaption>"
        f"{picture}</figure>"
    )


def _trade_off(report: Report) -> str:
    shown = 1 if report.attack is None else report.attack.answers
    curves = []
    for count in dict.fromkeys((shown, 1 if shown > 1 else report.answers)):
        curve = report.curve(count)
        if curve is not None:
            named = f"allowed, {count:,} answer{'s' if count > 1 else ''}"
            curves.append((named, curve))
    if not curves:
        return ""
    attacks = []
    if report.attack is not None:
        attacks.append(("attack on this model", "ours", report.attack.points))
    if report.unprotected is not None:
        named = "attack on the same learner, unprotected"
        attacks.append((named, "plain", report.unprotected.points))
    observed = (
        "Marks are what attacks reached, with error bars; those on this model must "
        "not lie wholly above the shaded area."
        if attacks
        else "If the promise is kept, no attack of any kind gets above these lines."
    )
    return _figure(
        "What an attacker can find out",
        f"The share of people in the data who can be found, by the share of others who "
        f"are wrongly accused. {observed}",
        trade_off_picture(curves, attacks),
    )


def _bars(report: Report) -> str:
    limit, rows = None, []
    names = {
        "exact": ("worst case, computed", "worst", "allowed"),
        "small-datasets": ("small datasets", "worst", "allowed"),
        "sampling": ("samples show at least", "epsilon_at_least", "epsilon_claimed"),
    }
    for check in report.checks:
        if check.name not in names or check.status is Status.NOT_RUN:
            continue
        name, found, promised = names[check.name]
        claimed = float(check.numbers[promised])
        # Only losses in the same terms as the first one share a plot.
        if limit is not None and not math.isclose(limit, claimed, rel_tol=1e-9):
            continue
        limit = claimed
        style = "over" if check.status is Status.REFUTED else "found"
        rows.append((name, min(float(check.numbers[found]), 1e6), style))
    if limit is None or not rows:
        return ""
    return _figure(
        "How much one answer reveals",
        "The privacy loss of one answer, as promised and as found. No bar may pass "
        "the dashed line.",
        bars_picture(rows, limit),
    )


def _growth(report: Report) -> str:
    certificate = report.certificate
    guesses = report.guesses()
    if certificate is None or certificate.scope is not Scope.ANSWER or not guesses:
        return ""
    return _figure(
        "How it adds up",
        "How often a guess about one person can be right at most, by the number of "
        "answers seen, if the promise is kept. The service's ledger refuses answers "
        "beyond its owner's limit.",
        growth_picture(guesses, report.answers),
    )
