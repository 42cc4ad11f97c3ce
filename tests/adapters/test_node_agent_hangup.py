"""SIGHUP with log rules: a person who wants the rules read again, or a terminal that is gone. Real pseudo-terminals."""

import os
import pty
import signal
import sys

import pytest

AGENT = """
import os, signal, sys, time
from node_agent.adapters.log_watch import on_hangup
heard = []
handle = on_hangup(lambda: heard.append("reload"), lambda number: heard.append(number.name))
signal.signal(signal.SIGHUP, lambda *_: handle())
os.write(int(sys.argv[1]), b"ready\\n")
while not heard:
    time.sleep(0.01)
os.write(int(sys.argv[1]), (heard[0] + "\\n").encode())
"""


def heard(*, on_terminal: bool, hang_up: bool) -> str:
    read_end, write_end = os.pipe()
    pid, terminal = (pty.fork()) if on_terminal else (os.fork(), -1)
    if pid == 0:
        os.set_inheritable(write_end, True)
        if not on_terminal:
            os.setsid()
        os.execv(sys.executable, [sys.executable, "-c", AGENT, str(write_end)])
    os.close(write_end)
    with os.fdopen(read_end) as said:
        assert said.readline() == "ready\n"
        if hang_up:
            os.close(terminal)  # the kernel sends SIGHUP to the session's leader
        else:
            os.kill(pid, signal.SIGHUP)
        word = said.readline().strip()
    os.waitpid(pid, 0)
    if on_terminal and not hang_up:
        os.close(terminal)
    return word


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("on_terminal", "hang_up", "word"),
    [(True, False, "reload"), (True, True, "SIGHUP"), (False, False, "reload")],
)
def test_a_terminal_that_is_gone_is_told_from_a_wish_to_reload(on_terminal: bool, hang_up: bool, word: str) -> None:
    assert heard(on_terminal=on_terminal, hang_up=hang_up) == word
