"""`phalanx up`, `down` and `status` as a developer uses them, with real detached processes."""

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from phalanx_cli.stack import developer
from phalanx_cli.stack.guard import GuardedProcess, ProcessSpec
from phalanx_cli.stack.identity import identify
from phalanx_cli.stack.services import ServiceSpec
from phalanx_cli.stack.state import StackOwner, StackState, read_state, write_state

pytestmark = pytest.mark.integration

FakeService = Callable[..., ServiceSpec]


class Developer:
    """Runs the commands on one folder and keeps what the last one printed."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.printed = ""

    def up(self, *services: ServiceSpec) -> int:
        return self._run(lambda console: developer.up(self.data_dir, services=services, console=console))

    def down(self) -> int:
        return self._run(lambda console: developer.down(self.data_dir, console=console))

    def status(self) -> int:
        return self._run(lambda console: developer.status(self.data_dir, console=console))

    def state(self) -> StackState:
        state = read_state(self.data_dir)
        assert state is not None
        return state

    def pids(self) -> dict[str, int]:
        return {m.name: m.identity.pid for m in self.state().members if m.identity is not None}

    def all_pids(self) -> list[int]:
        return [self.state().owner_identity.pid, *self.pids().values()]

    def _run(self, command: Callable[[Console], int]) -> int:
        page = io.StringIO()
        code = command(Console(file=page, width=200))
        self.printed = page.getvalue()
        return code


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Developer]:
    monkeypatch.delenv("NATS_URL", raising=False)
    monkeypatch.delenv("REDIS_URL", raising=False)
    someone = Developer(tmp_path / ".phalanx")
    yield someone
    state = read_state(someone.data_dir)
    if state is not None and state.owner is StackOwner.UP:
        someone.down()


def test_up_twice_status_down_twice(
    person: Developer, fake_service: FakeService, assert_gone: Callable[..., None]
) -> None:
    assert person.status() == 3
    assert person.up(fake_service()) == 0, person.printed
    for word in ("supervisor", "nats-server", "valkey-server", "fake", "ok"):
        assert word in person.printed
    pids = person.all_pids()
    assert len(pids) == 4

    assert person.up(fake_service()) == 0
    assert "runs already" in person.printed
    assert person.all_pids() == pids
    assert person.status() == 0

    assert person.down() == 0
    assert "stopped" in person.printed
    assert_gone(pids, within_s=0.5)
    assert "ended in order" in (person.data_dir / "logs/fake.log").read_text()
    assert person.status() == 3
    assert person.down() == 0
    assert "not running" in person.printed


def test_a_crashed_service_is_restarted_and_a_stuck_one_makes_the_status_partial(
    person: Developer, fake_service: FakeService
) -> None:
    assert person.up(fake_service()) == 0, person.printed
    before = person.pids()["fake"]
    os.kill(before, signal.SIGKILL)
    deadline = time.monotonic() + 15
    while person.pids()["fake"] == before:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert person.status() == 0, person.printed

    os.kill(person.pids()["fake"], signal.SIGSTOP)
    assert person.status() == 1
    assert "timed out" in person.printed
    os.kill(person.pids()["fake"], signal.SIGCONT)


def test_a_killed_supervisor_takes_all_along_and_up_starts_anew(
    person: Developer, fake_service: FakeService, assert_gone: Callable[..., None]
) -> None:
    assert person.up(fake_service()) == 0, person.printed
    pids = person.all_pids()
    os.kill(pids[0], signal.SIGKILL)
    assert_gone(pids, within_s=2.0)
    assert person.status() == 3
    assert person.up(fake_service()) == 0, person.printed
    assert not set(pids) & set(person.all_pids())


def test_up_says_why_a_service_did_not_start_and_leaves_nothing(person: Developer, fake_service: FakeService) -> None:
    assert person.up(fake_service("bad", "exit")) == 1
    assert "error: bad ended before it was ready (exit code 1)" in person.printed
    assert "the bus said no" in person.printed
    assert read_state(person.data_dir) is None
    assert person.status() == 3


def test_ctrl_c_during_up_leaves_nothing(
    person: Developer, fake_service: FakeService, assert_gone: Callable[..., None]
) -> None:
    spec = fake_service("slow", "never")
    code = (
        "import sys; from pathlib import Path; from phalanx_cli.stack import ServiceSpec, developer;"
        f"spec = ServiceSpec(name={spec.name!r}, module={spec.module!r}, env={dict(spec.env)!r});"
        "sys.exit(developer.up(Path(sys.argv[1]), services=[spec]))"
    )
    command = subprocess.Popen([sys.executable, "-c", code, str(person.data_dir)], start_new_session=True)
    log = person.data_dir / "logs/slow.log"
    deadline = time.monotonic() + 20
    while not log.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    pids = person.all_pids()
    assert len(pids) == 3
    os.killpg(command.pid, signal.SIGINT)
    assert command.wait(timeout=20) == 130
    assert_gone(pids, within_s=0.5)
    assert person.status() == 3


def test_up_on_a_folder_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    someone = Developer(tmp_path / "file" / ".phalanx")
    assert someone.up() == 1
    assert "cannot be used" in someone.printed


def test_nats_url_is_used_and_its_absence_is_one_message(
    person: Developer, fake_service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", "nats://me:secret@127.0.0.1:1")
    assert person.up(fake_service()) == 1
    assert "NATS_URL (nats://127.0.0.1:1) does not answer" in person.printed
    assert "secret" not in person.printed


def test_down_never_kills_who_took_over_a_pid(person: Developer, fake_service: FakeService, tmp_path: Path) -> None:
    assert person.up(fake_service()) == 0, person.printed
    stale = person.state()
    assert person.down() == 0
    bystander = GuardedProcess(ProcessSpec(name="sleep", argv=("/bin/sleep", "600"), log_path=tmp_path / "sleep.log"))
    try:
        # What a machine that reuses pids would leave: the recorded numbers, now worn by somebody else.
        taken = tuple(
            replace(member, identity=replace(member.identity, pid=bystander.pid))
            for member in stale.members
            if member.identity is not None
        )
        write_state(
            person.data_dir,
            replace(stale, members=taken, owner_identity=replace(stale.owner_identity, pid=bystander.pid)),
        )
        assert person.status() == 3
        assert person.down() == 0
        assert bystander.returncode is None
    finally:
        bystander.kill()


def test_down_leaves_the_stack_of_a_running_job_alone(person: Developer) -> None:
    person.data_dir.mkdir()
    me = identify(os.getpid())
    assert me is not None
    write_state(
        person.data_dir,
        StackState(
            cluster="test",
            owner=StackOwner.RUN,
            owner_identity=me,
            phase=developer.StackPhase.READY,
            nats_url="",
            redis_url="",
            members=(),
        ),
    )
    assert person.down() == 1
    assert "belongs to a running `phalanx run`" in person.printed
    assert person.up() == 1
    assert "is used by a running `phalanx run`" in person.printed
