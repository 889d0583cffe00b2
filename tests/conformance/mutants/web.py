"""Servers that are bad at Streamable HTTP, in either era."""

import json
from typing import Any

import msgspec
import trio
from mcpcore.conformance import revisions
from mutant_peers import Message, Mutant, header, with_header

from mcpcore.transport.http import Answer, EventSource, HttpRequest
from mutants import plain, result, with_status
from mutants.messages import request_with

LAST = revisions.LAST_HANDSHAKE
SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"


def open_to_all(request: HttpRequest) -> HttpRequest:
    return with_header(request, "origin", None)


def forbids_strangers(request: HttpRequest) -> HttpRequest | Answer:
    """Refuses requests without an Origin."""
    return request if "origin" in request.headers else plain(403)


def another_status(status: int) -> Any:
    """Refusals of origins have another status."""
    return with_status(status, lambda request, answer: answer.status == 403)


def no_content_type(request: HttpRequest, answer: Answer) -> Answer:
    later = SESSION in request.headers and answer.body
    return header(answer, "content-type", "text/html") if later else answer


class _Endless(EventSource):
    """Does not end with the response."""

    def __init__(self, events: EventSource) -> None:
        self._events = events

    def take(self) -> bytes:
        return self._events.take()

    @property
    def ended(self) -> bool:
        return False

    async def wait(self) -> None:
        if self._events.ended:
            await trio.sleep_forever()
        await self._events.wait()

    def close(self) -> None:
        self._events.close()


class _Cut(EventSource):
    """Ends before the response."""

    def __init__(self, events: EventSource) -> None:
        self._events, self._over = events, False

    def take(self) -> bytes:
        blocks = self._events.take().split(b"\n\n")
        kept = [block for block in blocks if b'"result"' not in block]
        self._over = len(kept) < len(blocks)
        return b"\n\n".join(kept)

    @property
    def ended(self) -> bool:
        return self._over or self._events.ended

    async def wait(self) -> None:
        await self._events.wait()

    def close(self) -> None:
        self._events.close()


class _Edited(EventSource):
    """Has its bytes changed."""

    def __init__(self, events: EventSource, change: Any) -> None:
        self._events, self._change = events, change

    def take(self) -> bytes:
        return self._change(self._events.take())

    @property
    def ended(self) -> bool:
        return self._events.ended

    async def wait(self) -> None:
        await self._events.wait()

    def close(self) -> None:
        self._events.close()


def events(make: Any) -> Any:
    """Event streams that are made by another source."""

    def judge(request: HttpRequest, answer: Answer) -> Answer:
        return (
            answer
            if answer.events is None
            else msgspec.structs.replace(answer, events=make(answer.events))
        )

    return judge


def edited(change: Any) -> Any:
    return events(lambda source: _Edited(source, change))


def posts_edited(change: Any) -> Any:
    def judge(request: HttpRequest, answer: Answer) -> Answer:
        return edited(change)(request, answer) if request.method == "POST" else answer

    return judge


def only_later(judge: Any) -> Any:
    """Leaves the opening of a session alone."""
    return lambda request, answer: judge(request, answer) if SESSION in request.headers else answer


def same_ids(raw: bytes) -> bytes:
    lines = raw.split(b"\n")
    return b"\n".join(b"id: 1" if line.startswith(b"id:") else line for line in lines)


def unprimed(raw: bytes) -> bytes:
    blocks = raw.split(b"\n\n")
    return b"\n\n".join(
        block for block in blocks if not (block.startswith(b"id:") and b"data: {" not in block)
    )


def other_kind(raw: bytes) -> bytes:
    return raw.replace(b"data: {", b"event: answer\ndata: {").replace(
        b"event: message\nevent", b"event"
    )


def forgets_streams(request: HttpRequest) -> HttpRequest | Answer:
    return plain(404) if "last-event-id" in request.headers else request


