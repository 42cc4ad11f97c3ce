"""Stands for a `phalanx run` on another machine of the demo: ends as that one ends, and passes SIGTERM on.

`python -m phalanx_cli.demo.elsewhere SOCKET LOG WORD...`: the words are arguments of `phalanx run`. To the demo it is
a child like any other, so that nothing else in it has to know where its agents run.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from types import FrameType

EXIT_UNAVAILABLE = 69
"""The machine is not there, or went away (EX_UNAVAILABLE of sysexits.h)."""
ANSWER_BYTES_MAX = 4096


def end_as(code: int) -> int:
    """The exit code for an exit code; for a signal this process dies of the same one."""
    if code >= 0:
        return code
    number = -code
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number  # a signal that does not end a process: what a shell would say


def run_elsewhere(path: str, log: str, words: list[str]) -> int:
    """Order it, wait for its end; returns its exit code, negative for a signal."""
    with socket.socket(socket.AF_UNIX) as machine:
        machine.connect(path)

        def ask_for_end(_number: int, _frame: FrameType | None) -> None:
            machine.sendall(b"end\n")

        machine.sendall(json.dumps({"run": words, "log": log}).encode() + b"\n")
        signal.signal(signal.SIGTERM, ask_for_end)
        answer = machine.recv(ANSWER_BYTES_MAX)
    if not answer:
        raise ConnectionError("the machine went away")
    return int(json.loads(answer)["code"])


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit code."""
    if len(arguments) < 3:
        sys.stderr.write("usage: python -m phalanx_cli.demo.elsewhere SOCKET LOG WORD...\n")
        return 2
    try:
        return end_as(run_elsewhere(arguments[0], arguments[1], arguments[2:]))
    except OSError as error:
        sys.stderr.write(f"{arguments[0]}: {error}\n")
        return EXIT_UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
