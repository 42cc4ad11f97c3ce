"""Flags and token of the status API: what they give, and what is refused with what to do."""

from pathlib import Path

import pytest

from node_agent.adapters.launcher_flags import parse_launch
from node_agent.adapters.status_options import StatusOptions
from service_kit.web.token import BadToken

TOKEN = "a-token-of-enough-length"


def test_without_flags_there_is_the_private_socket_alone() -> None:
    status = parse_launch(["t.py"], {}).status
    assert status == StatusOptions(socket="", port=None)
    assert status.read_token() is None


def test_flags_and_environment_are_taken() -> None:
    argv = ["--status-socket", "/run/s", "--status-port", "0", "--status-host", "::", "t.py"]
    status = parse_launch(argv, {"PHALANX_STATUS_TOKEN": TOKEN}).status
    assert (status.socket, status.port, status.host) == ("/run/s", 0, "::")
    token = status.read_token()
    assert token is not None
    assert token.admits(f"bearer {TOKEN}".encode())
    assert not token.admits(TOKEN.encode())
    assert not token.admits(b"")
    assert TOKEN not in repr(token)
    assert parse_launch(["--status-host", "localhost", "--status-port", "1", "t.py"], {}).status.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--status-port", "65536"], "0 to 65535"),
        (["--status-port", "-1"], "0 to 65535"),
        (["--status-port", "http"], "--status-port"),
        (["--status-host", "node0", "--status-port", "1"], "give an IP address"),
        (["--status-host", "0.0.0.0", "--status-port", "1"], "set PHALANX_STATUS_TOKEN"),
    ],
)
def test_a_mistake_is_one_message(capsys: pytest.CaptureFixture[str], argv: list[str], words: str) -> None:
    with pytest.raises(SystemExit) as left:
        parse_launch([*argv, "t.py"], {})
    assert left.value.code == 2
    assert words in capsys.readouterr().err


def test_a_token_file_is_read_with_its_newline_and_a_bad_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    token = StatusOptions(token_file=str(file)).read_token()
    assert token is not None
    assert token.secret == TOKEN.encode()
    for content in (b"", b"short\n", b"\xff" * 20, b"tabs\tare\tnot printable"):
        file.write_bytes(content)
        with pytest.raises(BadToken, match=str(file)):
            StatusOptions(token_file=str(file)).read_token()