class Sessions:
    """Changes how the server names its sessions, and translates back."""

    def __init__(self, name: Any) -> None:
        self.name, self.known, self.count = name, {}, 0

    def request(self, request: HttpRequest) -> HttpRequest:
        given = request.headers.get(SESSION)
        return with_header(request, SESSION, self.known.get(given, given)) if given else request

    def answer(self, request: HttpRequest, answer: Answer) -> Answer:
        real = next((value for name, value in answer.headers if name.lower() == SESSION), None)
        if real is None or real in self.known.values():
            return answer
        self.count += 1
        shown = self.name(self.count, real)
        self.known[shown] = real
        return header(answer, "Mcp-Session-Id", shown)


def sessions(name: Any) -> Mutant:
    changed = Sessions(name)
    return Mutant(request=changed.request, answer=changed.answer)


class LastSession:
    """Serves requests without a session id, or with any, in the session that was opened last."""

    def __init__(self, when: Any) -> None:
        self.when, self.real = when, None

    def request(self, request: HttpRequest) -> HttpRequest:
        return (
            with_header(request, SESSION, self.real)
            if self.real and self.when(request)
            else request
        )

    def answer(self, request: HttpRequest, answer: Answer) -> Answer:
        self.real = next(
            (value for name, value in answer.headers if name.lower() == SESSION), self.real
        )
        return answer


def last_session(when: Any) -> Mutant:
    changed = LastSession(when)
    return Mutant(request=changed.request, answer=changed.answer)


def undying(request: HttpRequest) -> HttpRequest | Answer:
    """Says that a session is ended, and goes on with it."""
    return plain(204, "") if request.method == "DELETE" else request


class EndsAll:
    """Ends every session when one is ended."""

    def __init__(self) -> None:
        self.over = False

    def request(self, request: HttpRequest) -> HttpRequest | Answer:
        self.over = self.over or request.method == "DELETE"
        return (
            plain(404)
            if self.over and request.method == "POST" and SESSION in request.headers
            else request
        )


def any_version(request: HttpRequest) -> HttpRequest:
    return with_header(request, VERSION, None) if SESSION in request.headers else request


def demands_version(request: HttpRequest) -> HttpRequest | Answer:
    return plain(400) if SESSION in request.headers and VERSION not in request.headers else request


def demands_version_always(request: HttpRequest) -> HttpRequest | Answer:
    return plain(400) if VERSION not in request.headers else request


def one_stream(message: Message, method: str) -> Message:
    """Tells of everybody's progress on each stream, under one token."""
    if method == "notifications/progress":
        message = {**message, "params": {**message["params"], "progressToken": "one"}}
    return message


class Broadcast:
    """Sends what is said on one GET stream on all others too."""

    def __init__(self) -> None:
        self.streams: list[_Shared] = []

    def answer(self, request: HttpRequest, answer: Answer) -> Answer:
        if request.method != "GET" or answer.events is None:
            return answer
        shared = _Shared(answer.events, self.streams)
        self.streams.append(shared)
        return msgspec.structs.replace(answer, events=shared)


class _Shared(EventSource):
    def __init__(self, own: EventSource, streams: "list[_Shared]") -> None:
        self._own, self._streams, self.more, self.news = own, streams, b"", trio.Event()

    def take(self) -> bytes:
        raw = self._own.take()
        if b"list_changed" in raw:
            for other in self._streams:
                if other is not self:
                    other.more += raw
                    other.news.set()
        more, self.more, self.news = self.more, b"", trio.Event()
        return raw + more

    @property
    def ended(self) -> bool:
        return self._own.ended

    async def wait(self) -> None:
        async with trio.open_nursery() as nursery:
            for wait in (self._own.wait, self.news.wait):

                async def first(wait: Any = wait) -> None:
                    await wait()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(first)

    def close(self) -> None:
        self._own.close()


def never_told(message: Message, method: str) -> Any:
    return None if method.endswith("list_changed") else message


def answers_everywhere() -> Any:
    """Puts a response on the GET stream."""
    extra = b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'
    sent = False

    def change(raw: bytes) -> bytes:
        nonlocal sent
        more = b"" if sent else extra
        sent = True
        return raw + more

    def judge(request: HttpRequest, answer: Answer) -> Answer:
        return edited(change)(request, answer) if request.method == "GET" else answer

    return judge


