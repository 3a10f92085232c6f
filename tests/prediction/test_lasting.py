"""Lasting answers: one total, durable questions, memory, several workers (P10)."""

import math
import os
import shutil
import threading

import numpy as np
import pytest

from reticent.errors import (
    BudgetExhaustedError,
    InvalidParameterError,
    LedgerError,
    NotDeployableError,
)
from reticent.guarantees import Budget
from reticent.ledger import (
    AccountId,
    AccountScope,
    Cap,
    Charge,
    MemoryLedger,
    RecordLog,
    SQLLedger,
)
from reticent.mechanisms import SeededSource
from reticent.mechanisms.individual import FULL
from reticent.prediction import (
    LastingInterface,
    PredictionInterface,
    PrivateNeighborsClassifier,
    SnapshotFile,
    begin_log,
    charge_total,
    log_account,
)
from reticent.prediction.lasting import histories as states
from reticent.prediction.lasting import state
from reticent.prediction.lasting.memory import QuestionIndex
from reticent.prediction.lasting.records import (
    REPLAY,
    QuestionRecord,
    most_rows,
    row_type,
)
from reticent.prediction.neighbors import votes
from reticent.prediction.neighbors.votes import SHELLS
from reticent.signing import HMACSigner
from tests.prediction.lasting_toy import toy_law, toy_predictor

SIGNER = HMACSigner(bytes(range(32)))


@pytest.fixture(autouse=True)
def no_history(monkeypatch):
    """Let one process play several, as after a restart."""
    monkeypatch.setattr(states, "_histories", {})


