"""Whose commands are obeyed."""

from pathlib import Path

import pytest

from service_kit.command_signature import HEADER, CommandKeys, ForgedCommand, parse_command_keys, signature
from service_kit.errors import PermanentError
from service_kit.nkey import UserKey, new_user_key

PLANNER, CLI, STRANGER = (new_user_key(bytes([number]) * 32) for number in range(3))
STOP, HEARD = "phx.cmd.gang.stop_workers.v1.c.j", "phx.go.gang.stop_workers.v1.c.j"
ACT = "phx.go.node.act.v1.c.n1"
BODY = b'{"a": "command"}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "command-keys"
    file.write_text(f"# whose\nrecovery-planner {PLANNER.public}\n\ncli {CLI.public}\n")
    return file


def signed(key: UserKey, subject: str = STOP, body: bytes = BODY) -> dict[str, str]:
    return {HEADER: signature(key, subject, body)}


def test_the_planners_command_is_obeyed_where_it_was_said_and_where_it_is_heard(path: Path) -> None:
    keys = CommandKeys(path)
    keys.check(HEARD, signed(PLANNER), BODY)
    keys.check(STOP, signed(PLANNER), BODY)
    keys.check(ACT, signed(CLI, "phx.cmd.node.act.v1.c.n1"), BODY)


@pytest.mark.parametrize(
    ("subject", "headers", "body", "why"),
    [
        (HEARD, None, BODY, "nobody signed it"),
        (HEARD, {"Phalanx-Else": "x"}, BODY, "nobody signed it"),
        (HEARD, signed(STRANGER), BODY, "who is not in"),
        (HEARD, signed(CLI), BODY, "cli, who may not give it"),
        (HEARD, signed(PLANNER), BODY + b" ", "not for this command"),
        ("phx.go.gang.stop_workers.v1.c.other", signed(PLANNER), BODY, "not for this command"),
        ("phx.go.gang.end_job.v1.c.j", signed(PLANNER), BODY, "not for this command"),
        ("phx.go.gang.unknown.v1.c.j", signed(PLANNER), BODY, "who may not give it"),
        ("phx.go.nonsense", signed(PLANNER), BODY, "who may not give it"),
        (HEARD, {HEADER: PLANNER.public}, BODY, "not for this command"),
        (HEARD, {HEADER: f"{PLANNER.public} $$$"}, BODY, "not for this command"),
        (HEARD, {HEADER: f"{PLANNER.public} {signature(STRANGER, STOP, BODY).split()[1]}"}, BODY, "not for this"),
    ],
)
def test_everything_else_is_forged(
    path: Path, subject: str, headers: dict[str, str] | None, body: bytes, why: str
) -> None:
    with pytest.raises(ForgedCommand, match=why):
        CommandKeys(path).check(subject, headers, body)


def test_a_rotated_key_is_found_in_the_file_and_a_removed_one_is_not(path: Path) -> None:
    keys = CommandKeys(path)
    path.write_text(f"recovery-planner {STRANGER.public}\nrecovery-planner {PLANNER.public}\n")
    keys.check(HEARD, signed(STRANGER), BODY)
    keys.check(HEARD, signed(PLANNER), BODY)
    path.write_text("nonsense")
    with pytest.raises(ForgedCommand):
        keys.check(HEARD, signed(new_user_key(bytes([9]) * 32)), BODY)
    keys.check(HEARD, signed(PLANNER), BODY)  # what was read still counts while the file is half written
    path.write_text(f"recovery-planner {STRANGER.public}\n")
    with pytest.raises(ForgedCommand):
        keys.check(HEARD, signed(CLI), BODY)
    with pytest.raises(ForgedCommand):
        keys.check(HEARD, signed(PLANNER), BODY)


@pytest.mark.parametrize("text", ["", "# nothing\n", "recovery-planner\n", "king UABC\n", "recovery-planner UABC\n"])
def test_a_file_without_keys_ends_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys").write_text(text)
    with pytest.raises(PermanentError, match="PHALANX_COMMAND_KEYS"):
        CommandKeys(tmp_path / "keys")
    with pytest.raises(PermanentError, match="PHALANX_COMMAND_KEYS"):
        CommandKeys(tmp_path / "none")
    with pytest.raises(ValueError):  # noqa: PT011 - several kinds
        parse_command_keys(text)
