"""The rules of the protocol that mcpcore checks or follows, each in one sentence.

A report about a peer (`Forgiven`, `RemoteProtocolError.rule`) and a line of `mcpcore tour` name a
rule by its id; this table says what the id means. The ids group the rules by subject: JRPC the
messages, BATCH arrays of them, LIFE and VERS the opening, CAP capabilities, SHUT the end, STDIO the
pipes, HTTP and SEC the web, CANC, PROG, PAGE, PING the base utilities, then the features. Those with
26 in their names, and HDR, are of the stateless era.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Rule(msgspec.Struct, frozen=True):
    """`strength` is the specification's keyword; `schema` for what its schema fixes, `json-rpc` and
    `json` for what it inherits.
    """

    id: str
    strength: Literal["MUST", "SHOULD", "schema", "json-rpc", "json"]
    sentence: str


RULES: dict[str, Rule] = {
    rule.id: rule
    for rule in (
        Rule("JSON-01", "json", "Half of a surrogate pair, written as an escape, is no character."),
        Rule("JRPC-01", "MUST", 'Every message has the member jsonrpc with the value "2.0".'),
        Rule(
            "JRPC-02",
            "MUST",
            "A request carries an id, a string or an integer, and gets one answer.",
        ),
        Rule(
            "JRPC-07", "MUST", "An answer repeats the id of its request, by value and by JSON type."
        ),
        Rule("JRPC-08", "MUST", "An answer holds exactly one of result and error."),
        Rule("JRPC-09", "schema", "The result of an answer is an object."),
        Rule("JRPC-12", "MUST", "A notification has no id and gets no answer."),
        Rule("JRPC-14", "schema", "params, if present, is an object."),
        Rule("JRPC-16", "json-rpc", "A method that is not there is answered with -32601."),
        Rule("JRPC-17", "json-rpc", "What is not JSON is answered with -32700."),
        Rule("JRPC-18", "json-rpc", "JSON that is no message is answered with -32600."),
        Rule("JRPC-28", "schema", "Every request that is not cancelled gets exactly one answer."),
        Rule(
            "BATCH-10", "schema", "Only one revision has batches; the others send single messages."
        ),
        Rule("LIFE-02", "MUST", "The client opens the session with initialize."),
        Rule("LIFE-04", "MUST", "The server answers with its revision, capabilities and name."),
        Rule(
            "LIFE-05", "MUST", "After the answer the client says initialized, before anything else."
        ),
        Rule("LIFE-06", "SHOULD", "Until it is answered the client sends pings only."),
        Rule(
            "LIFE-07", "SHOULD", "Before initialized the server sends pings and log messages only."
        ),
        Rule("LIFE-11", "schema", "Nothing but initialize and ping is served before initialize."),
        Rule(
            "VERS-06",
            "SHOULD",
            "A client that cannot speak the revision of the answer disconnects.",
        ),
        Rule("CAP-01", "MUST", "Only capabilities that were negotiated are used."),
        Rule("CAP-02", "schema", "A capability is an object; its flags are booleans."),
        Rule(
            "SHUT-02",
            "SHOULD",
            "To end a stdio session the client closes the server's stdin first.",
        ),
        Rule("SHUT-06", "schema", "A stdio server ends by itself when its stdin ends."),
        Rule("STDIO-03", "MUST", "One message is one line."),
        Rule("STDIO-04", "MUST", "A server writes nothing but messages to its stdout."),
        Rule("HTTP-01", "MUST", "One path takes POST and GET, and DELETE where sessions are."),
        Rule("HTTP-02", "MUST", "The Origin of every request is checked; a wrong one is refused."),
        Rule("HTTP-03", "MUST", "A wrong Origin is answered with 403."),
        Rule("HTTP-04", "MUST", "A request without an Origin is no wrong one."),
        Rule("HTTP-08", "MUST", "A POST accepts both application/json and text/event-stream."),
        Rule("HTTP-09", "MUST", "The body of a POST is one JSON-RPC message."),
        Rule("HTTP-10", "MUST", "An accepted notification or answer gets 202 and no body."),
        Rule("HTTP-12", "MUST", "A request is answered with JSON or with an event stream."),
        Rule(
            "HTTP-16",
            "SHOULD",
            "What a request's stream carries before the answer concerns that request.",
        ),
        Rule("HTTP-20", "SHOULD", "A connection that breaks cancels nothing."),
        Rule(
            "HTTP-22",
            "SHOULD",
            "A stream begins with an event that has an id and no data (polling).",
        ),
        Rule("HTTP-31", "MUST", "A GET accepts text/event-stream."),
        Rule("HTTP-32", "MUST", "A GET is answered with an event stream or with 405."),
        Rule("HTTP-34", "SHOULD", "What the GET stream carries belongs to no open request."),
        Rule("HTTP-41", "MUST", "A message goes on one stream only."),
        Rule("HTTP-43", "MUST", "The ids of events are unique over all streams of a session."),
        Rule("HTTP-44", "SHOULD", "The id of an event tells its stream."),
        Rule("HTTP-47", "MUST", "What one stream carried is replayed on no other."),
        Rule("HTTP-52", "MUST", "A session id is made of visible ASCII characters."),
        Rule("HTTP-55", "SHOULD", "A request without a session id where one is needed gets 400."),
        Rule("HTTP-56", "MUST", "A request of a session that ended gets 404."),
        Rule("HTTP-67", "MUST", "A protocol version that is not supported gets 400."),
        Rule("HTTP-68", "SHOULD", "A request that names no revision has one that is known."),
        Rule("SSE-04", "schema", "The id of an event is where to resume, also without data."),
        Rule("SSE-08", "schema", "Each event leaves at once; nothing on the way collects it."),
        Rule("SEC-01", "MUST", "A session id proves nothing about who asks."),
        Rule("SEC-02", "MUST", "Session ids are random, and bound to the user who opened them."),
        Rule(
            "CANC-02",
            "MUST",
            "A cancellation names a request of the same sender that is still open.",
        ),
        Rule("CANC-06", "SHOULD", "A cancelled request is not answered."),
        Rule("PROG-01", "schema", "Progress is asked for by a token in the request."),
        Rule("PROG-06", "MUST", "Progress grows with each notification."),
        Rule("PROG-09", "MUST", "Progress names a token of a request that is still open."),
        Rule(
            "PAGE-01", "schema", "A list is answered page by page; the first request has no cursor."
        ),
        Rule("PAGE-02", "MUST", "A cursor is opaque and handed back unchanged."),
        Rule("PAGE-04", "schema", "nextCursor is a string, and there only if more may follow."),
        Rule("PING-02", "MUST", "A ping is answered at once with an empty result."),
        Rule("TOOL-02", "schema", "tools/list answers with tools, page by page."),
        Rule("TOOL-11", "schema", "A tool is called by its name, with an object of arguments."),
        Rule("TOOL-12", "schema", "The result of a tool has content, always."),
        Rule(
            "TOOL-17",
            "SHOULD",
            "What goes wrong inside a tool is told in its result, with isError.",
        ),
        Rule("TOOL-23", "MUST", "A tool with an output schema gives structured content."),
        Rule("TOOL-24", "SHOULD", "Structured content conforms to the tool's output schema."),
        Rule("RES-04", "schema", "resources/read answers with contents, each text or blob."),
        Rule("PROMPT-04", "schema", "prompts/get answers with messages."),
        Rule("LOG-01", "MUST", "A server that sends log messages declares logging."),
        Rule("SCHEMA-01", "schema", "An object has the members that the schema requires."),
        # The stateless era.
        Rule("JRPC26-05", "MUST", "No two requests that are open at once have the same id."),
        Rule("JRPC26-21", "schema", "There are no batches of requests that stand alone."),
        Rule(
            "META26-04",
            "MUST",
            "A request names its revision and its client's capabilities, or gets -32602.",
        ),
        Rule("META26-07", "schema", "What a request says in its _meta is of the right type."),
        Rule("VERS26-02", "MUST", "A revision that is not spoken is answered with -32022."),
        Rule(
            "VERS26-10",
            "SHOULD",
            "A server without a handshake says to initialize which revisions it speaks.",
        ),
        Rule("DISC-01", "MUST", "A server answers server/discover."),
        Rule("DISC-03", "schema", "It says which revisions it speaks, and what it can do."),
        Rule("RT-06", "MUST", "A result of a type that is not known is none."),
        Rule("MRTR-03", "MUST", "Only a tool, a prompt or a resource is answered with questions."),
        Rule("MRTR-05", "MUST", "What is answered with questions has questions, or a state."),
        Rule("MRTR-07", "MUST", "A question is a request for elicitation, sampling or roots."),
        Rule("MRTR-44", "SHOULD", "The questions come to an end."),
        Rule("LOG26-09", "SHOULD", "A log level that there is not is answered with -32602."),
        Rule("ERR-07", "MUST", "No code is used that belongs to an earlier era."),
        Rule("HTTP26-10", "MUST", "A POST holds one request or one notification."),
        Rule("HTTP26-24", "MUST", "A method that is not there is answered with -32601."),
        Rule("HDR-06", "MUST", "Headers that repeat the body say what it says, or get -32020."),
    )
}
"""By id."""
