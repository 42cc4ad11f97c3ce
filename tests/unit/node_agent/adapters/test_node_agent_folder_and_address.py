"""Names, folders, ports and addresses of an agent."""

import socket
from pathlib import Path

import pytest

from node_agent.adapters.agent_folder import folder_name, make_log_dir, take_agent_folder
from node_agent.adapters.free_port import ReservedPort
from node_agent.adapters.own_address import own_address, owns_address


def test_two_agents_of_one_job_on_one_host_get_two_names(tmp_path: Path) -> None:
    first = take_agent_folder(tmp_path, job_id="j", node_id="", host="h")
    second = take_agent_folder(tmp_path, job_id="j", node_id="", host="h")
    other_job = take_agent_folder(tmp_path, job_id="k", node_id="", host="h")
    assert [first.node_id, second.node_id, other_job.node_id] == ["h", "h-2", "h"]
    assert len({first.path, second.path, other_job.path}) == 3


def test_a_given_name_belongs_to_one_agent_at_a_time(tmp_path: Path) -> None:
    import os

    first = take_agent_folder(tmp_path, job_id="j", node_id="n0", host="h")
    with pytest.raises(OSError, match="another --node-id"):
        take_agent_folder(tmp_path, job_id="j", node_id="n0", host="h")
    os.close(first.lock_fd)
    assert take_agent_folder(tmp_path, job_id="j", node_id="n0", host="h").path == first.path


@pytest.mark.parametrize("name", ["../../etc", "a/b", "..", ".", "ü", "x" * 300, "a b"])
def test_no_name_leaves_its_folder(name: str) -> None:
    plain = folder_name(name)
    assert "/" not in plain
    assert plain not in (".", "..")
    assert len(plain) <= 120
    assert plain != folder_name(name + "'")


def test_a_plain_name_stays_readable() -> None:
    assert folder_name("llm-7b.v2") == "llm-7b.v2"


def test_a_log_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        make_log_dir(tmp_path / "file" / "logs")


def test_a_reserved_port_is_not_given_to_others_but_to_rank_0() -> None:
    port = ReservedPort()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port.number))
    with socket.socket() as store:
        store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        store.bind(("0.0.0.0", port.number))
        store.listen()
        with socket.create_connection(("127.0.0.1", port.number), timeout=2):
            pass
    old = port.number
    assert port.renew() != old
    port.close()


def test_the_address_is_the_given_one_loopback_or_the_way_to_the_bus() -> None:
    assert own_address("nats://10.9.9.9:4222", nnodes=2, local_addr="node7") == "node7"
    assert own_address("nats://10.9.9.9:4222", nnodes=1) == "127.0.0.1"
    assert own_address("nats://127.0.0.1:4222", nnodes=2) == "127.0.0.1"


def test_only_an_own_address_can_host_the_meeting_point() -> None:
    assert owns_address("127.0.0.1")
    assert owns_address("localhost")
    assert not owns_address("192.0.2.1")
    assert not owns_address("no-such-host.invalid")


@pytest.mark.parametrize(
    "name",
    [
        "..",
        ".",
        "../../etc",
        "/etc/passwd",
        "a/../../b",
        "a\\b",
        "a\0b",
        "~root",
        "\ud800",
        "-rf",
        "a\nb",
        "x" * 5_000,
        "\u202eb",
    ],
)
def test_no_name_leaves_the_folder(tmp_path: Path, name: str) -> None:
    folder = folder_name(name)
    assert "/" not in folder
    assert folder not in ("", ".", "..")
    assert len(folder) < 255, "NAME_MAX of Linux"
    path = take_agent_folder(tmp_path, job_id=name, node_id=name, host="h").path
    assert path.is_dir()
    assert path.resolve().parent.parent == (tmp_path / "agents").resolve()


def test_names_that_look_alike_have_folders_of_their_own() -> None:
    names = ["a/b", "a_b", "a\\b", "A_b", "..", "."]
    assert len({folder_name(name) for name in names}) == len(names)
