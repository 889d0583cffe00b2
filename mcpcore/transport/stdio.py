"""This process as a server on its own stdin and stdout.

From the moment the descriptors are claimed, the protocol has private copies of 0 and 1, and the
standard ones point elsewhere for the rest of the process: 0 at the null device, 1 at stderr. A print
of a handler, one that sits in a buffer until exit, and a child process that inherits the descriptors
can neither write into the stream nor eat from it.
"""

from __future__ import annotations

import os
import stat
import sys

import trio

from mcpcore.protocol.framing import MAX_LINE
from mcpcore.transport.lines import LineChannel
from mcpcore.transport.threads import ThreadReceiveStream, ThreadSendStream


def claim_stdio(*, threads: bool | None = None, max_line: int = MAX_LINE) -> LineChannel:
    """Take stdin and stdout for the protocol, and give the channel on them. Call it within trio.

    `threads` reads and writes in worker threads; by default that is done only where the descriptors
    cannot be waited on. `max_line` is in bytes.
    """
    read_from, write_to = claim_descriptors()
    source: trio.abc.ReceiveStream
    sink: trio.abc.SendStream
    # Not blocking is a property of the open pipe, not of our descriptor: where stderr is the same pipe,
    # everything that writes to stderr would suffer.
    if threads or (threads is None and not _can_be_waited_on(read_from)):
        source = ThreadReceiveStream(read_from)
    else:
        source = trio.lowlevel.FdStream(read_from)
    if threads or (threads is None and not _can_be_waited_on(write_to)):
        sink = ThreadSendStream(write_to)
    else:
        sink = trio.lowlevel.FdStream(write_to)
    return LineChannel(source, sink, max_line=max_line)


def claim_descriptors() -> tuple[int, int]:
    """Private copies of descriptors 0 and 1; the standard ones are pointed elsewhere. Once a process."""
    # A standard descriptor that is closed would be the next number that the system gives away, and
    # what is printed would end up in something else.
    while (null := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(null, True)  # noqa: FBT003 - its only form
    read_from, write_to = os.dup(0), os.dup(1)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    # What handlers print should be seen when they print it, as on any stderr.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)
    return read_from, write_to


def _can_be_waited_on(descriptor: int) -> bool:
    """Pipes and sockets can. A terminal could, but is shared with the shell, which would find it not
    blocking; files and the null device cannot.
    """
    if os.name != "posix":
        return False
    if os.path.sameopenfile(descriptor, 2):
        return False
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
