"""The engine: one end of one connection, without any I/O.

`send` takes what this side wants to say and gives the bytes to write. `receive` takes what came and
gives what it means: at most a few events, of which `Refused` may carry bytes to write back. In
between it keeps what the protocol needs to be remembered: the state of the session, the calls in
flight in both directions, and which progress belongs to whom. It never writes by itself and never
waits, so it fits any loop, or none:

    connection = Connection("client")
    write(connection.send(Request(connection.next_id(), "initialize", params)))
    for event in connection.receive(read_line()): ...

Held here and nowhere else: which message is allowed when (the tables of `lifecycle` and the gate),
which answer belongs to which request, what a cancellation does to both, how batches are answered.
What this side does wrong raises `LocalProtocolError` before anything is written; what the peer does
wrong becomes an event, never an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from mcpcore import codec, jsonrpc
from mcpcore import types as t
from mcpcore.errors import CapabilityMissing, LocalProtocolError
from mcpcore.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ErrorObject,
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
)
from mcpcore.protocol.agreement import Agreement
from mcpcore.protocol.calls import (
    BatchAnswer,
    IncomingCall,
    OutgoingCall,
    received_token,
    sent_token,
)
from mcpcore.protocol.events import (
    Cancel,
    Event,
    Failed,
    Forgiven,
    Progress,
    Refused,
    Sendable,
    Stale,
    Undelivered,
)
from mcpcore.protocol.framing import Abandoned, Decoded, Frame
from mcpcore.protocol.lifecycle import State, allows
from mcpcore.protocol.terms import (
    MARK,
    REVISION,
    Standing,
    Terms,
    Unacceptable,
    with_terms,
)
from mcpcore.revisions import HANDSHAKE, Revision, Role, lookup

_READY = State.READY
_TOKEN = b'"progressToken"'


class _Deviation(Exception):
    """Strict mode: the message at hand broke a rule."""

    def __init__(self, rule: str, detail: str) -> None:
        self.rule = rule
        self.detail = detail


class Connection:
    """One end of a connection: `role` says which.

    `revisions` are the names of those that this side speaks (default: all of the handshake era).
    `strict` refuses every deviation of the peer instead of reporting it as `Forgiven`.

    A server that speaks revisions of the stateless era has a `standing`, which it shares among all its
    connections: each request that belongs to no session is served by what it says of itself. A client
    `propose`s such a revision and, once it knows the server, `adopt`s it.
    """

    def __init__(
        self,
        role: Role,
        *,
        revisions: Sequence[str] = HANDSHAKE,
        strict: bool = False,
        standing: Standing | None = None,
    ) -> None:
        self.role: Role = role
        self.strict = strict
        self.revisions: tuple[Revision, ...] = lookup(revisions)
        handshake = tuple(row for row in self.revisions if row.era == "handshake")
        self._agreement = Agreement(role, handshake or self.revisions)
        self._shakes_hands = bool(handshake)
        self._standing = standing
        # A client's: what its requests say of themselves.
        self._terms: Terms | None = None
        self._terms_meta: dict[str, Any] = {}
        self._outgoing: dict[RequestId, OutgoingCall] = {}
        self._incoming: dict[RequestId, IncomingCall] = {}
        self._last_id = 0

    # What can be known from outside.

    @property
    def state(self) -> State:
        return self._agreement.state

    @property
    def revision(self) -> Revision | None:
        """The agreed revision; None before the answer to initialize."""
        return self._agreement.revision

    @property
    def peer(self) -> t.InitializeParams | t.InitializeResult | None:
        """What the peer said of itself in the handshake."""
        return self._agreement.peer

    @property
    def client_capabilities(self) -> t.ClientCapabilities:
        """What the client declared, as far as the agreed revision has it; nothing before."""
        return self._agreement.declared.client

    @property
    def in_flight(self) -> tuple[RequestId, ...]:
        """The ids of our requests that wait for an answer, oldest first."""
        return tuple(self._outgoing)

    def is_open(self, id: RequestId) -> bool:
        """Whether the peer's request `id` is still to be answered."""
        return id in self._incoming

    def next_id(self) -> int:
        """An id that this side never used before."""
        self._last_id += 1
        return self._last_id

    def adopt(self, revision: Revision, capabilities: t.ServerCapabilities) -> None:
        """Begin without a handshake: the server speaks `revision` and has `capabilities`.

        A server does that which keeps no sessions: of the client nothing is known, so nothing can be asked
        of it. A client does it with a revision that it proposed.
        """
        terms = self._terms
        client = terms.capabilities if terms is not None else t.ClientCapabilities()
        self._agreement.adopt(revision, capabilities, client)

    def propose(self, terms: Terms | None) -> None:
        """From now on a client's requests say these terms of themselves; with None they say nothing, and
        the handshake comes first.
        """
        self._terms = terms
        self._terms_meta = {} if terms is None else terms.meta()

    @property
    def own_terms(self) -> Terms | None:
        """What a client's requests say of themselves; None in the handshake era."""
        return self._terms

    def terms(self, id: RequestId) -> Terms | None:
        """What holds for the peer's request `id`; None if that is what was agreed in the handshake."""
        call = self._incoming.get(id)
        return call.terms if call is not None else None

    def wire_id(self, id: RequestId) -> RequestId:
        """What the peer calls its request `id`, which is open."""
        return self._incoming[id].id

    def lost(self) -> tuple[RequestId, ...]:
        """The channel ended. Gives the ids that will never be answered."""
        self._agreement.state = State.CLOSED
        unanswered = tuple(self._outgoing)
        self._outgoing.clear()
        self._incoming.clear()
        return unanswered

    # Sending.

    def send(self, event: Sendable, *, about: RequestId | None = None) -> bytes | None:
        """The bytes to write for `event`; None when there is nothing to write (any more).

        `about` is the peer's request on whose account a notification is sent. It need not be given where
        what was agreed in the handshake holds for both.

        There is nothing to write for an answer whose request was cancelled, for the cancellation of
        a call that is over, for progress of a request that is over, and for an answer in a batch
        while others of the batch are still open. Raises `LocalProtocolError` or `CapabilityMissing`
        for what this side must not send; nothing changes then.
        """
        if isinstance(event, Response):
            return self._send_answer(event)
        if isinstance(event, Request):
            return self._send_request(event)
        if isinstance(event, Notification):
            return self._send_notification(event, about)
        if isinstance(event, Progress):
            return self._send_progress(event)
        if isinstance(event, Cancel):
            return self._send_cancel(event)
        if isinstance(event, ErrorResponse):
            return self._send_answer(event)
        raise LocalProtocolError(f"{type(event).__name__} is only ever received")

    def _send_request(self, request: Request) -> bytes:
        if request.id in self._outgoing:
            raise LocalProtocolError(f"the id {request.id!r} is in use")
        if request.method == "initialize":
            return self._send_initialize(request)
        self._agreement.check_outbound(request.method, request=True)
        revision = self._agreement.writing
        if self._terms is not None:
            revision = self._terms.revision
            params = with_terms(request.params, self._terms_meta)
            request = msgspec.structs.replace(request, params=params)
        data = codec.encode(request, revision)
        self._outgoing[request.id] = OutgoingCall(request.method, sent_token(request.params))
        return data

    def _send_initialize(self, request: Request) -> bytes:
        revision = self._agreement.check_offer(request.params)
        data = codec.encode(request, revision)
        self._agreement.offered(request.params)
        self._outgoing[request.id] = OutgoingCall("initialize", sent_token(request.params))
        return data

    def _send_notification(self, notification: Notification, about: RequestId | None) -> bytes:
        method = notification.method
        if method == "notifications/progress" or (
            method == "notifications/cancelled" and not self._listens(about)
        ):
            raise LocalProtocolError(f"{method} is sent as Cancel or Progress")
        if method == "notifications/initialized":
            self._agreement.check_initialized()
            data = codec.encode(notification, self._agreement.writing)
            self._agreement.initialized()
            return data
        terms = self.terms(about) if about is not None else None
        if terms is None:
            self._agreement.check_outbound(method, request=False)
            return codec.encode(notification, self._agreement.writing)
        assert self._standing is not None
        verdict = self._standing.outbound(terms).judge(method, request=False)
        if verdict.missing is not None:
            raise CapabilityMissing(verdict.missing, method)
        if verdict.row is None and not verdict.unknown:
            raise LocalProtocolError(f"a server cannot send {method} in revision {terms.revision}")
        return codec.encode(notification, terms.revision)

    def _listens(self, id: RequestId | None) -> bool:
        """Whether it is a request of the peer that a server may end by a cancellation (CANC26-08)."""
        call = self._incoming.get(id) if id is not None else None
        return call is not None and call.method == "subscriptions/listen"

    def _send_answer(self, answer: Response | ErrorResponse) -> bytes | None:
        id = answer.id
        call = self._incoming.get(id) if id is not None else None
        if call is None or id is None:
            if self._agreement.state is State.CLOSED:
                return None
            raise LocalProtocolError(f"no request with the id {id!r} is open")
        data: bytes | None = None
        if call.method == "initialize":
            data = self._send_initialize_answer(answer)
        elif not call.cancelled:
            revision, result = self._agreement.writing, None
            if isinstance(answer, Response):
                result = answer.result
            if call.terms is not None:
                assert self._standing is not None
                revision = call.terms.revision
                result = codec.complete(result, revision, self._standing.stamp)
            if isinstance(answer, Response):
                data = codec.encode_result(call.id, result, revision)
            else:
                error = codec.fit_error(answer.error, revision)
                data = codec.encode(ErrorResponse(call.id, error), revision)
        del self._incoming[id]
        batch = call.batch
        if batch is None:
            return data
        if data is not None:
            batch.answers.append(data)
        batch.open -= 1
        return batch.result()

    def _send_initialize_answer(self, answer: Response | ErrorResponse) -> bytes:
        if isinstance(answer, ErrorResponse):
            data = codec.encode(answer, self._agreement.writing)
            self._agreement.refused()
            return data
        revision = self._agreement.check_answer(answer.result)
        data = codec.encode(answer, revision)
        self._agreement.answered(revision, answer.result)
        return data

    def _send_cancel(self, cancel: Cancel) -> bytes | None:
        call = self._outgoing.get(cancel.id)
        if call is None:
            return None
        if call.method == "initialize":
            raise LocalProtocolError("initialize cannot be cancelled; close the channel instead")
        params = t.CancelledParams(request_id=cancel.id, reason=cancel.reason)
        data = codec.encode(
            Notification("notifications/cancelled", params), self._agreement.writing
        )
        del self._outgoing[cancel.id]
        return data

    def _send_progress(self, progress: Progress) -> bytes | None:
        token, id = progress.token, progress.id
        if id is not None:
            call = self._incoming.get(id)
        else:
            call = next((call for call in self._incoming.values() if call.token == token), None)
        # A request without a token asked for no progress.
        if call is None or call.cancelled or token is None or type(call.token) is not type(token):
            return None
        if call.token != token:
            return None
        if call.progress is not None and progress.progress <= call.progress:
            raise LocalProtocolError(
                f"progress must grow: {progress.progress:g} after {call.progress:g}"
            )
        params = t.ProgressParams(
            progress_token=progress.token,
            progress=progress.progress,
            total=progress.total,
            message=progress.message,
        )
        revision = self._agreement.writing if call.terms is None else call.terms.revision
        data = codec.encode(Notification("notifications/progress", params), revision)
        call.progress = progress.progress
        return data

    # Receiving.

    def receive(self, frame: Frame) -> list[Event]:
        """What `frame`, one whole message without its line end, means. Never raises.

        Feed every frame in the order of its arrival, and act on the events in theirs.
        """
        if isinstance(frame, bytes):
            if not frame.startswith(b"{") and jsonrpc.is_batch(frame) and not self._takes_batches():
                return self._refuse_batch(frame)
            notes: list[str] = []
            message = jsonrpc.decode(frame, notes)
        elif isinstance(frame, Decoded):
            decoded, frame = frame, frame.frame
            message, notes = decoded.message, list(decoded.notes)
            if isinstance(message, jsonrpc.Batch) and not self._takes_batches():
                return self._refuse_batch(frame)
            if decoded.alone and isinstance(message, Request):
                return self._receive_alone(message, notes, frame, decoded.key)
        else:
            return self._receive_no_message(frame)
        if isinstance(message, Request):
            if not notes and self._opens_at_once(message, frame):
                return [message]
        elif isinstance(message, Response):
            call = self._outgoing.get(message.id)
            if call is not None and not notes and call.method != "initialize":
                # And nearly every frame of a busy client; the others go through `_receive_answer`.
                del self._outgoing[message.id]
                return [message]
        elif isinstance(message, jsonrpc.Batch):
            return self._receive_batch(message, frame)
        return self._receive_one(message, notes, frame, None)

    def _opens_at_once(self, request: Request, frame: bytes) -> bool:
        """Open what nearly every frame of a busy server is; False for what has to be looked at step by step,
        since something may speak against it.
        """
        id, terms = request.id, None
        if id in self._incoming:
            return False
        if self._standing is not None and frame.find(MARK) >= 0:
            terms = self._standing.at_once(request)
            if terms is None:
                return False
        else:
            agreement = self._agreement
            gate = agreement.inbound
            if agreement.state is not _READY or gate is None or request.method not in gate.open:
                return False
        token = received_token(request.params) if frame.find(_TOKEN) >= 0 else None
        self._incoming[id] = IncomingCall(id, request.method, token, None, terms)
        return True

    def _receive_no_message(self, frame: Malformed | Undelivered | Abandoned) -> list[Event]:
        if isinstance(frame, Undelivered):
            return self._receive_undelivered(frame)
        if isinstance(frame, Abandoned):
            return self._receive_abandoned(frame)
        return self._receive_malformed(frame, None, stray=frame.rule or "JRPC-18")

    def _receive_undelivered(self, failure: Undelivered) -> list[Event]:
        call = self._outgoing.pop(failure.id, None)
        if call is None:
            return []
        if call.method == "initialize":
            self._agreement.refused()
        return [failure]

    def _open_incoming(self, request: Request, frame: bytes, batch: BatchAnswer | None) -> None:
        token = received_token(request.params) if frame.find(_TOKEN) >= 0 else None
        self._incoming[request.id] = IncomingCall(request.id, request.method, token, batch)

    def _receive_abandoned(self, abandoned: Abandoned) -> list[Event]:
        call = self._incoming.get(abandoned.id)
        if call is None or call.cancelled:
            return []
        call.cancelled = True
        return [Cancel(abandoned.id, "the client went away")]

    def _receive_alone(
        self, request: Request, notes: Sequence[str], frame: bytes, key: RequestId | None = None
    ) -> list[Event]:
        """A request that says itself what holds for it."""
        assert self._standing is not None
        try:
            events: list[Event] = [self._forgive(rule, jsonrpc.excerpt(frame)) for rule in notes]
        except _Deviation as deviation:
            return [self._strictly(request, deviation, frame, None)]
        id = request.id if key is None else key
        if id in self._incoming:
            error = f"Invalid request: the id {id!r} is in use by a request that is still open"
            return [*events, self._refuse(id, INVALID_REQUEST, error, "JRPC26-05", frame, None)]
        terms = self._standing.judge(request)
        if isinstance(terms, Unacceptable):
            code, error, rule, data = terms.code, terms.error, terms.rule, terms.data
            return [*events, self._refuse(request.id, code, error, rule, frame, None, data)]
        token = received_token(request.params) if frame.find(_TOKEN) >= 0 else None
        self._incoming[id] = IncomingCall(request.id, request.method, token, None, terms)
        if key is not None:
            request = msgspec.structs.replace(request, id=key)
        return [*events, request]

    def _stands_alone(self, request: Request, frame: bytes) -> bool:
        """Whether a request belongs to no session. To initialize always asks for one, if there are any."""
        if not self._shakes_hands:
            return True
        assert self._standing is not None
        return request.method != "initialize" and self._standing.concerns(request, frame)

    def _receive_one(
        self,
        message: Message | Malformed,
        notes: Sequence[str],
        frame: bytes,
        batch: BatchAnswer | None,
    ) -> list[Event]:
        events: list[Event] = []
        try:
            if notes:
                events += [self._forgive(rule, jsonrpc.excerpt(frame)) for rule in notes]
            if isinstance(message, Request):
                self._receive_request(message, frame, batch, events)
            elif isinstance(message, Notification):
                self._receive_notification(message, events)
            elif isinstance(message, Malformed):
                events += self._receive_malformed(message, batch)
            else:
                self._receive_answer(message, events)
        except _Deviation as deviation:
            events.append(self._strictly(message, deviation, frame, batch))
        return events

    def _forgive(self, rule: str, detail: str) -> Forgiven:
        if self.strict:
            raise _Deviation(rule, detail)
        return Forgiven(rule, detail)

    def _strictly(
        self,
        message: Message | Malformed,
        deviation: _Deviation,
        frame: bytes,
        batch: BatchAnswer | None,
    ) -> Event:
        """In strict mode a deviation costs the message that holds it."""
        rule, detail = deviation.rule, deviation.detail
        if isinstance(message, Request):
            return self._refuse(message.id, INVALID_REQUEST, detail, rule, frame, batch)
        if isinstance(message, Response | ErrorResponse):
            id = self._match(message.id)
            if id is not None:
                return self._fail(id, detail, rule)
        return Refused(detail, jsonrpc.excerpt(frame), rule)

    def _fail(self, id: RequestId, error: str, rule: str) -> Failed:
        """The answer to a call of ours came and is of no use: the call is over."""
        if self._outgoing.pop(id).method == "initialize":
            self._agreement.refused()
        return Failed(id, error, rule)

    def _refuse(
        self,
        id: RequestId | None,
        code: int,
        error: str,
        rule: str,
        frame: bytes | str,
        batch: BatchAnswer | None,
        data: Any = UNSET,
    ) -> Refused:
        seen = frame if isinstance(frame, str) else jsonrpc.excerpt(frame)
        if self._terms is not None:
            # A client that speaks so never answers (JRPC26-19).
            return Refused(error, seen, rule)
        reply = jsonrpc.encode(ErrorResponse(id, ErrorObject(code, error, data)))
        if batch is not None:
            batch.answers.append(reply)
            return Refused(error, seen, rule)
        return Refused(error, seen, rule, reply)

    def _receive_malformed(
        self, bad: Malformed, batch: BatchAnswer | None, *, stray: str = "STDIO-04"
    ) -> list[Event]:
        """`stray` is the rule that a server breaks which says what is no message."""
        id = self._match(bad.id) if bad.answers or bad.either else None
        if id is not None:
            rule = "JRPC-08" if bad.either else bad.rule
            return [self._fail(id, bad.error.message, rule)]
        rule = bad.rule
        if bad.answers or bad.notifies:
            return [Refused(bad.error.message, bad.excerpt, rule)]
        if self.role == "client" and bad.id is None:
            # A server that prints on its stdout does not read error answers about it either.
            if self.strict:
                return [Refused(bad.error.message, bad.excerpt, stray)]
            return [Forgiven(stray, bad.excerpt)]
        return [self._refuse(bad.id, bad.error.code, bad.error.message, rule, bad.excerpt, batch)]

    def _takes_batches(self) -> bool:
        """Whether a batch is taken apart: where the revision has them, and by a client that forgives,
        since answers may be in it.
        """
        revision = self.revision
        legal = revision is not None and revision.batching
        return legal or (self.role == "client" and not self.strict)

    def _refuse_batch(self, frame: bytes) -> list[Event]:
        where = f"in revision {self.revision}" if self.revision else "before initialize"
        bad = jsonrpc.refuse_batch(frame, f"no batches {where}")
        rule = "JRPC-17" if bad.error.code == jsonrpc.PARSE_ERROR else "BATCH-10"
        return [self._refuse(None, bad.error.code, bad.error.message, rule, frame, None)]

    def _receive_batch(self, incoming: jsonrpc.Batch, frame: bytes) -> list[Event]:
        events: list[Event] = []
        batch: BatchAnswer | None = None
        revision = self.revision
        if revision is not None and revision.batching:
            batch = BatchAnswer()
        else:
            events.append(Forgiven("BATCH-10", jsonrpc.excerpt(frame)))
        for message, notes in incoming.members:
            events += self._receive_one(message, notes, frame, batch)
        reply = batch.result() if batch is not None else None
        if reply is not None:
            # Only refusals have been answered so far; the last of them carries the whole answer.
            last = max(i for i, event in enumerate(events) if isinstance(event, Refused))
            events[last] = msgspec.structs.replace(events[last], reply=reply)
        return events

    def _receive_request(
        self, request: Request, frame: bytes, batch: BatchAnswer | None, events: list[Event]
    ) -> None:
        if self._standing is not None and self._stands_alone(request, frame):
            if batch is not None:
                error = "Invalid request: no batches of requests that stand alone"
                rule = "JRPC26-21"
                events.append(self._refuse(request.id, INVALID_REQUEST, error, rule, frame, batch))
            else:
                events += self._receive_alone(request, (), frame)
            return
        id, method, state = request.id, request.method, self._agreement.state
        if id in self._incoming:
            error = f"Invalid request: the id {id!r} is in use by a request that is still open"
            events.append(self._refuse(id, INVALID_REQUEST, error, "JRPC-02", frame, batch))
            return
        if method == "initialize" and self.role == "server":
            refusal = self._receive_initialize(request, frame, batch, events)
            if refusal is not None:
                events.append(refusal)
                return
        elif state is not _READY and not allows(state, self._agreement.other, method):
            if state is not State.AGREED:
                events.append(self._refuse_before_initialize(request, frame, batch))
                return
            rule = "LIFE-05" if self.role == "server" else "LIFE-07"
            events.append(self._forgive(rule, f"{method} before notifications/initialized"))
        gate = self._agreement.inbound
        if gate is not None and method not in gate.open:
            verdict = gate.judge(method, request=True)
            if not verdict.open:
                error = f"Method not found: {method}"
                if verdict.missing:
                    error += f" (needs the capability {verdict.missing}, which was not declared)"
                rule = "CAP-01" if verdict.missing else "JRPC-16"
                events.append(self._refuse(id, METHOD_NOT_FOUND, error, rule, frame, batch))
                return
        self._open_incoming(request, frame, batch)
        if batch is not None:
            batch.open += 1
        events.append(request)

    def _refuse_before_initialize(
        self, request: Request, frame: bytes, batch: BatchAnswer | None
    ) -> Refused:
        """Neither a session nor terms of its own: where the request could have had them, that it has
        none makes its params invalid.
        """
        code, rule = INVALID_REQUEST, "LIFE-11"
        error = "Invalid request: the session is not initialized; initialize comes first"
        if self._standing is not None:
            code, rule = INVALID_PARAMS, "META26-04"
            error = f"The session is not initialized, and the request is without {REVISION} in its _meta"
        return self._refuse(request.id, code, error, rule, frame, batch)

    def _receive_initialize(
        self, request: Request, frame: bytes, batch: BatchAnswer | None, events: list[Event]
    ) -> Refused | None:
        if not self._agreement.can_receive_offer():
            error = "Invalid request: the session is initialized already"
            return self._refuse(request.id, INVALID_REQUEST, error, "LIFE-02", frame, batch)
        notes: list[codec.Note] = []
        try:
            peer = codec.decode(request.params, t.InitializeParams, notes)
        except msgspec.ValidationError as problem:
            error = f"Invalid params: {problem}"
            return self._refuse(request.id, INVALID_PARAMS, error, "LIFE-02", frame, batch)
        events += [self._forgive(note.rule, note.detail) for note in notes]
        self._agreement.received_offer(peer)
        return None

    def _receive_notification(self, notification: Notification, events: list[Event]) -> None:
        method, agreement = notification.method, self._agreement
        if method == "notifications/cancelled":
            events.append(self._receive_cancel(notification))
        elif method == "notifications/progress":
            self._receive_progress(notification, events)
        elif method == "notifications/initialized" and self.role == "server":
            if agreement.initialized():
                events.append(notification)
            else:
                events.append(Stale(f"{method} in state {agreement.state.value}"))
        elif not allows(agreement.state, agreement.other, method):
            if agreement.state is not State.AGREED:
                events.append(Stale(f"{method} in state {agreement.state.value}"))
                return
            rule = "LIFE-05" if self.role == "server" else "LIFE-07"
            detail = f"{method} before notifications/initialized"
            events += [self._forgive(rule, detail), notification]
        elif agreement.inbound is None:
            events.append(notification)
        else:
            verdict = agreement.inbound.judge(method, request=False)
            if verdict.row is None and not verdict.unknown:
                events.append(Stale(f"{method} does not exist in revision {agreement.revision}"))
                return
            if verdict.missing:
                detail = f"{method} without the capability {verdict.missing}"
                events.append(self._forgive("CAP-01", detail))
            events.append(notification)

    def _receive_cancel(self, notification: Notification) -> Event:
        try:
            params = codec.decode(notification.params, t.CancelledParams)
        except msgspec.ValidationError:
            return Stale("an unreadable cancellation")
        ours = self._outgoing.get(params.request_id) if params.request_id is not None else None
        if ours is not None and ours.method == "subscriptions/listen" and self.role == "client":
            # The one thing of ours that a server cancels (CANC26-08): a way to end it in good order.
            assert params.request_id is not None
            del self._outgoing[params.request_id]
            return Response(params.request_id, Raw(b"{}"))
        call = self._incoming.get(params.request_id) if params.request_id is not None else None
        if call is None or call.cancelled or call.method == "initialize":
            return Stale("a cancellation of nothing that is open", params.request_id)
        call.cancelled = True
        assert params.request_id is not None
        return Cancel(params.request_id, params.reason)

    def _receive_progress(self, notification: Notification, events: list[Event]) -> None:
        try:
            params = codec.decode(notification.params, t.ProgressParams)
        except msgspec.ValidationError:
            events.append(Stale("unreadable progress"))
            return
        token = params.progress_token
        found = next(
            ((id, call) for id, call in self._outgoing.items() if call.token == token), None
        )
        if found is None:
            events.append(Stale("progress of nothing that is open", token))
            return
        id, call = found
        if call.progress is not None and params.progress <= call.progress:
            detail = f"{params.progress:g} after {call.progress:g}"
            events.append(self._forgive("PROG-06", detail))
        call.progress = params.progress
        events.append(Progress(token, params.progress, params.total, params.message, id))

    def _receive_answer(self, answer: Response | ErrorResponse, events: list[Event]) -> None:
        id = answer.id if answer.id in self._outgoing else self._match(answer.id)
        if id is None:
            what = "an answer to nothing that is open"
            if isinstance(answer, ErrorResponse):
                what = f"an error for nothing that is open: {answer.error.message}"
            events.append(Stale(what, answer.id))
            return
        if id != answer.id:
            events.append(self._forgive("JRPC-07", f"the id {id!r} came back as {answer.id!r}"))
            answer = msgspec.structs.replace(answer, id=id)
        if self._outgoing[id].method == "initialize":
            self._receive_initialize_answer(answer, id, events)
        else:
            events.append(answer)
        self._outgoing.pop(id, None)

    def _match(self, id: RequestId | None) -> RequestId | None:
        """The id of the call that an answer with `id` belongs to.

        An integer that comes back as its own decimal string is matched too: no other call of ours
        can be meant by it.
        """
        if id is None or id in self._outgoing:
            return id
        if isinstance(id, str) and id.isascii() and id.isdigit() and len(id) < 20:
            number = int(id)
            if str(number) == id and number in self._outgoing:
                return number
        return None

    def _receive_initialize_answer(
        self, answer: Response | ErrorResponse, id: RequestId, events: list[Event]
    ) -> None:
        if isinstance(answer, ErrorResponse):
            self._agreement.refused()
            events.append(answer)
            return
        notes: list[codec.Note] = []
        try:
            result = codec.decode(answer.result, t.InitializeResult, notes)
        except msgspec.ValidationError as error:
            events.append(self._fail(id, f"the answer to initialize: {error}", "LIFE-04"))
            return
        events += [self._forgive(note.rule, note.detail) for note in notes]
        self._agreement.received_answer(result)
        events.append(answer)
