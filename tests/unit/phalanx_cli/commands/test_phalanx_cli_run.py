"""Where the nodes of a job meet, and what stays of old runs."""

import fcntl
import os
import re
import socket
from pathlib import Path

import pytest

from node_agent.adapters.launcher_flags import parse_launch
from node_agent.main import job_id_of
from phalanx_cli.commands.run import BadEndpoint, _meeting_point
from phalanx_cli.commands.run_folders import remove_old_runs
from phalanx_cli.stack.errors import StackError


def options(*argv: str):
    return parse_launch(["--nnodes", "2", *argv, "train.py"], {})


@pytest.fixture
def free_port() -> int:
    """A port that nobody has at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.asyncio
async def test_node_rank_0_hosts_the_bus_and_the_others_connect(free_port: int) -> None:
    endpoint = f"127.0.0.1:{free_port}"
    assert await _meeting_point(options("--rdzv-endpoint", endpoint, "--node-rank", "0")) == (
        "",
        ("127.0.0.1", free_port),
    )
    assert await _meeting_point(options("--rdzv-endpoint", endpoint, "--node-rank", "1")) == (
        f"nats://{endpoint}",
        None,
    )


@pytest.mark.asyncio
async def test_without_node_rank_the_owner_of_the_address_hosts(free_port: int) -> None:
    found = await _meeting_point(options("--rdzv-endpoint", f"localhost:{free_port}"))
    assert found[1] == ("localhost", free_port)
    assert (await _meeting_point(options("--rdzv-endpoint", "192.0.2.1:9")))[1] is None


@pytest.mark.asyncio
async def test_a_port_that_a_stranger_has_is_one_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx_cli.commands.run.GREETING_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        with pytest.raises(StackError, match=f"127.0.0.1:{port} cannot be used: Address already in use"):
            await _meeting_point(options("--rdzv-endpoint", f"127.0.0.1:{port}"))


@pytest.mark.asyncio
async def test_a_bus_that_is_there_already_is_joined() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        import threading

        def greet() -> None:
            connection, _ = server.accept()
            connection.sendall(b"INFO {}\r\n")

        threading.Thread(target=greet, daemon=True).start()
        port = server.getsockname()[1]
        url, listen = await _meeting_point(options("--rdzv-endpoint", f"127.0.0.1:{port}"))
        assert (url, listen) == (f"nats://127.0.0.1:{port}", None)


@pytest.mark.asyncio
async def test_the_port_defaults_to_torchruns_and_nonsense_is_refused() -> None:
    assert (await _meeting_point(options("--rdzv-endpoint", "192.0.2.1")))[0] == "nats://192.0.2.1:29400"
    with pytest.raises(BadEndpoint, match="HOST:PORT"):
        await _meeting_point(options("--rdzv-endpoint", "host:port"))


def test_a_job_without_a_name_gets_one_that_all_its_nodes_agree_on() -> None:
    assert job_id_of(options()) == "train"
    alone = job_id_of(parse_launch(["a/b/train.py"], {}))
    assert re.fullmatch(rf"train-\d{{8}}-\d{{6}}-{os.getpid()}", alone)
    assert job_id_of(options("--job-id", "llm")) == "llm"
    odd = job_id_of(parse_launch(["x" * 250 + ".py"], {}))
    assert len(odd) < 100, "a job id is a token of a subject"
    assert job_id_of(parse_launch(["--nnodes", "2", "a\nb.py"], {})) == "a_b"


def test_only_the_newest_runs_stay_and_a_running_one_is_never_touched(tmp_path: Path) -> None:
    runs = []
    for number in range(5):
        run = tmp_path / f"run{number}"
        run.mkdir()
        (run / "stack.lock").write_text("")
        os.utime(run, (1_000 + number, 1_000 + number))
        runs.append(run)
    with (runs[0] / "stack.lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert remove_old_runs(tmp_path, kept=2) == [runs[1], runs[2]]
    assert [run.exists() for run in runs] == [True, False, False, True, True]
    assert remove_old_runs(tmp_path / "none") == []