def fitted_predictor():
    """A predictor whose total is (1, 1e-6), which no rounding changes."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (300, 2))
    model = PrivateNeighborsClassifier(1.0, classes=[0, 1], local="always")
    return model.fit(X, (X[:, 0] > 0).astype(int))


def spent(interface):
    return interface._answers._state.spending.spent


def replayed(law, ledger):
    """What units have spent according to the log alone."""
    log = RecordLog(ledger, f"lasting-{law.identity}", log_account(law.identity))
    spending = law.start()
    for number in range(1, len(log)):
        record = QuestionRecord.from_bytes(log.read(number))
        for client, rows in record.by_client():
            law.replay(rows["codes"], rows["trace"], spending, client)
    return spending.spent


def test_any_number_of_answers_costs_the_total_once():
    model = toy_predictor()
    interface = LastingInterface(model)
    before = interface.ledger.balance(AccountId(AccountScope.DATASET, "data")).spent
    answers = interface.predict(np.arange(300)[:, None] % 50)
    assert set(answers) <= {"no", "yes"}
    after = interface.ledger.balance(AccountId(AccountScope.DATASET, "data")).spent
    assert before == after
    assert interface.capacity == interface.remaining() == math.inf
    assert interface.spent() is interface.spent(client="a") is model.law_.certificate
    interface.ledger.verify()


def test_a_question_asked_before_has_the_same_answer_and_costs_nothing():
    interface = LastingInterface(toy_predictor())
    rows = np.array([[3], [40], [3], [25]])
    first = interface.ask(rows)
    assert first.n_new == 3
    assert first.evidence[0] == first.evidence[2]
    cost = spent(interface).copy()
    again = interface.ask(rows[::-1], client="somebody else")
    assert again.n_new == 0
    assert again.answers.tolist() == first.answers[::-1].tolist()
    assert again.evidence.tolist() == first.evidence[::-1].tolist()
    assert np.array_equal(spent(interface), cost)
    assert first.abstains(below=1e9).all()
    with pytest.raises(InvalidParameterError, match="below"):
        first.abstains(below=math.nan)


def test_the_state_is_what_the_log_replays_to():
    model = toy_predictor()
    interface = LastingInterface(model)
    for place in range(20):
        interface.predict([[place], [place + 7]], client=f"c{place % 3}")
    assert spent(interface).any()
    assert np.array_equal(spent(interface), replayed(model.law_, interface.ledger))


def test_no_rows_is_no_question():
    reply = LastingInterface(toy_predictor()).ask(np.empty((0, 1)))
    assert len(reply.answers) == reply.n_new == 0


def test_two_workers_share_one_state_and_one_memory(tmp_path):
    model = toy_predictor()
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with SQLLedger(url) as one, SQLLedger(url) as two:
        first, second = LastingInterface(model, one), LastingInterface(model, two)
        told = first.ask([[1], [2]])
        # The second has not read that record; its own draw is discarded unseen.
        reply = second.ask([[2], [1], [9]])
        assert reply.evidence.tolist()[:2] == told.evidence.tolist()[::-1]
        assert reply.n_new == 1
        first.ask([[30]])
        assert np.array_equal(spent(first), replayed(model.law_, two))
        one.verify()


def test_a_draw_that_was_overtaken_is_never_shown_or_charged():
    model = toy_predictor()
    ledger = MemoryLedger()
    slow, quick = LastingInterface(model, ledger), LastingInterface(model, ledger)
    ask, drawn = model.law_.ask, []

    class Interrupted(type(model.law_)):
        def ask(self, codes, spending, client=None):
            if not drawn:
                drawn.append(None)
                quick.predict([[5]])
            drawn.append(ask(codes, spending, client))
            return drawn[-1]

    object.__setattr__(slow._answers, "law", Interrupted(**vars(model.law_)))
    reply = slow.ask([[5], [6]])
    assert len(drawn) == 3
    assert reply.n_new == 1
    assert reply.evidence[0] == quick.ask([[5]]).evidence[0]
    assert np.array_equal(spent(slow), replayed(model.law_, ledger))


def test_threads_that_wait_share_one_record():
    interface = LastingInterface(toy_predictor())
    answers = interface._answers
    replies = {}

    def ask(place):
        replies[place] = interface.ask([[place], [place + 1]], client=f"c{place}")

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(0, 24, 2)]
    with answers._answering:  # somebody is being answered while all of these come
        for thread in threads:
            thread.start()
        while len(answers._waiting) < len(threads):
            pass
    for thread in threads:
        thread.join()
    assert answers.n_records == 1
    assert sum(reply.n_new for reply in replies.values()) == 24
    for place, reply in replies.items():
        assert interface.ask([[place]]).evidence[0] == reply.evidence[0]


def test_more_rows_than_a_record_holds_are_several_records():
    interface = LastingInterface(toy_predictor())
    most = most_rows(1, 2)
    rows = np.arange(most + 5)[:, None] - 20_000  # far from all units
    reply = interface.ask(rows)
    assert reply.n_new == len(reply.answers) == most + 5
    assert interface._answers.n_records == 2
    again = interface.ask(rows[-7:])
    assert again.evidence.tolist() == reply.evidence[-7:].tolist()


def test_a_failed_draw_is_told_to_all_who_wait_and_charges_nobody(monkeypatch):
    model = toy_predictor()
    interface = LastingInterface(model)
    monkeypatch.setattr(
        type(model.law_), "_noise", lambda self: (_ for _ in ()).throw(OSError("gone"))
    )
    with pytest.raises(OSError, match="gone"):
        interface.ask([[1]])
    assert not spent(interface).any()
    assert interface._answers.n_records == 0


@pytest.mark.parametrize("kept", [False, True])
def test_a_restart_goes_on_where_the_log_ends(tmp_path, kept, monkeypatch):
    model = toy_predictor()
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    place = SnapshotFile(tmp_path / "state", SIGNER) if kept else None
    with SQLLedger(url) as ledger:
        interface = LastingInterface(model, ledger, snapshots=place)
        told = interface.ask(np.arange(40)[:, None])
        for number in range(100):  # more than are read one by one
            interface.ask([[number + 100]])
        cost = spent(interface).copy()
        interface.close()
    replays = []
    replay = type(model.law_).replay
    monkeypatch.setattr(
        type(model.law_), "replay", lambda *args: replays.append(replay(*args))
    )
    with SQLLedger(url) as ledger:
        interface = LastingInterface(model, ledger, snapshots=place)
        assert len(replays) == (0 if kept else 101)
        assert np.array_equal(spent(interface), cost)
        again = interface.ask(np.arange(40)[:, None])
        assert again.n_new == 0
        assert again.evidence.tolist() == told.evidence.tolist()


def test_an_older_snapshot_only_takes_longer(tmp_path):
    model = toy_predictor()
    ledger, file = MemoryLedger(), tmp_path / "state"
    interface = LastingInterface(model, ledger, snapshots=SnapshotFile(file, SIGNER))
    interface.ask([[1]])
    interface.close()
    old = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    interface.ask([[2]])
    interface.close()
    file.write_bytes(old)
    again = LastingInterface(model, ledger, snapshots=SnapshotFile(file, SIGNER))
    assert np.array_equal(spent(again), spent(interface))
    assert again.ask([[1], [2]]).n_new == 0


def test_snapshots_are_taken_while_answering(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "_SECONDS", 0.0)
    monkeypatch.setattr(state, "_TIMES", 0.0)
    file = tmp_path / "state"
    interface = LastingInterface(toy_predictor(), snapshots=SnapshotFile(file, SIGNER))
    interface.ask([[1]])
    assert SnapshotFile(file, SIGNER).read().version == 2
    # One of an earlier version is not read; everything is replayed instead.
    former = file.read_bytes().replace(b"snapshot 2", b"snapshot 1", 1)
    file.write_bytes(former)
    assert SnapshotFile(file, SIGNER).read() is None
    file.unlink()
    os.rmdir(tmp_path)  # a place that cannot be written does not stop answers
    assert interface.ask([[2]]).n_new == 1


def test_a_rolled_back_ledger_is_refused_by_the_snapshot(tmp_path, monkeypatch):
    model = toy_predictor()
    file = SnapshotFile(tmp_path / "state", SIGNER)
    path = tmp_path / "ledger.db"
    url = f"sqlite:///{path}"
    with SQLLedger(url) as ledger:
        LastingInterface(model, ledger).ask([[1]])
    old = path.read_bytes()
    with SQLLedger(url) as ledger:
        interface = LastingInterface(model, ledger, snapshots=file)
        interface.ask([[2]])
        interface.close()
    path.write_bytes(old)
    monkeypatch.setattr(states, "_newest", {})  # as in a process that starts
    with SQLLedger(url) as ledger:
        with pytest.raises(LedgerError, match="older than"):
            LastingInterface(model, ledger, snapshots=file)
        # Another process answers without the snapshot: the log grows, along another
        # history.
        monkeypatch.setattr(states, "_newest", {})
        LastingInterface(model, ledger).ask([[3]])
        with pytest.raises(LedgerError, match="older than"):
            LastingInterface(model, ledger, snapshots=file)


def test_a_ledger_replaced_under_a_worker_is_refused_when_it_reads(tmp_path):
    model = toy_predictor()
    ledger = MemoryLedger()
    interface = LastingInterface(model, ledger)
    interface.ask([[1]])
    other = LastingInterface(model, ledger)
    other._answers._state._mark = bytes(16)  # as if it had read another record 1
    interface.ask([[2]])
    with pytest.raises(LedgerError, match="does not follow"):
        other.ask([[3]])


@pytest.mark.parametrize("place", range(0, 400, 37))
def test_a_changed_snapshot_is_refused(tmp_path, place):
    model, ledger, path = toy_predictor(), MemoryLedger(), tmp_path / "state"
    interface = LastingInterface(model, ledger, snapshots=SnapshotFile(path, SIGNER))
    interface.ask([[1]])
    interface.close()
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(bytes(content))
    with pytest.raises(LedgerError, match="snapshot"):
        LastingInterface(model, ledger, snapshots=SnapshotFile(path, SIGNER))


def test_foreign_snapshots_are_refused(tmp_path):
    path = tmp_path / "state"
    file = SnapshotFile(path, SIGNER)
    interface = LastingInterface(toy_predictor(), snapshots=file)
    interface.ask([[1]])
    interface.close()
    with pytest.raises(LedgerError, match="another model"):
        LastingInterface(toy_predictor(), snapshots=file)
    with pytest.raises(LedgerError, match="another key"):
        SnapshotFile(path, HMACSigner(bytes(32))).read()
    path.chmod(0o644)
    with pytest.raises(LedgerError, match="others"):
        file.read()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LedgerError, match="cannot be read"):
        file.read()


def test_a_model_has_one_log():
    model = toy_predictor()
    LastingInterface(model, MemoryLedger()).ask([[1]])
    with pytest.raises(NotDeployableError, match="Two logs"):
        LastingInterface(model, MemoryLedger())


def test_a_log_that_another_process_began_elsewhere_is_refused(monkeypatch):
    model, elsewhere = toy_predictor(), MemoryLedger()
    LastingInterface(model, elsewhere).ask([[1]])
    monkeypatch.setattr(states, "_histories", {})
    LastingInterface(model, MemoryLedger()).ask([[1]])
    with pytest.raises(NotDeployableError, match="Two logs"):
        LastingInterface(model, elsewhere)


def test_a_ledger_without_the_total_is_refused():
    from reticent.prediction import LastingAnswers

    with pytest.raises(NotDeployableError, match="never charged"):
        LastingAnswers(toy_law(), MemoryLedger(), paid="/lasting/x")


def test_a_seeded_model_is_refused():
    law = toy_law(source=SeededSource(3))
    from reticent.prediction import LastingAnswers

    with pytest.raises(NotDeployableError, match="random_state"):
        LastingAnswers(law, MemoryLedger(), paid="/lasting/x")


def test_a_written_off_ledger_answers_no_more(tmp_path):
    model = toy_predictor()
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with SQLLedger(url) as ledger:
        LastingInterface(model, ledger).ask([[1]])
    SQLLedger.write_off(url, reason="restored from an old copy")
    with SQLLedger(url) as ledger, pytest.raises(BudgetExhaustedError, match="off"):
        LastingInterface(model, ledger)


def test_the_budget_of_the_dataset_must_cover_the_total():
    with pytest.raises(BudgetExhaustedError):
        LastingInterface(toy_predictor(), budget=Budget(0.5, 1e-6))


def test_a_prediction_interface_answers_without_end_too():
    model = toy_predictor()
    interface = PredictionInterface(model, Budget(10.0, 1e-5))
    assert interface.capacity == interface.remaining() == math.inf
    answers = interface.predict([[1], [2]], client="a", key="k")
    lasting = LastingInterface(model)
    assert lasting.predict([[1], [2]]).tolist() == answers.tolist()
    assert interface.spent() is model.law_.certificate
    with pytest.raises(InvalidParameterError, match="client_budget"):
        PredictionInterface(model, Budget(10.0, 1e-5), client_budget=Budget(1.0))


def test_other_predictors_are_sent_to_the_other_interface():
    from sklearn.linear_model import LogisticRegression

    from reticent.prediction import PrivateVotingClassifier

    model = PrivateVotingClassifier(LogisticRegression(), classes=[0, 1], n_shards=2)
    model.fit([[0.0], [1.0]] * 4, [0, 1] * 4)
    with pytest.raises(InvalidParameterError, match="PredictionInterface"):
        LastingInterface(model)


def test_a_fork_and_a_pickle_are_refused():
    import pickle

    interface = LastingInterface(toy_predictor())
    with pytest.raises(InvalidParameterError, match="pickled"):
        pickle.dumps(interface._answers)
    interface._answers._process += 1
    with pytest.raises(NotDeployableError, match="forked"):
        interface.ask([[1]])


def test_the_index_finds_every_question_with_sixteen_bytes_each():
    index = QuestionIndex()
    codes = np.arange(20_000, dtype=np.int16)[:, None]
    for record, start in enumerate(range(0, 20_000, 100)):
        index.add(codes[start : start + 100], record)
    assert len(index) == 20_000
    keys, places = index.packed()
    assert keys.nbytes + places.nbytes == 16 * 20_000
    for again in (index, QuestionIndex(keys, places)):
        assert again.find(codes[12_345]) == (123, 45)
        assert again.find(np.array([-7], np.int16)) is None
    index.add(codes[:1], 999)
    assert index.find(codes[0]) == (0, 0)


def test_two_questions_with_one_hash_are_not_confused(monkeypatch):
    from reticent.prediction.lasting import memory

    monkeypatch.setattr(memory, "_hash", lambda codes: 7)
    interface = LastingInterface(toy_predictor())
    first = interface.ask([[1]])
    assert interface.ask([[2]]).n_new == 1
    assert interface.ask([[1]]).evidence == first.evidence


def test_records_of_another_form_are_refused():
    record = QuestionRecord.after(bytes(16), [("a", 1)], np.zeros(1, row_type(2, 3)))
    content = record.to_bytes()
    assert QuestionRecord.from_bytes(content).asked == (("a", 1),)
    for broken in (content[:-1], content[:30], content[:36] + b"x", content + content):
        with pytest.raises(LedgerError, match="another form"):
            QuestionRecord.from_bytes(broken)


def test_a_full_record_fits_into_the_ledger():
    for n_columns, n_labels in ((1, 0), (20, 2), (1000, 7), (3, 300), (1, 60_000)):
        count = most_rows(n_columns, n_labels)
        asked = [("c" * 64, 1)] * count
        rows = np.zeros(count, row_type(n_columns, 5 + n_labels))
        assert len(QuestionRecord.after(bytes(16), asked, rows).to_bytes()) <= 2**20


def test_the_history_of_evidence_is_bounded_and_survives(tmp_path):
    file = SnapshotFile(tmp_path / "state", SIGNER)
    model, ledger = toy_predictor(), MemoryLedger()
    interface = LastingInterface(model, ledger, snapshots=file)
    assert interface._answers.evidence() == []
    told = interface.ask(np.arange(1000)[:, None]).evidence
    points = interface._answers.evidence()
    assert 32 <= len(points) <= 64
    assert (points[0].first, points[-1].last) == (1, 1000)
    whole = sum(p.evidence * (p.last - p.first + 1) for p in points)
    assert whole == pytest.approx(told.sum())
    interface.close()
    again = LastingInterface(model, ledger, snapshots=file)
    assert again._answers.evidence() == points


def test_a_client_with_a_share_cannot_wear_a_region_out_alone():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (400, 2))
    model = PrivateNeighborsClassifier(
        2.0, delta=1e-5, classes=[0, 1], client_share=0.25, local="always"
    )
    model.fit(X, (X[:, 0] > 0).astype(int))
    interface = LastingInterface(model)
    start = spent(interface).astype(np.int64)
    rows = rng.uniform(-1, 1, (300, 2))
    interface.ask(rows, client="greedy")
    caused = spent(interface) - start
    assert caused.max() > 0
    # Costs are rounded up, by less than a step in each of two rounds per question.
    assert caused.max() <= FULL / 4 + 2 * len(rows)
    interface.ask(rows + 1e-2, client="another")
    assert np.array_equal(spent(interface), replayed(model.law_, interface.ledger))


@pytest.mark.parametrize("client", [None, 7, "", "a\nb", b"a"])
def test_a_client_without_a_name_is_refused(client):
    """A record would name it otherwise, and replay would charge another account."""
    interface = LastingInterface(toy_predictor())
    with pytest.raises(InvalidParameterError, match="name="):
        interface.ask([[1]], client=client)


def test_a_record_without_the_name_of_a_client_is_refused():
    rows = np.zeros(1, dtype=row_type(1, 1))
    for client in (None, 7):
        content = QuestionRecord.after(bytes(16), [(client, 1)], rows).to_bytes()
        with pytest.raises(LedgerError, match="another form"):
            QuestionRecord.from_bytes(content)


@pytest.mark.parametrize("kind", ["memory", "inherited", "SQLite"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks with threads
def test_a_copy_of_the_process_begins_no_log(kind, tmp_path):
    """The other copies would know nothing of it, and spend the units again."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (300, 2))
    model = PrivateNeighborsClassifier(1.0, classes=[0, 1], local="always")
    model.fit(X, (X[:, 0] > 0).astype(int))
    inherited = MemoryLedger()
    if kind == "inherited":
        LastingInterface(model, inherited).ask(X[:1])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if kind == "SQLite":
                ledger = SQLLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
            else:
                ledger = inherited if kind == "inherited" else MemoryLedger()
            LastingInterface(model, ledger).ask(X[:1])
        except (NotDeployableError, LedgerError) as refusal:
            code = 0 if "forked" in str(refusal) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks with threads
