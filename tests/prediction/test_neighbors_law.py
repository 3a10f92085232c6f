"""Questions to local predictors: search, sums, replay and spending (P10)."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.estimators import STEPS, CodedColumns
from reticent.mechanisms.individual import FULL
from reticent.mechanisms.sampling.listening import Listener, listen
from reticent.prediction import (
    LastingReply,
    PrivateNeighborsClassifier,
    PrivateNeighborsRegressor,
)
from reticent.prediction.neighbors.index import BallIndex, grid_axes
from reticent.prediction.neighbors.metric import Metric
from reticent.prediction.neighbors.spending import Lessons
from reticent.prediction.neighbors.votes import LOUDEST, ONE
from tests.stats import ALPHA, assert_rate, rejects

RNG = np.random.default_rng(11)
N = 400
ROWS = np.column_stack([RNG.uniform(-1, 1, (N, 2)), RNG.integers(0, 4, N)])
LABELS = ((ROWS[:, 0] > 0) ^ (ROWS[:, 2] == 1)).astype(int)
COLUMNS = [(-1, 1), (-1, 1), 4]


def fitted(kind="two", **given):
    given = {"columns": COLUMNS, "questions": 50, "prior": False, **given}
    if kind == "numbers":
        model = PrivateNeighborsRegressor(4.0, bounds=(-1, 1), **given)
        return model.fit(ROWS, ROWS[:, 0])
    y = LABELS if kind == "two" else ROWS[:, 2].astype(int)
    classes = [0, 1] if kind == "two" else [0, 1, 2, 3]
    return PrivateNeighborsClassifier(4.0, classes=classes, **given).fit(ROWS, y)


@st.composite
def searches(draw):
    facts = draw(
        st.lists(st.sampled_from([(0.0, 1.0), 1, 3, 40]), min_size=1, max_size=5)
    )
    columns = CodedColumns.of(facts, len(facts))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(1, 60))
    codes = np.column_stack(
        [rng.integers(0, column.n_codes, n_rows) for column in columns.columns]
    ).astype(np.int16)
    shares = tuple(
        np.sort(rng.random(STEPS)) if column.numeric and rng.random() < 0.5 else None
        for column in columns.columns
    )
    metric = Metric(columns, rng.uniform(0.003, 1, len(facts)))
    query = np.array([rng.integers(0, c.n_codes) for c in columns.columns], np.int16)
    axes = grid_axes(columns, shares, rng.random(len(facts)), n_rows)
    exponent = draw(st.floats(0, 30))
    return codes, axes, metric.tables(query), int(2**exponent)


@given(searches())
def test_the_index_finds_what_a_search_of_all_rows_finds(search):
    codes, axes, tables, radius = search
    squares = np.zeros(len(codes), dtype=np.int64)
    for column, table in enumerate(tables):
        squares += table[codes[:, column]]
    expected = {(row, squares[row]) for row in np.flatnonzero(squares <= radius)}
    rows, found = BallIndex(codes, axes).within(tables, radius)
    assert set(zip(rows.tolist(), found.tolist(), strict=True)) == expected
    assert len(rows) == len(expected)
    assert squares.max() <= (1 << 30) + len(tables)


class Noiseless(Listener):
    """Let noisy sums come out as they are, and keep them."""

    def __init__(self):
        self.sums = []

    def drawn(self, draw, sample):
        if draw.kind != "rounded gaussian":
            return sample()
        self.sums.append(np.array(draw.arguments[0]))
        return self.sums[-1]


@pytest.mark.parametrize("kind", ["two", "three", "numbers"])
def test_a_search_of_all_rows_gives_the_same_answers(kind):
    law = fitted(kind).law_
    slow = dataclasses.replace(law, constant_time=True)
    codes = law.encode(np.vstack([ROWS[:30], [[np.nan, 0.3, 9]]]))
    found = []
    for each in (law, slow):
        spending = each.start()
        with listen(Noiseless()) as heard:
            answers = each.ask(codes, spending)
        found.append((answers, spending, heard.sums))
    (one, spent, sums), (other, spent_too, sums_too) = found
    np.testing.assert_array_equal(one.trace, other.trace)
    np.testing.assert_array_equal(spent.spent, spent_too.spent)
    assert all(np.array_equal(a, b) for a, b in zip(sums, sums_too, strict=True))


@pytest.mark.parametrize("kind", ["two", "three", "numbers"])
@pytest.mark.parametrize("prior", [False, True])
def test_sums_are_whole_and_agree_with_the_definition(kind, prior):
    law = fitted(kind, prior=prior).law_
    plan = dataclasses.replace(law.plan, vote_scale=1e9)  # Everybody can pay.
    law = dataclasses.replace(law, plan=plan)
    spending = law.start()
    query = law.encode(ROWS[3:4])[0]
    radius = 1 << 26
    here = law.votes.here(law._prior(query[None])[0])
    sums = law.speak(law.near(law.around(query), radius), radius, here, spending, None)
    total = [0] * law.votes.width
    tables = law.metric.tables(query)
    for row, codes in enumerate(law.codes):
        square = sum(int(t[c]) for t, c in zip(tables, codes, strict=True))
        loud = LOUDEST * (radius - square) // radius
        if square >= radius:
            continue
        if kind == "two":
            vote = ONE * int(law.votes.said_by[row]) - ONE // 2
            vote -= int(law.votes.expected[row]) - here
            said = [max(-ONE, min(ONE, vote)) * loud]
        elif kind == "three":
            said = [ONE * loud * (law.votes.said_by[row] == k) for k in range(4)]
        else:
            residual = round(float(law.votes.said_by[row]) * ONE)
            residual -= int(law.votes.expected[row])
            clip = round(law.votes.clip * ONE)
            said = [max(-clip, min(clip, residual)) * loud, loud * (ONE // 8)]
        total = [a + b for a, b in zip(total, said, strict=True)]
    assert sums.dtype == np.int64
    assert sums.tolist() == total
    assert any(total)


@pytest.mark.parametrize("kind", ["two", "three", "numbers"])
def test_replay_charges_and_learns_the_same_to_the_bit(kind):
    law = fitted(kind, client_share=0.4, questions=2000).law_
    rng, spending, again = np.random.default_rng(2), law.start(), law.start()
    for place in range(30):
        # Half the questions in one spot, so that units there are spent.
        X = ROWS[rng.integers(0, 5 if place % 2 else N, 8)]
        client = [None, "a", "b"][place % 3]
        codes = law.encode(X)
        answers = law.ask(codes, spending, client)
        law.replay(codes, answers.trace, again, client)
        assert again.spent.tobytes() == spending.spent.tobytes()
        assert again.lessons.as_list() == spending.lessons.as_list()
        for name, own in spending.clients.items():
            assert own.spent.tobytes() == again.clients[name].spent.tobytes()
    assert (spending.spent > law.fitted).any()
    one, many = law.start(), law.start()
    law.replay(codes, answers.trace, many)
    for query, trace in zip(codes, answers.trace, strict=True):
        law.replay(query[None], trace[None], one)
    assert one.spent.tobytes() == many.spent.tobytes()


def test_copies_of_a_state_never_charge_each_other():
    law = fitted("two", client_share=0.5).law_
    codes, state = law.encode(ROWS[:20]), law.start()
    for name in "ab":
        law.ask(codes, state, name)
    kept = state.to_bytes()
    one, two = state.copy(), state.copy()
    law.ask(codes, one, "a")
    mine = one.to_bytes()
    assert state.to_bytes() == two.to_bytes() == kept != mine
    law.ask(codes, state, "b")  # whoever was copied changes its own, too
    law.ask(codes, two.copy(), "c")
    assert (one.to_bytes(), two.to_bytes()) == (mine, kept)
    assert len(state.clients) == len(two.clients) == 2


def test_replay_takes_the_models_answer_from_the_trace():
    # A processor that rounds otherwise must charge the same.
    law = fitted(prior=True).law_
    shifted = dataclasses.replace(
        law.model, values=np.nextafter(law.model.values, np.inf) + 0.01
    )
    elsewhere = dataclasses.replace(law, model=shifted)
    codes, spending, again = law.encode(ROWS[:40]), law.start(), law.start()
    answers = law.ask(codes, spending)
    elsewhere.replay(codes, answers.trace, again)
    assert again.spent.tobytes() == spending.spent.tobytes()


@pytest.mark.parametrize(
    ("kind", "relation"),
    [
        ("two", "replace-one"),
        ("two", "zero-out"),
        ("three", "replace-one"),
        ("numbers", "replace-one"),
    ],
)
def test_no_unit_says_more_than_its_budget_over_many_questions(
    kind, relation, monkeypatch
):
    law = fitted(kind, relation=relation).law_
    # Sums of squares of what each unit said: in counts, and in votes.
    counted = np.zeros(N, dtype=np.int64)
    voted = np.zeros(N, dtype=object)
    weights = [2, 1] if relation == "replace-one" and kind != "three" else [1] * 4
    real_pay = type(law)._pay
    said_now = []

    def pay(self, units, costs, price, spending, client, reserve):
        able = real_pay(self, units, costs, price, spending, client, reserve)
        said = said_now.pop()[able]
        if reserve.any():  # A count, whose cost is the square of what is said.
            counted[units[able]] += costs[able].astype(np.int64)
        else:
            width = said.shape[1]
            voted[units[able]] += (said**2 * weights[:width]).sum(axis=1)
        return able

    real_said = type(law.votes).said

    def said(self, *given):
        said_now.append(real_said(self, *given))
        return said_now[-1]

    monkeypatch.setattr(type(law), "_pay", pay)
    monkeypatch.setattr(type(law.votes), "said", said)
    spending = law.start()
    rng = np.random.default_rng(4)
    law.ask(law.encode(ROWS[rng.integers(0, 10, 1000)]), spending)
    cap = Fraction(law.budget.cap)
    mu = Fraction(law.budget.mu)
    assert cap <= mu**2 / (2 if relation == "replace-one" else 1)
    scales = [Fraction(law.plan.count_scale), Fraction(law.plan.vote_scale)]
    paid = [
        sum(Fraction(int(n)) / scale**2 for n, scale in zip(each, scales, strict=True))
        for each in zip(counted, voted, strict=True)
    ]
    spent = [Fraction(int(each), FULL) * cap for each in spending.spent - law.fitted]
    assert all(real <= told for real, told in zip(paid, spent, strict=True))
    assert spending.spent.max() <= FULL
    fit = [Fraction(int(each), FULL) * cap for each in law.fitted]
    assert max(a + b for a, b in zip(fit, paid, strict=True)) <= cap
    assert max(paid) > cap * Fraction(1, 2)


def test_in_constant_time_everybody_is_looked_at():
    law = dataclasses.replace(fitted("two").law_, constant_time=True)
    for radius in (1, 1 << 20, 1 << 30):
        units, _, _ = law.near(law.around(law.encode(ROWS[:1])[0]), radius)
        assert np.array_equal(units, np.arange(len(law.fitted)))


@pytest.mark.parametrize("constant_time", [False, True])
def test_a_unit_without_rows_says_nothing_and_others_pay_once(constant_time):
    # As many rows as units, but one unit was erased and another has two rows.
    law = fitted("two").law_
    unit = law.unit.copy()
    unit[1] = 0
    law = dataclasses.replace(law, unit=unit, constant_time=constant_time)
    units, squares, rows = law.near(law.around(law.codes[0]), 1 << 30)
    assert units.tolist() == [0, *range(2, N)]
    assert (rows[0], squares[0]) == (0, 0)
    spending = law.start()
    law.speak((units, squares, rows), 1 << 30, ONE // 2, spending, None)
    paid = spending.spent.astype(int) - law.fitted
    assert paid[1] == 0 < paid[0]
    parts = law.split(3)
    assert sum(len(part.fitted) for part in parts) == N
    assert sum(len(part.unit) for part in parts) == N


def mean_evidence(law, spent, count):
    """Return the mean evidence of questions to units that have spent this."""
    settled = Lessons()
    settled.asked, settled.start = 50.0, math.log(1 << 27)
    fitted = np.full_like(law.fitted, spent)
    law = dataclasses.replace(law, fitted=fitted, lessons=settled)
    codes = law.encode(RNG.uniform(-1, 1, (count, 3)))
    # Each question finds the units as they were at first.
    return np.mean([law.ask(each[None], law.start()).evidence[0] for each in codes])


def test_evidence_is_not_biased_upwards_where_units_are_spent():
    law, count = fitted("two").law_, 1_000
    # Noise of at most four shells, where we stop by what was seen, is sub-Gaussian.
    widest = 2 * law.plan.count_scale
    slack = widest * math.sqrt(2 * math.log(1 / ALPHA) / count)
    assert slack < 0.5 * law.plan.count_scale
    spent = mean_evidence(law, FULL, count)
    assert spent < slack
    # Counts that are shown as if they were positive are biased, and found out.
    floored = widest / math.sqrt(2 * math.pi)
    assert floored > slack
    assert mean_evidence(law, 0, count) > spent + slack


def test_nobody_says_that_evidence_is_above_zero_as_often_as_below():
    """It is cut off at what a question needs, and the search stops where it is high."""
    law, count = fitted("two").law_, 3_000
    plan = dataclasses.replace(law.plan, wanted=law.plan.count_scale / 3)
    law = dataclasses.replace(law, plan=plan, fitted=np.full_like(law.fitted, FULL))
    evidence = law.ask(law.encode(RNG.uniform(-1, 1, (count, 3))), law.start()).evidence
    above = int((evidence > 0).sum())
    assert above > count / 2
    assert rejects(assert_rate, above, count, 0.5)
    page = Path(__file__).parents[2] / "docs/explain/individual-accounting.md"
    for text in (page.read_text(), LastingReply.__doc__):
        words = " ".join(text.split())
        assert "as often below zero" not in words
        assert "mean zero" not in words


@pytest.mark.parametrize("kind", ["labels", "numbers"])
def test_the_usual_radius_is_learned_however_many_units_a_question_looks_for(kind):
    """Evidence is kept in steps; one that was rounded down is still all of it.

    A radius that only ever grows would have every unit pay for every question.
    """
    rows = np.random.default_rng(1).uniform(-1, 1, (400, 2))
    known = {"local": "always", "prior": False, "questions": 9, "random_state": 0}
    if kind == "labels":
        model = PrivateNeighborsClassifier(20.0, classes=[0, 1], **known)
    else:
        model = PrivateNeighborsRegressor(20.0, bounds=(-1, 1), **known)
    law = model.fit(rows, np.arange(400) % 2).law_
    codes = law.encode(np.random.default_rng(2).uniform(-1, 1, (40, 2)))
    for wanted in (9.97, 10.0, 10.03, 13.021, 25.9374, 28.5311, 30.02):
        plan = dataclasses.replace(law.plan, wanted=wanted)
        own = dataclasses.replace(law, plan=plan)
        spending = own.start()
        found = own.ask(codes, spending)
        assert (found.evidence >= wanted).sum() > 20
        enough = found.trace[:, 3] >= round(16 * wanted)
        assert spending.lessons.asked == enough.sum()
        # 400 units on a square: so many are within a radius of that share.
        assert own.start_radius(spending.lessons) < found.trace[:, 2].max()
