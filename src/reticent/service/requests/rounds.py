"""Requests for rows that arrive in one round of the event loop, read together.

Nearly all requests of a busy service begin like the one before them on their
connection, carry a key that was recognised a moment ago, and ask for a few ordinary
rows. What requests with one key for one model have in common is found out once per
round. Everything else goes the usual way, from its first byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from reticent._ids import random_name
from reticent.errors import ReticentError
from reticent.home import KeyRecord, ServedModel, client_account, request_key
from reticent.ledger import Outcome, Receipt, Request
from reticent.prediction import PaidAnswers
from reticent.service.answering import Answering, answers_singly
from reticent.service.requests.access import Access
from reticent.service.requests.direct_routes import (
    DirectAnswer,
    DirectRoute,
    DirectRoutes,
    Quick,
)
from reticent.service.requests.limits import Gate
from reticent.service.requests.problems import ProblemError

if TYPE_CHECKING:
    from reticent.service.network.repeats import Repeat

# Keys and paths whose requests are read in rounds.
_MOST_WAYS = 4096

#: Sends an answer that was waited for, or what is said about an error.
Reply: TypeAlias = Callable[["Repeat", DirectAnswer | Exception], None]


class Way:
    """A path and a key: how requests for the one with the other are answered."""

    __slots__ = ("lane", "names", "route")

    def __init__(self, route: DirectRoute, names: tuple[str, str | None]) -> None:
        self.route, self.names = route, names
        self.lane: Lane | None = None


class Lane:
    """What all requests of one client for one model have in common.

    Parameters
    ----------
    way : Way
        How they come.
    model : ServedModel
        What they ask.
    record : KeyRecord
        Who asks.
    quick : Quick
        Reads their rows and writes their answers.
    """

    def __init__(
        self, way: Way, model: ServedModel, record: KeyRecord, quick: Quick
    ) -> None:
        self.model, self.record, self.quick = model, record, quick
        self.client, self.form = record.client, model.form(record.client)
        self.payer = str(client_account(record.client))
        self.pattern = way.route.pattern
        self.log = _log_fields(self)
        # Answers since they were last counted.
        self.requests = self.drawn = self.remembered = 0


def _log_fields(lane: Lane) -> str:
    """Return what the log says of all requests of a lane, as fields of JSON."""
    fields = {
        "method": "POST",
        "route": lane.pattern,
        "status": 200,
        "code": "",
        "client": lane.client,
        "model": lane.model.name,
    }
    return json.dumps(fields, separators=(",", ":"))[1:-1]


class Tools(NamedTuple):
    """What rounds work with."""

    access: Access
    gate: Gate
    answering: Answering
    direct: DirectRoutes


class RequestRounds:
    """Reads the requests of each round, and answers them.

    Parameters
    ----------
    tools : Tools
        Who recognises, admits and answers.
    reply : callable
        Sends what a request became that was not answered at once.
    note : callable
        Takes a request that was answered, its lane, and what the log says about it.
    headers : callable
        Returns the headers of an answer with a request's id.
    """

    def __init__(
        self,
        tools: Tools,
        *,
        reply: Reply,
        note: Callable[[Repeat, Lane, str], None],
        headers: Callable[[str], bytes],
    ) -> None:
        self._access, self._gate, self._answering, self._direct = tools
        self._reply, self._note, self._headers = reply, note, headers
        self._ways: dict[tuple[str, bytes], Way] = {}
        self._waiting: list[Repeat] = []

    def way(self, scope: dict[str, Any]) -> Way | None:
        """Return how requests like this one are answered, None if not in rounds."""
        found = self._direct.find(scope["method"], scope["path"])
        if found is None or found[0].quick is None:
            return None
        try:
            known = scope["path"], self._access.mark(scope["headers"])
        except ProblemError:  # there is no key
            return None
        way = self._ways.get(known)
        if way is None:
            if len(self._ways) >= _MOST_WAYS:
                self._ways.clear()
            way = self._ways[known] = Way(found[0], found[1:])
        return way

    def take(self, repeat: Repeat) -> None:
        """Take a request: it is accepted in a moment, or goes the usual way."""
        if not self._waiting:
            repeat.loop.call_soon(self._read)
        self._waiting.append(repeat)

    def _read(self) -> None:
        """Answer the requests of this round."""
        waiting, self._waiting = self._waiting, []
        ways: dict[Way, list[Repeat]] = {}
        for repeat in waiting:
            if not repeat.gone:
                ways.setdefault(repeat.head.way, []).append(repeat)
        for way, repeats in ways.items():
            try:
                lane = self._lane(way, repeats[0])
                asked = [] if lane is None else self._asked(lane, repeats)
            except Exception:  # noqa: BLE001
                # A fault of ours; nothing is charged. The usual way says what fails.
                lane, asked = None, []
                for repeat in repeats:
                    repeat.lane = None
            if lane is not None and asked:
                self._gate.enter(lane.client, len(asked))
                self._answering.answer_all(lane.model, asked, self._found)
            for repeat in repeats:
                if repeat.lane is None:
                    repeat.as_usual()
                else:
                    repeat.accept()

    def _lane(self, way: Way, repeat: Repeat) -> Lane | None:
        """Return the lane of requests, None if they have to go the usual way.

        All of them carry the key that one of them carries.
        """
        try:
            record = self._access.seen(repeat.head.headers)
            if record is None:
                return None
            model = way.route.model(record, *way.names)
            lane = way.lane
            if lane is None or lane.model is not model or lane.record != record:
                if lane is not None and lane.model is not model:
                    self._let_go(lane.model)
                make = way.route.quick
                quick = make(model) if make and answers_singly(model) else None
                if quick is None:
                    return None
                lane = way.lane = Lane(way, model, record, quick)
        except (ProblemError, ReticentError):
            return None  # it is said the usual way
        return lane

    def _let_go(self, model: ServedModel) -> None:
        """Forget a model that was replaced: some keys never come back."""
        for way in self._ways.values():
            if way.lane is not None and way.lane.model is model:
                way.lane = None

    def _asked(self, lane: Lane, repeats: list[Repeat]) -> list[tuple[Request, Repeat]]:
        """Read the rows of requests; leave out those that go the usual way."""
        asked: list[tuple[Request, Repeat]] = []
        room, most = self._gate.room(lane.client), self._direct.most_bytes
        read, filled = lane.quick.rows, lane.form.filled
        for repeat in repeats:
            body, given = repeat.body, repeat.key
            if len(asked) >= room or len(body) > most:
                continue
            rows = read(body)
            if rows is None:
                continue
            name = None if given is None else given.decode("ascii")
            try:
                self._access.take_turn(lane.record)
                key = request_key(lane.client, name)
                # A key that we made occurs once; one that the client chose may return.
                request = filled(key, rows.queries(), record=name is not None)
            except (ProblemError, ReticentError):
                continue
            repeat.lane, repeat.table, repeat.request = lane, rows, request
            repeat.request_id = random_name()[:16]
            asked.append((request, repeat))
        return asked

    def _found(self, repeat: Repeat, found: Receipt | Exception) -> None:
        """Answer a request, or continue with what became of it."""
        lane: Lane = repeat.lane
        if isinstance(found, Exception):
            self._late(repeat, found)
        elif found.outcome is not Outcome.ANSWERED:
            # Another request with this key is being answered.
            self._answering.wait_then(
                lane.model,
                repeat.request,
                repeat,
                lambda late: self._late(repeat, late),
            )
        else:
            cost, answers = found.accounts.get(lane.payer), found.answers
            paid = 0 if cost is None else cost.answers
            left, sequence, name = found.answers_left, found.sequence, repeat.request_id
            try:
                body = lane.quick.body(answers, paid, left, sequence, name)
            except Exception as error:  # noqa: BLE001
                self._late(repeat, error)
                return
            self._gate.leave(lane.client)
            repeat.reply_when_read(200, self._headers(name), body)
            lane.requests += 1
            lane.drawn += repeat.drawn
            lane.remembered += len(answers) - repeat.drawn
            place = "null" if sequence is None else sequence
            self._note(
                repeat,
                lane,
                f'"request_id":"{name}",{lane.log},"rows":{len(answers)},'
                f'"paid":{paid},"sequence":{place}',
            )

    def _late(self, repeat: Repeat, answered: PaidAnswers | Exception) -> None:
        """Send an answer that was waited for, or what is said about an error."""
        lane: Lane = repeat.lane
        self._gate.leave(lane.client)
        outcome: dict[str, Any] = {"code": "", "client": lane.client}
        repeat.scope = {
            "method": "POST",
            "path": lane.pattern,
            "headers": repeat.head.headers,
            "reticent.request_id": repeat.request_id,
            "reticent.outcome": outcome,
            "reticent.route": lane.pattern,
            "reticent.known": True,
        }
        if isinstance(answered, Exception):
            self._reply(repeat, answered)
            return
        answers, paid, left = answered.answers, answered.paid, answered.left
        place, name = answered.sequence, repeat.request_id
        outcome |= {"model": lane.model.name, "rows": len(answers), "paid": paid}
        outcome["sequence"] = place
        body = lane.quick.body(answers, paid, left, place, name)
        self._reply(repeat, DirectAnswer(body))