def test_a_copy_of_the_process_continues_a_shared_log(tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    model = toy_predictor()
    states.fitted_here(model.law_.identity)
    with SQLLedger(url) as ledger:
        LastingInterface(model, ledger).ask([[1]])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with SQLLedger(url) as ledger:
                code = int(LastingInterface(model, ledger).ask([[1], [2]]).n_new != 1)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_budget_below_the_total_is_never_printed():
    """Also where the total was charged before."""
    model, ledger = toy_predictor(), MemoryLedger()
    LastingInterface(model, ledger)
    with pytest.raises(BudgetExhaustedError, match="does not cover"):
        LastingInterface(model, ledger, budget=Budget(0.1, 1e-9))
    large = Budget(100.0, 1e-2)
    assert LastingInterface(model, ledger, budget=large).budget == large


def test_of_two_threads_on_two_ledgers_the_refused_one_begins_no_log(monkeypatch):
    """Another process could continue it, and spend the units again."""
    model, ledgers, refused = toy_predictor(), (MemoryLedger(), MemoryLedger()), []
    arrived, post = threading.Event(), RecordLog.post

    class Watched:
        """A lock that says when somebody waits for it."""

        def __init__(self):
            self.lock = threading.RLock()

        def __enter__(self):
            if not self.lock.acquire(blocking=False):
                arrived.set()
                self.lock.acquire()

        def __exit__(self, *_):
            self.lock.release()

    def open_second():
        try:
            LastingInterface(model, ledgers[1])
        except NotDeployableError as error:
            refused.append(str(error))
        finally:
            arrived.set()

    second = threading.Thread(target=open_second)

    def overtaken(self, index, record):
        if second.ident is None:  # the first thread is about to begin the log
            second.start()
            assert arrived.wait(60)
        return post(self, index, record)

    monkeypatch.setattr(states, "_opening_log", Watched())
    monkeypatch.setattr(RecordLog, "post", overtaken)
    LastingInterface(model, ledgers[0]).ask([[1]])
    second.join()
    assert ["Two logs" in each for each in refused] == [True]
    logs = [states._log_of(model.law_, ledger) for ledger in ledgers]
    assert [len(log) for log in logs] == [2, 0]


def test_a_fork_waits_for_no_lock_of_another_thread():
    """Who held it does not exist in the copy."""
    held = states._opening_log, states._lock
    states._renew_after_fork()
    assert states._opening_log is not held[0]
    assert states._lock is not held[1]


@pytest.mark.parametrize("grown", [False, True])
def test_an_older_copy_that_is_put_back_is_refused_by_who_knows_more(
    tmp_path, monkeypatch, grown
):
    model, path = toy_predictor(), tmp_path / "ledger.db"
    url = f"sqlite:///{path}"
    with SQLLedger(url) as ledger:
        LastingInterface(model, ledger).ask([[1]])
    old = path.read_bytes()
    with SQLLedger(url) as ledger:
        LastingInterface(model, ledger).ask([[2]])
    newest = path.read_bytes()
    path.write_bytes(old)
    if grown:  # another process has answered from the copy
        with monkeypatch.context() as patch, SQLLedger(url) as ledger:
            patch.setattr(states, "_newest", {})
            elsewhere = LastingInterface(model, ledger)
            elsewhere.ask([[3]])
            elsewhere.ask([[4]])
    with SQLLedger(url) as ledger:
        for _ in range(2):
            with pytest.raises(LedgerError, match="older than"):
                LastingInterface(model, ledger)
    path.write_bytes(newest)
    with SQLLedger(url) as ledger:
        assert LastingInterface(model, ledger).ask([[1], [2]]).n_new == 0


def test_an_older_copy_is_refused_by_who_reads_on(tmp_path):
    """A worker of the same process knows more."""
    model, path, other = toy_predictor(), tmp_path / "ledger.db", tmp_path / "copy.db"
    with SQLLedger(f"sqlite:///{path}") as ledger:
        LastingInterface(model, ledger).ask([[1]])
    shutil.copy(path, other)
    urls = (f"sqlite:///{path}", f"sqlite:///{other}")
    with SQLLedger(urls[0]) as ledger, SQLLedger(urls[1]) as copy:
        behind = LastingInterface(model, copy)
        LastingInterface(model, ledger).ask([[2]])
        with pytest.raises(LedgerError, match="older than"):
            behind._answers.evidence()


DATA, PEOPLE = AccountId(AccountScope.DATASET, "data"), "people"


ROWS = {toy_predictor: [[1], [2]], fitted_predictor: [[0.1, 0.2], [0.3, 0.4]]}


@pytest.mark.parametrize("make", [toy_predictor, fitted_predictor])
def test_a_second_interface_names_the_dataset_that_paid(make):
    model, ledger = make(), MemoryLedger()
    LastingInterface(model, ledger, dataset="scratch")
    before = [str(balance) for balance in ledger.balances()]
    total = model.law_.certificate.guarantee
    with pytest.raises(InvalidParameterError, match="'people' did not pay"):
        LastingInterface(model, ledger, dataset=PEOPLE)
    for budget in (Budget(total.epsilon, total.delta), Budget(50.0, 1e-2)):
        with pytest.raises(InvalidParameterError, match="'people' did not pay"):
            LastingInterface(model, ledger, dataset=PEOPLE, budget=budget)
        with pytest.raises(InvalidParameterError, match="'data' did not pay"):
            PredictionInterface(model, budget, ledger)
    assert [str(balance) for balance in ledger.balances()] == before
    for facts in ({}, {"dataset": "scratch"}):
        assert (
            len(LastingInterface(model, ledger, **facts).ask(ROWS[make]).answers) == 2
        )


@pytest.mark.parametrize("make", [toy_predictor, fitted_predictor])
def test_a_second_interface_has_the_budget_of_the_account(make):
    """As one whose answers are paid one by one."""
    model, ledger, large = make(), MemoryLedger(), Budget(30.0, 1e-3)
    total = model.law_.certificate.guarantee
    exact = Budget(total.epsilon, total.delta)
    PredictionInterface(model, large, ledger)
    for other in (exact, Budget(20.0, 1e-3), Budget(31.0, 1e-3), Budget(30.0, 1e-2)):
        for facts in ({}, {"dataset": "data"}):
            with pytest.raises(InvalidParameterError, match="has a budget already"):
                LastingInterface(model, ledger, budget=other, **facts)
        with pytest.raises(InvalidParameterError, match="has a budget already"):
            PredictionInterface(model, other, ledger)
    assert PredictionInterface(model, large, ledger).budget == large
    assert LastingInterface(model, ledger, budget=large).budget == large
    # None is the model's own total, which a larger account covers as well.
    assert LastingInterface(model, ledger).budget == exact


def test_the_budget_of_the_account_is_the_one_that_it_has_now():
    model, ledger = toy_predictor(), MemoryLedger()
    total = model.law_.certificate.guarantee
    first, second = Budget(30.0, 1e-3), Budget(40.0, 1e-3)
    LastingInterface(model, ledger, budget=first)
    ledger.set_cap(DATA, Cap.within(second))
    with pytest.raises(InvalidParameterError, match="has a budget already"):
        LastingInterface(model, ledger, budget=first)
    assert LastingInterface(model, ledger, budget=second).budget == second
    # Lowered below what is spent: no model can be charged, and this one was.
    ledger.set_cap(DATA, Cap.within(Budget(total.epsilon / 2, 1e-3)))
    assert LastingInterface(model, ledger, budget=second).budget == second
    with pytest.raises(BudgetExhaustedError, match="does not cover"):
        LastingInterface(model, ledger, budget=Budget(total.epsilon / 2, 1e-3))
    LastingInterface(model, ledger)


@pytest.mark.parametrize("make", [toy_predictor, fitted_predictor])
def test_the_exact_total_opens_an_account_and_opens_it_again(make, tmp_path):
    """Also where the last unit is rounded, and the account is for this one charge."""
    model = make()
    total = model.law_.certificate.guarantee
    exact = Budget(total.epsilon, total.delta)
    for budget in (None, exact):
        for _ in range(2):
            with SQLLedger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
                found = LastingInterface(model, ledger, budget=budget)
                assert found.budget == exact


def test_a_refused_ledger_is_charged_nothing():
    model, other = toy_predictor(), MemoryLedger()
    LastingInterface(model, MemoryLedger())
    with pytest.raises(NotDeployableError, match="Two logs"):
        LastingInterface(model, other)
    assert other.balances() == []


def opened_by(model, replay):
    """A ledger whose log was opened by a version that charges by other rules."""
    ledger, law = MemoryLedger(), model.law_
    charge = Charge.of(law.certificate)
    ledger.open_account(DATA, Cap.within(Budget(30.0, 1e-3)))
    charge_total(ledger, DATA, law.identity, charge)
    opening = states._opening(law)
    del opening["replay"]
    opening |= {} if replay is None else {"replay": replay}
    states._log_of(law, ledger).post(0, QuestionRecord.first(opening).to_bytes())
    return ledger


def test_a_log_of_other_rules_is_refused_instead_of_replayed():
    model = toy_predictor()
    ledger = opened_by(model, REPLAY + 1)
    with pytest.raises(LedgerError, match="by other rules"):
        LastingInterface(model, ledger)
    with pytest.raises(LedgerError, match="by other rules"):
        begin_log(model.law_, ledger)


def test_a_log_of_a_version_without_a_number_is_read():
    model = toy_predictor()
    ledger = opened_by(model, None)
    begin_log(model.law_, ledger)
    assert LastingInterface(model, ledger).ask([[1]]).n_new == 1
    assert LastingInterface(model, ledger).ask([[1]]).n_new == 0


def test_the_rules_of_a_replay_have_a_number():
    """Whoever changes one of these gives REPLAY another number, and this test."""
    rules = (SHELLS, votes.ONE, votes.LOUDEST, votes._QUIET, votes._CLIP)
    assert (REPLAY, *rules) == (1, (36, 70, 134, 256), 1024, 64, 128, 1.0)
    model = fitted_predictor()
    drawn = model.law_.ask(model.law_.encode([[0.1, 0.2]]), model.law_.start())
    assert drawn.trace.shape == (1, 5 + model.law_.votes.width)
