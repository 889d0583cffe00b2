"""A server that somebody else wrote, with one habit, given by name on the command line.

Plain Python on the standard library, so that it shares no bug with what it tests; what few habits need
is imported there, so that it starts quickly.
"""

import json
import os
import sys
import time


def write(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def say(message, end=b"\n"):
    write(json.dumps(message).encode() + end)


def complain(text):
    os.write(2, text.encode())


def initialized(request):
    result = {
        "protocolVersion": request["params"]["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "peer", "version": "0"},
    }
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def called(request, text):
    result = {"content": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def serve(call=lambda request: say(called(request, "done")), before=lambda: None):
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        before()
        if request["method"] == "initialize":
            say(initialized(request))
        elif request["method"] == "tools/call":
            call(request)
        else:
            say({"jsonrpc": "2.0", "id": request["id"], "result": {}})


def note(path, text):
    with open(path, "a") as file:
        file.write(text + "\n")


def sleep():
    while True:
        time.sleep(3600)


# The habits.


def plain():
    serve()


def banner():
    write(b"Server started on stdio\n")
    serve(before=lambda: write(b"[info] a request came in\n"))


def not_utf8():
    serve(before=lambda: write(b'\xff\xfe\n{"jsonrpc":"2.0","method":"x","params":{"t":"\x92"}}\n'))


def large():
    serve(lambda request: say(called(request, "x" * request["params"]["arguments"]["size"])))


def in_crumbs():
    """A message arrives over many reads, characters cut in two."""

    def call(request):
        answer = called(request, "é\u2028—😀")
        for byte in json.dumps(answer, ensure_ascii=False).encode() + b"\r\n":
            write(bytes([byte]))
            time.sleep(0.0005)

    serve(call)


def no_last_newline():
    def call(request):
        say(called(request, "last words"), end=b"")
        sys.exit(0)

    serve(call)


def chatty():
    """A lot on stderr before the first answer, more than a pipe holds."""

    def before():
        for number in range(2000):
            complain(f"log line {number} {'.' * 60}\n")

    serve(before=before)


def dies_at_start():
    complain("KeyError: 'API_KEY'\n")
    sys.exit(3)


def dies_in_a_call():
    def call(request):
        complain("out of memory\n")
        os._exit(7)

    serve(call)


def killed_in_a_call(number="9"):
    serve(lambda request: os.kill(os.getpid(), int(number)))


def waits_in_a_call():
    serve(lambda request: complain("working on it\n"))


def silent():
    for _ in sys.stdin.buffer:
        pass


def silent_and_stubborn():
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    complain("ready")
    sleep()


def stubborn():
    """Neither the end of its input nor SIGTERM ends it."""
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve()
    sleep()


def deaf(path):
    """The end of its input does not end it, SIGTERM does."""
    import signal

    def terminated(number, frame):
        note(path, "SIGTERM")
        sys.exit(0)

    signal.signal(signal.SIGTERM, terminated)
    serve()
    sleep()


def good(path):
    """Ends by itself a little after its input did, and notes every signal."""
    import signal

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda number, frame: note(path, f"signal {number}"))
    serve()
    time.sleep(0.1)
    note(path, "ended by itself")


def launcher(path):
    """Starts the real server, which inherits everything, and waits for it, as npx does."""
    import subprocess

    child = subprocess.Popen([sys.executable, "-I", "-S", __file__, "deaf", path + ".signals"])
    note(path, str(child.pid))
    child.wait()


def stubborn_launcher(path):
    import subprocess

    child = subprocess.Popen([sys.executable, "-I", "-S", __file__, "stubborn"])
    note(path, str(child.pid))
    child.wait()


def leaves_a_child(path):
    """Exits at the end of its input; what it started goes on and holds stdout and stderr."""
    import subprocess

    child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
    note(path, str(child.pid))
    serve()


def leaves_a_daemon(path):
    """Exits at the end of its input; what it started has left the group and holds stdout and stderr."""
    import subprocess

    child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, start_new_session=True)
    note(path, str(child.pid))
    serve()


def leaves_a_child_and_dies(path):
    """Dies in a call, while what it started holds stdout and stderr open."""
    import subprocess

    child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
    note(path, str(child.pid))
    serve(lambda request: os._exit(5))


def stopped_reading():
    """Reads nothing after the handshake, and answers nothing."""

    def before():
        before.seen += 1
        if before.seen == 2:
            os.close(0)
            os.write(2, b"closed\n")
            sleep()

    before.seen = 0
    serve(before=before)


def closes_stdout():
    def call(request):
        os.close(1)
        sleep()

    serve(call)


def floods():
    """Sends notifications without end from another thread."""
    import threading

    def flood():
        try:
            while True:
                say({"jsonrpc": "2.0", "method": "notifications/message",
                     "params": {"level": "info", "data": "x" * 1000}})  # fmt: skip
        except OSError:
            os._exit(0)

    def call(request):
        say(called(request, "done"))
        threading.Thread(target=flood, daemon=True).start()

    serve(call)


def writes_at_the_end():
    """Writes more than a pipe holds after the end of its input, and only then exits."""
    serve()
    for _ in range(200):
        say({"jsonrpc": "2.0", "method": "notifications/message",
             "params": {"level": "info", "data": "x" * 2000}})  # fmt: skip


def tells_its_environment():
    serve(lambda request: say(called(request, json.dumps([dict(os.environ), os.getcwd()]))))


def half_a_line():
    """On stderr: a line without its end, and one that is not UTF-8."""
    complain("first\n")
    os.write(2, b"\xff\xfe\n")
    complain("no end")
    serve()


def answers_and_dies():
    """Two messages, then the end, before anybody reads."""
    say({"jsonrpc": "2.0", "method": "a"})
    say({"jsonrpc": "2.0", "method": "b"})


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
