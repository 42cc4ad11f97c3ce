"""A fake service that keeps the agreement of `phalanx_cli.stack.services`, and what the tests ask of processes."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from phalanx_cli.stack.identity import identify
from phalanx_cli.stack.services import ServiceSpec

FAKE_SERVICE = """
import http.server, json, os, signal, sys, time

MODE = os.environ["FAKE_MODE"]
if MODE == "exit":
    sys.exit("fake service: the bus said no")
if MODE == "malformed":
    with open(os.environ["PHALANX_READY_FILE"], "w") as file:
        file.write("[]")
if MODE in {"never", "malformed"}:
    time.sleep(600)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *args):
        pass


def end(signum, frame):
    print("ended in order", flush=True)
    os._exit(0)


signal.signal(signal.SIGTERM, end)
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PHALANX_HTTP_PORT"])), Handler)
print("told", json.dumps({name: os.environ[name] for name in ("NATS_URL", "REDIS_URL", "PHALANX_CLUSTER")}), flush=True)
ready = {"pid": os.getpid(), "http_port": server.server_port, "ready_at": "2026-01-01T00:00:00Z"}
with open(os.environ["PHALANX_READY_FILE"] + ".partial", "w") as file:
    json.dump(ready, file)
os.replace(file.name, os.environ["PHALANX_READY_FILE"])
server.serve_forever()
"""


@pytest.fixture
def fake_service(tmp_path: Path) -> Callable[..., ServiceSpec]:
    """Make the spec of a fake service; modes: ok, exit, never (ready), malformed (ready file)."""
    folder = tmp_path / "fake-modules"
    folder.mkdir()
    (folder / "phalanx_fake_service.py").write_text(FAKE_SERVICE)

    def make(name: str = "fake", mode: str = "ok") -> ServiceSpec:
        env = {"PYTHONPATH": str(folder), "FAKE_MODE": mode}
        return ServiceSpec(name=name, module="phalanx_fake_service", env=env)

    return make


@pytest.fixture
def assert_gone() -> Callable[..., None]:
    """Assert that every pid is gone within a time."""

    def check(pids: list[int], within_s: float = 2.0) -> None:
        assert pids, "a test that watches no process proves nothing"
        deadline = time.monotonic() + within_s
        while left := [pid for pid in pids if identify(pid) is not None]:
            assert time.monotonic() < deadline, f"still there after {within_s} s: {left}"
            time.sleep(0.01)

    return check