HTTP = {
    "http.one_path_takes_posts": Mutant(answer=with_status(201)),
    "http.foreign_origins_are_refused": Mutant(request=open_to_all),
    "http.foreign_origins_get_403": Mutant(answer=another_status(400)),
    "http.no_origin_is_no_foreign_origin": Mutant(request=forbids_strangers),
    "http.requests_get_json_or_events": Mutant(answer=no_content_type, revision=LAST),
    "http.notifications_get_202": Mutant(
        answer=with_status(200, lambda q, a: a.status == 202), revision=LAST
    ),
    "http.responses_get_202": Mutant(
        answer=with_status(200, lambda q, a: a.status == 202), revision=LAST
    ),
    "http.malformed_notifications_get_an_error": Mutant(
        answer=with_status(202, lambda q, a: a.status == 400)
    ),
    "http.streams_end_with_the_response": Mutant(
        answer=events(_Endless), answers="events", revision=LAST
    ),
    "http.streams_stay_until_the_response": Mutant(answer=events(_Cut)),
    "http.get_opens_a_stream_or_is_405": Mutant(
        request=lambda r: plain(404) if r.method == "GET" else r
    ),
    "http.answers_stay_off_the_get_stream": Mutant(answer=answers_everywhere()),
    "http.event_ids_are_unique": Mutant(answer=edited(same_ids), answers="events"),
    "http.streams_begin_with_an_id": Mutant(answer=edited(unprimed)),
    "http.streams_can_be_resumed": Mutant(request=forgets_streams),
    "http.session_ids_do_not_repeat": sessions(lambda count, real: f"session-{count}"),
    "http.session_ids_are_visible_ascii": sessions(lambda count, real: f"session {count} {real}"),
    "http.a_missing_session_id_is_400": last_session(
        lambda r: SESSION not in r.headers and VERSION in r.headers
    ),
    "http.an_ended_session_is_404": Mutant(request=undying),
    "http.sessions_are_apart": Mutant(request=EndsAll().request),
    "http.unknown_version_headers_are_400": Mutant(request=any_version),
    "http.a_missing_version_header_is_let_pass": Mutant(request=demands_version),
    "http.initialize_needs_no_version_header": Mutant(request=demands_version_always),
    "http.streams_carry_their_own": Mutant(says=one_stream),
    "http.one_message_goes_to_one_stream": Mutant(answer=Broadcast().answer),
    "http.changes_of_tools_are_announced": Mutant(says=never_told, transport="stdio"),
    "http.changes_of_prompts_are_announced": Mutant(says=never_told, transport="stdio"),
    "http.a_session_cannot_be_taken_by_guessing": last_session(
        lambda r: r.headers.get(SESSION) == "conformance-never-given"
    ),
    "http.events_hold_one_message": Mutant(
        answer=only_later(posts_edited(other_kind)), revision=LAST, answers="events"
    ),
    "utilities.a_cancellation_is_accepted": Mutant(
        answer=with_status(200, lambda q, a: a.status == 202)
    ),
}


def believing(*names: str) -> Any:
    """Takes the body's word instead of the headers'."""

    def request(request: HttpRequest) -> Any:
        async def judge() -> HttpRequest:
            if request.method != "POST":
                return request
            body = await request.read(10**8) or b""
            changed = request_with(request, body)
            message = json.loads(body)
            if "mcp-method" in names and VERSION in request.headers:
                changed = with_header(changed, "Mcp-Method", message.get("method"))
            params = message.get("params", {})
            if "mcp-name" in names and "name" in params:
                changed = with_header(changed, "Mcp-Name", params["name"])
            if VERSION in names and (
                said := params.get("_meta", {}).get("io.modelcontextprotocol/protocolVersion")
            ):
                changed = with_header(changed, VERSION, said)
            return changed

        return judge()

    return request


