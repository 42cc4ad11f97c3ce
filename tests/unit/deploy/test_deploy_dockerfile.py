"""The Dockerfile and what it runs: pinned, locked, without root, without a compiler, with health and labels."""

import http.server
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy" / "docker"
HEALTHCHECK = FOLDER / "healthcheck.py"


def instructions() -> list[tuple[str, str]]:
    """Name and arguments of each instruction, continuation lines joined, comments left out."""
    lines = [line for line in (FOLDER / "Dockerfile").read_text(encoding="utf-8").splitlines() if line.strip()]
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#")).replace("\\\n", " ")
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in text.splitlines())]


def stages() -> dict[str, list[tuple[str, str]]]:
    """Instructions by the name of their stage."""
    found: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for name, rest in instructions():
        if name == "FROM":
            current = found.setdefault(rest.rpartition(" AS ")[2], [])
        current.append((name, rest))
    return found


def argument(name: str) -> str:
    """The default of an ARG."""
    return next(
        rest.partition("=")[2] for kind, rest in instructions() if kind == "ARG" and rest.startswith(f"{name}=")
    )


def test_versions_are_pinned() -> None:
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", argument("PYTHON_IMAGE"))
    assert re.fullmatch(r"\d+\.\d+\.\d+", argument("UV_VERSION"))
    assert re.fullmatch(r"\d+\.\d+\.\d+", argument("HATCHLING_VERSION"))
    known = set(stages()) | {"${PYTHON_IMAGE}"}
    assert {rest.split(" AS ")[0] for name, rest in instructions() if name == "FROM"} <= known


def test_what_runs_is_no_root_has_health_and_labels_and_nothing_to_build_with() -> None:
    bare = dict(stages()["bare"])
    assert bare["USER"].split(":")[0].isdecimal()
    assert int(bare["USER"].split(":")[0]) > 0
    assert HEALTHCHECK.name in bare["HEALTHCHECK"]
    labels = " ".join(
        rest for stage in ("bare", "service", "trainer") for name, rest in stages()[stage] if name == "LABEL"
    )
    for label in ("title", "version", "revision", "created", "licenses", "description"):
        assert f"org.opencontainers.image.{label}=" in labels
    for stage in ("bare", "service", "trainer"):
        for name, rest in stages()[stage]:
            assert not re.search(r"\b(apt-get|apk|gcc|curl|wget|pip install)\b", rest), f"{stage}: {name} {rest}"
            assert name != "ADD", "COPY says what it does"
    assert [stage for stage in stages() if dict(stages()[stage]).get("USER") == "root"] == []


def test_nothing_but_the_installed_packages_leaves_the_build() -> None:
    for stage in ("service", "trainer"):
        copied = [rest for name, rest in stages()[stage] if name == "COPY"]
        assert len(copied) == 1
        assert re.fullmatch(r"--from=builder\S* /opt/phalanx /opt/phalanx", copied[0])


def test_a_build_without_a_target_makes_a_service() -> None:
    assert list(stages())[-1] == "service"


def test_what_is_installed_comes_from_the_lock_with_its_hashes() -> None:
    script = (FOLDER / "install.sh").read_text(encoding="utf-8")
    joined = script.replace("\\\n", " ")
    for line in joined.splitlines():
        if '"$uv" pip install' in line and "--requirement" in line:
            assert "--require-hashes" in line
            assert "--only-binary :all:" in line, "nothing is compiled, and no package's own script runs"
        if '"$uv" export' in line:
            assert "--frozen" in line


def test_every_service_can_be_built() -> None:
    script = (FOLDER / "install.sh").read_text(encoding="utf-8")
    known = set(re.findall(r"^([\w| -]+)\) package=", script, flags=re.MULTILINE))
    names = {name.strip() for names in known for name in names.split("|")}
    assert names == {path.parent.name for path in ROOT.glob("services/*/pyproject.toml")} | {"trainer"}


def test_the_context_is_named_and_not_all_there_is() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    assert "*" in lines
    assert ".env" not in " ".join(line for line in lines if line.startswith("!"))


# ----------------------------------------------------------------------------------------------------- the probe


class Answers(http.server.BaseHTTPRequestHandler):
    """/readyz as the test wants it."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/readyz" else 404)
        self.end_headers()
        self.wfile.write(b'{"ready": "as told"}')

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def probe(port: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-IS", str(HEALTHCHECK)],
        env={**os.environ, "PHALANX_HTTP_PORT": str(port)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_probe_says_what_readyz_says(port: int, status: int, code: int) -> None:
    Answers.status = status
    done = probe(port)
    assert (done.returncode, done.stdout) == (code, '{"ready": "as told"}')


def test_the_probe_says_that_nobody_is_there(port: int) -> None:
    done = probe(1)
    assert done.returncode == 1
    assert "nobody answers on port 1" in done.stdout
