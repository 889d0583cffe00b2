"""Starts a server and notes every line that passes, so that a tour can be compared with the wire.

recorder.py LOG CMD ARGS...
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading

log, *command = sys.argv[1:]
lock = threading.Lock()
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def pass_on(direction: str, source, sink) -> None:
    for line in source:
        with lock, open(log, "a") as file:
            file.write(json.dumps([direction, line.decode().rstrip("\n")]) + "\n")
        sink.write(line)
        sink.flush()
    if sink is child.stdin:
        sink.close()


to_child = threading.Thread(target=pass_on, args=("-->", sys.stdin.buffer, child.stdin))
to_child.start()
pass_on("<--", child.stdout, sys.stdout.buffer)
to_child.join()
sys.exit(child.wait())