def refuses(when: Any, status: int = 400) -> Any:
    mismatch = b'{"jsonrpc":"2.0","id":2,"error":{"code":-32020,"message":"broken"}}'

    def request(request: HttpRequest) -> HttpRequest | Answer:
        return (
            Answer(status, (("Content-Type", "application/json"),), mismatch)
            if when(request)
            else request
        )

    return request


def makes_up_a_version(request: HttpRequest) -> HttpRequest:
    return (
        request
        if VERSION in request.headers
        else with_header(request, VERSION, revisions.STATELESS[-1])
    )


def decodes(request: HttpRequest) -> HttpRequest:
    name = request.headers.get("mcp-name", "")
    return with_header(request, "Mcp-Name", "nope") if name.startswith("=?base64?") else request


def first_of_two(request: HttpRequest) -> HttpRequest:
    value = request.headers.get("mcp-method", "")
    return with_header(request, "Mcp-Method", value.split(",")[0]) if "," in value else request


def deaf_to_params(request: HttpRequest) -> Any:
    """Takes the body's word for mirrored arguments."""

    async def judge() -> HttpRequest:
        body = await request.read(10**8) or b""
        region = json.loads(body).get("params", {}).get("arguments", {}).get("region")
        return with_header(request_with(request, body), "Mcp-Param-Region", region)

    return judge() if request.method == "POST" else request


HEADERS = {
    "headers.huge_headers_are_refused": Mutant(head_size=2**24),
    "headers.header_and_body_agree_on_the_revision": Mutant(
        answer=with_status(200, lambda q, a: a.status == 400)
    ),
    "headers.a_wrong_method_header_is_refused": Mutant(request=believing("mcp-method")),
    "headers.method_headers_know_upper_and_lower": Mutant(request=believing("mcp-method")),
    "headers.missing_headers_are_refused": Mutant(request=believing("mcp-method", "mcp-name")),
    "headers.a_missing_version_header_is_refused": Mutant(request=makes_up_a_version),
    "headers.a_wrong_name_header_is_refused": Mutant(request=believing("mcp-name")),
    "headers.header_names_ignore_case": Mutant(answer=with_status(400)),
    "headers.spaces_around_a_value_do_not_matter": Mutant(
        request=refuses(lambda r: "mcp-name" in r.headers)
    ),
    "headers.encoded_names_are_decoded": Mutant(
        request=refuses(lambda r: "base64" in r.headers.get("mcp-name", ""))
    ),
    "headers.broken_base64_is_refused": Mutant(request=decodes),
    "headers.what_only_looks_encoded_is_literal": Mutant(
        request=refuses(lambda r: "=?" in r.headers.get("mcp-name", ""))
    ),
    "headers.surplus_headers_are_ignored": Mutant(
        request=refuses(lambda r: "mcp-param-conformance" in r.headers)
    ),
    "headers.doubled_headers_are_refused": Mutant(request=first_of_two),
    "headers.get_and_delete_are_405": Mutant(
        request=lambda r: plain(200, "") if r.method == "GET" else r
    ),
    "headers.session_ids_are_ignored": Mutant(
        request=lambda r: plain(404) if SESSION in r.headers else r
    ),
    "headers.streams_are_not_resumed": Mutant(
        request=lambda r: plain(400) if "last-event-id" in r.headers else r
    ),
    "headers.other_media_types_are_refused": Mutant(
        request=lambda r: with_header(r, "content-type", "application/json")
    ),
    "headers.streams_are_not_buffered": Mutant(
        answer=lambda q, a: header(a, "X-Accel-Buffering", None)
    ),
    "headers.mirrored_arguments_are_held_against_the_body": Mutant(request=deaf_to_params),
}

ERAS = {
    "stateless.modern_servers_refuse_the_handshake": Mutant(
        settled=revisions.STATELESS, transport="stdio"
    ),
    "stateless.undeclared_methods_are_unknown": Mutant(
        says=result("server/discover", lambda r: r["capabilities"].pop("prompts") and None),
        transport="stdio",
    ),
}
