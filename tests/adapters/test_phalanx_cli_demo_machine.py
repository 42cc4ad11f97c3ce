"""A machine of the demo and who stands for its `phalanx run`: real processes and a real socket, no bus."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx_cli.demo import machine
from phalanx_cli.demo.machine import BadOrder, read_order, socket_of

NODE = "node-a"
LIMIT_S = 30.0

FAKE_PHALANX = """\
import os, signal, sys, time
words = sys.argv[1:]
print("words", *words, flush=True)
if words[0] == "host":
    time.sleep(600)
if words[1] == "exit":
    sys.exit(int(words[2]))
if words[1] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print("pid", os.getpid(), flush=True)
time.sleep(600)
"""
"""In the place of the command: it ends as it is told, or waits for a signal."""


def until(condition: object, what: str) -> None:
    """Wait for something that processes do."""
    end_s = time.monotonic() + LIMIT_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end_s, f"waited {LIMIT_S:g} s for {what}"
        time.sleep(0.02)


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Path]:
    """The socket of a machine whose command is the one above."""
    program = tmp_path / "fake_phalanx.py"
    program.write_text(FAKE_PHALANX)
    code = (
        "import sys; from phalanx_cli.demo import machine; "
        f"machine.PHALANX = (sys.executable, {str(program)!r}); sys.exit(machine.main(sys.argv[1:]))"
    )
    server = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), NODE])
    socket = socket_of(tmp_path, NODE)
    try:
        until(socket.exists, "the socket")
        yield socket
    finally:
        server.terminate()
        assert server.wait(LIMIT_S) == 0


def elsewhere(socket: Path, log: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "phalanx_cli.demo.elsewhere", str(socket), str(log), *words])


def test_ends_as_the_other_one_ends(listening: Path, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    assert elsewhere(listening, log, "exit", "3").wait(LIMIT_S) == 3
    assert log.read_text() == "words run exit 3\n"
    assert elsewhere(listening, log, "exit", "0").wait(LIMIT_S) == 0
    assert elsewhere(listening, log, "die").wait(LIMIT_S) == -signal.SIGKILL


def pid_in(log: Path) -> int:
    until(lambda: log.exists() and "pid " in log.read_text(), "the process")
    return int(log.read_text().split("pid ")[1].split()[0])


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_passes_a_decent_end_on(listening: Path, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    process = elsewhere(listening, log, "wait")
    pid = pid_in(log)
    process.terminate()
    assert process.wait(LIMIT_S) == 5
    until(lambda: gone(pid), "the end of the process")


def test_whoever_loses_its_orderer_is_killed(listening: Path, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    process = elsewhere(listening, log, "wait")
    pid = pid_in(log)
    process.kill()
    process.wait(LIMIT_S)
    until(lambda: gone(pid), "the end of the process")


def test_a_machine_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert elsewhere(socket_of(tmp_path, NODE), tmp_path / "run.log", "exit", "0").wait(LIMIT_S) == 69


@pytest.mark.parametrize("line", [b"", b"[]\n", b"{}\n", b'{"run": "ls", "log": "/a"}\n', b'{"run": [], "log": "a"}\n'])
def test_what_is_no_order_is_refused(line: bytes) -> None:
    with pytest.raises(BadOrder):
        read_order(line)


def test_each_process_has_the_identity_of_its_node_and_role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machine.IDENTITIES, "/ids")
    assert machine.environment("host", NODE)["NATS_NKEY_SEED_FILE"] == "/ids/host-node-a.nk"
    assert machine.environment("launcher", NODE)["NATS_NKEY_SEED_FILE"] == "/ids/launcher-node-a.nk"
    monkeypatch.delenv(machine.IDENTITIES)
    monkeypatch.delenv("NATS_NKEY_SEED_FILE", raising=False)
    assert "NATS_NKEY_SEED_FILE" not in machine.environment("host", NODE)


def test_only_phalanx_is_started() -> None:
    assert machine.PHALANX[-2:] == ("-m", "phalanx_cli.main")
