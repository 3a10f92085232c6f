"""The leaderboard: what it shows, what it counts, what it refuses (R3)."""

import copy
import pickle

import numpy as np
import pytest

from reticent.errors import (
    BudgetExhaustedError,
    InvalidDataError,
    InvalidParameterError,
    LedgerError,
)
from reticent.generalization import Ladder
from reticent.guarantees import FiniteRange, recheck
from reticent.ledger import SQLLedger

N = 1000
LABELS = np.arange(N) % 2


def scoring(share):
    """Return predictions of which this share is right."""
    wrong = np.arange(N) >= round(share * N)
    return np.where(wrong, 1 - LABELS, LABELS)


def board(**parameters):
    return Ladder(LABELS, **{"step": 0.1, "submissions": 50, **parameters})


def test_the_score_shown_rises_by_steps():
    ladder = board()
    shares = [0.3, 0.35, 0.4, 0.41, 0.5, 0.62, 0.60, 0.7, 0.1, 1.0]
    shown = [ladder.submit(scoring(share)) for share in shares]
    # 0.4 and 0.5 are one step above what is shown, not more than one.
    assert shown == [0.3, 0.3, 0.3, 0.4, 0.4, 0.6, 0.6, 0.6, 0.6, 1.0]
    assert ladder.leader == 10
    assert ladder.submissions_left == 40


def test_nothing_else_about_the_labels_comes_out():
    # Two boards that show the same say the same, whatever the labels.
    first, second = board(), board()
    for a, b in [(0.31, 0.29), (0.2, 0.38), (0.55, 0.6), (0.64, 0.0)]:
        assert first.submit(scoring(a)) == second.submit(scoring(b))
    assert first.accuracy == second.accuracy
    assert first.leader == second.leader


def test_without_a_step_one_standard_error_counts():
    ladder = board(step=None)
    assert ladder.submit(scoring(0.5)) == 0.5
    # 310 rows better and 300 worse: one standard error is sqrt(610)/1000 = 0.025.
    shuffled = scoring(0.51).copy()
    shuffled[:300] = 1 - shuffled[:300]
    shuffled[-300:] = 1 - shuffled[-300:]
    assert ladder.submit(shuffled) == 0.5
    # 10 rows better and none worse: one standard error is sqrt(10)/1000 = 0.0032.
    assert ladder.submit(scoring(0.51)) == 0.51


def test_the_free_variant_closes_after_its_improvements():
    ladder = board(step=None, improvements=3)
    for share in (0.3, 0.5, 0.7):
        ladder.submit(scoring(share))
    assert ladder.closed
    assert ladder.submissions_left == 0
    with pytest.raises(BudgetExhaustedError, match="improvements=3"):
        ladder.submit(scoring(0.9))
    assert ladder.best == 0.7


def test_a_board_at_the_top_stays_open():
    ladder = board(improvements=1)
    assert ladder.submit(scoring(1.0)) == 1.0
    assert not ladder.closed
    assert ladder.submit(scoring(0.5)) == 1.0


def test_submissions_run_out():
    ladder = board(submissions=2)
    for _ in range(2):
        ladder.submit(scoring(0.5))
    with pytest.raises(BudgetExhaustedError, match="submissions=2"):
        ladder.submit(scoring(0.5))


def test_certificate_counts_the_transcripts():
    ladder = board()
    assert isinstance(ladder.certificate.guarantee, FiniteRange)
    # C(50 + 10, 10) transcripts.
    assert ladder.certificate.guarantee.size == 75_394_027_566
    recheck(ladder.accuracy)
    assert ladder.accuracy.proved
    assert board(improvements=3).error_at_most < ladder.error_at_most
    assert board(submissions=5000).error_at_most > ladder.error_at_most


def test_other_metrics_and_units():
    units = np.arange(N) // 2
    ladder = Ladder(
        np.linspace(0, 1, N),
        metric=lambda y, p: 1 - np.abs(y - p),
        step=0.05,
        units=units,
    )
    assert ladder.submit(np.full(N, 0.5)) == 0.75
    assert ladder.certificate.relation.n == N // 2


def test_state_survives_in_a_ledger(tmp_path):
    def opened(**changes):
        ledger = SQLLedger(f"sqlite:///{tmp_path / 'board.db'}")
        try:
            return ledger, board(**changes, ledger=ledger, name="final")
        except LedgerError:
            ledger.close()
            raise

    for step, name in ((0.1, "fixed"), (None, "free")):
        ledger = SQLLedger(f"sqlite:///{tmp_path / name}.db")
        ladder = board(step=step, ledger=ledger, name=name)
        ladder.submit(scoring(0.5))
        ladder.submit(scoring(0.7))
        ledger.close()
        ledger = SQLLedger(f"sqlite:///{tmp_path / name}.db")
        again = board(step=step, ledger=ledger, name=name)
        assert (again.best, again.leader, again.submissions_left) == (0.7, 2, 48)
        assert again.submit(scoring(0.75)) == (0.75 if step is None else 0.7)
        ledger.close()
    opened()[0].close()
    with pytest.raises(LedgerError, match="other data or parameters"):
        opened(step=0.2)


def test_bad_input_is_refused():
    with pytest.raises(InvalidParameterError, match="step"):
        board(step=0.0)
    with pytest.raises(InvalidParameterError, match="submissions"):
        board(submissions=0)
    with pytest.raises(InvalidParameterError, match="confidence"):
        board(confidence=float("nan"))
    ladder = board()
    with pytest.raises(InvalidDataError, match="n_rows=1000"):
        ladder.submit(LABELS[:10])
    assert ladder.submissions_left == 50
    assert copy.deepcopy(ladder) is ladder
    with pytest.raises(InvalidParameterError, match="Ladder"):
        pickle.dumps(ladder)
