"""What of the stack can be decided without a process."""

import re
from pathlib import Path

import pytest

from phalanx_cli.stack.errors import LOG_TAIL_LINES, StackError, log_tail, with_log_tail
from phalanx_cli.stack.identity import ProcessIdentity
from phalanx_cli.stack.nats_server import MAX_PAYLOAD_BYTES, NatsServer, SyncInterval, nats_server_binary
from phalanx_cli.stack.probes import without_password
from phalanx_cli.stack.services import ServiceSpec
from phalanx_cli.stack.state import (
    STATE_FILE,
    HealthCheck,
    MemberRecord,
    StackOwner,
    StackPhase,
    StackState,
    read_state,
    remove_state,
    write_state,
)
from phalanx_cli.stack.status import age_text
from phalanx_cli.stack.supervision import BACKOFF_FIRST_S, BACKOFF_MAX_S, STABLE_AFTER_S, next_backoff_s
from phalanx_cli.stack.supervisor import supervisor_argv

IDENTITY = ProcessIdentity(pid=7, start_ticks=123, boot_id="b")


def state() -> StackState:
    return StackState(
        cluster="blue",
        owner=StackOwner.UP,
        owner_identity=IDENTITY,
        phase=StackPhase.READY,
        nats_url="nats://me:secret@h:4222",
        redis_url="redis://h:6379/0",
        members=(
            MemberRecord(
                name="nats (external)",
                identity=None,
                health_check=HealthCheck.NATS,
                log_path=None,
                url="nats://h:4222",
                http_port=None,
            ),
            MemberRecord(
                name="svc",
                identity=IDENTITY,
                health_check=HealthCheck.READYZ,
                log_path=Path("/logs/svc.log"),
                url=None,
                http_port=8,
            ),
        ),
    )


def test_backoff_doubles_up_to_its_cap_and_starts_anew_after_a_long_life() -> None:
    waits: list[float] = []
    previous = None
    for _ in range(8):
        previous = next_backoff_s(previous, lived_s=0.1)
        waits.append(previous)
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert waits[-1] == BACKOFF_MAX_S
    assert next_backoff_s(BACKOFF_MAX_S, lived_s=STABLE_AFTER_S) == BACKOFF_FIRST_S


@pytest.mark.parametrize(
    ("age_s", "text"),
    [
        (None, "-"),
        (0.4, "0 s"),
        (59, "59 s"),
        (60, "1 min 0 s"),
        (3_661, "1 h 1 min"),
        (86_400 * 3, "3 d 0 h"),
    ],
)
def test_age_is_told_in_its_two_largest_units(age_s: float | None, text: str) -> None:
    assert age_text(age_s) == text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://127.0.0.1:4222", "nats://127.0.0.1:4222"),
        ("nats://u:p@a:1,nats://u:p%40@b:2", "nats://a:1,nats://b:2"),
        ("u:p@a:1", "a:1"),
        ("redis://:p@h:6379/0", "redis://h:6379/0"),
        ("redis://u:p@@h/0", "redis://h/0"),
    ],
)
def test_a_shown_url_has_no_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_the_supervisors_command_line_carries_no_url() -> None:
    argv = supervisor_argv(Path("/d"), "blue", [ServiceSpec(name="a", module="m", env={"X": "1"})])
    assert not any("://" in word for word in argv)


def test_state_comes_back_as_it_was_written_and_only_its_user_may_read_it(tmp_path: Path) -> None:
    write_state(tmp_path, state())
    assert read_state(tmp_path) == state()
    assert (tmp_path / STATE_FILE).stat().st_mode & 0o777 == 0o600
    assert state().identities() == (IDENTITY,)
    remove_state(tmp_path)
    assert read_state(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"owner": "nobody"}'])
def test_a_state_that_cannot_be_read_is_said_not_guessed(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE_FILE).write_text(text)
    with pytest.raises(StackError, match=re.escape(str(tmp_path / STATE_FILE))):
        read_state(tmp_path)


def test_log_tail_is_bounded_and_starts_at_this_run(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"earlier run\n")
    offset = log.stat().st_size
    assert "(it wrote nothing)" in str(with_log_tail("x ended", log, from_offset=offset))
    with log.open("ab") as file:
        file.write(b"\xff not utf-8\n" + b"".join(b"line %d\n" % index for index in range(100)))
    tail = log_tail(log, from_offset=offset).splitlines()
    assert tail[-1] == "line 99"
    assert len(tail) == LOG_TAIL_LINES
    assert "earlier run" not in "".join(tail)
    log.write_bytes(b"y" * 10_000_000)
    assert len(log_tail(log)) < 20_000
    assert log_tail(tmp_path / "none") == ""


def test_nats_config_says_what_was_decided(tmp_path: Path) -> None:
    config = NatsServer(data_dir=tmp_path / 'q"uote').config
    assert config["listen"] == "127.0.0.1:-1"
    assert config["max_payload"] == MAX_PAYLOAD_BYTES == 1_048_576
    assert config["jetstream"]["sync_interval"] == "always"
    relaxed = NatsServer(data_dir=tmp_path, port=4333, sync_interval=SyncInterval.DEFAULT).config
    assert relaxed["listen"] == "127.0.0.1:4333"
    assert "sync_interval" not in relaxed["jetstream"]


def test_the_binary_of_the_wheel_is_found_without_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert nats_server_binary().name == "nats-server"
