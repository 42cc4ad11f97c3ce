"""The status API over a real Unix socket and real TCP, with real ranks behind it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from status_rig import status_rig
from worker_rig import read

from node_agent.adapters import status_rank_files, status_server
from node_agent.adapters.status_api import StatusUnavailable
from node_agent.adapters.status_options import StatusOptions

UP = "import time\ndef busy():\n    print('up', flush=True)\n    time.sleep(600)\nbusy()\n"
TOKEN = "a-token-of-enough-length"


def test_an_agent_that_nobody_asks_loads_no_web_framework() -> None:
    code = "import sys, node_agent.main; print([m for m in ('fastapi', 'starlette', 'uvicorn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.asyncio
async def test_every_page_answers_over_the_private_socket(tmp_path: Path) -> None:
    async with status_rig(tmp_path) as s:
        assert s.socket == str(tmp_path / "status.sock")
        assert stat.S_IMODE(os.stat(s.socket).st_mode) == 0o600
        await s.start_rank(UP, rank=0)
        await s.start_rank(UP, rank=1)
        await s.ranks.text_of(s.ranks.stdout(0), "up")
        status = (await s.get("/status")).json
        assert (status["job_id"], status["phase"], status["topology_version"]) == ("job", "running", 1)
        ranks = (await s.get("/ranks")).json
        assert [(r["rank"], r["pid"], r["state"]) for r in ranks] == [
            (h.rank, h.pid, "running") for h in s.life.handles
        ]
        assert (await s.get("/healthz")).json == {"health": "ok"}
        tail = (await s.get("/logs/tail?rank=0&stream=stdout&lines=5")).json
        assert (tail["lines"], tail["path"]) == (["up"], str(s.ranks.stdout(0)))
        stacks = (await s.get("/stacks?rank=0")).json
        assert stacks["taken"], stacks
        main = next(thread for thread in stacks["threads"] if thread["is_main"])
        assert main["frames"][0]["function"] == "busy"
        assert "in busy" in stacks["raw"]
        assert s.ranks.workers.running() == tuple(s.life.handles), "the ranks go on"
        paths = (await s.get("/openapi.json")).json["paths"]
        assert {method for path in paths.values() for method in path} == {"get"}, "nothing here writes"
    assert not (tmp_path / "status.sock").exists()


@pytest.mark.asyncio
async def test_a_stopped_rank_is_seen_and_gives_no_stacks(tmp_path: Path) -> None:
    async with status_rig(tmp_path) as s:
        await s.start_rank(UP)
        await s.ranks.text_of(s.ranks.stdout(0), "up")
        os.kill(s.life.handles[0].pid, signal.SIGSTOP)
        async with asyncio.timeout(10):
            while (await s.get("/ranks")).json[0]["state"] != "stopped":  # noqa: ASYNC110  the kernel tells nobody
                await asyncio.sleep(0.01)
        view = (await s.get("/stacks?rank=0")).json
        assert not view["taken"]
        assert "process state T" in view["reason"]


@pytest.mark.asyncio
async def test_a_rank_that_would_die_of_the_signal_gets_none(tmp_path: Path) -> None:
    async with status_rig(tmp_path) as s:
        await s.start_rank("import os; os.execvp('sleep', ['sleep', '600'])")
        async with asyncio.timeout(20):
            while read(Path(f"/proc/{s.life.handles[0].pid}/comm")).strip() != "sleep":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert "no handler" in (await s.get("/stacks?rank=0")).json["reason"]
        assert (await s.get("/ranks")).json[0]["state"] == "running"


@pytest.mark.asyncio
async def test_no_dump_goes_into_a_file_that_took_the_place_of_the_stacks_file(tmp_path: Path) -> None:
    async with status_rig(tmp_path) as s:
        await s.start_rank(
            "import os, time\nos.closerange(3, 256)\n"
            "files = [open(f'mine-{n}', 'wb', buffering=0) for n in range(20)]\n"
            "print('up', flush=True)\ntime.sleep(600)"
        )
        await s.ranks.text_of(s.ranks.stdout(0), "up")
        assert "closed its stacks file" in (await s.get("/stacks?rank=0")).json["reason"]
        assert [read(tmp_path / f"mine-{n}") for n in range(20)] == [""] * 20


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("target", "status", "words"),
    [
        ("/nothing", 404, "/logs/tail?rank=N"),
        ("/stacks?rank=7", 404, "ranks here: 0"),
        ("/stacks", 400, "rank: Field required"),
        ("/logs/tail?rank=0&lines=100000", 400, "lines: "),
        ("/logs/tail?rank=0&stream=secrets", 400, "stdout"),
        ("/logs/tail?rank=-1", 400, "rank: "),
        ("/logs/tail?rank=../../etc/passwd", 400, "rank: "),
        (f"/stacks?rank={10**40}", 400, "rank: "),
    ],
)
async def test_a_mistake_is_answered_with_what_to_do(tmp_path: Path, target: str, status: int, words: str) -> None:
    async with status_rig(tmp_path) as s:
        await s.start_rank(UP)
        answer = await s.get(target)
        assert answer.status == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json["status"] == status
        assert words in answer.json["detail"]


@pytest.mark.asyncio
async def test_writing_is_not_possible_and_asking_too_often_is_said(tmp_path: Path) -> None:
    async with status_rig(tmp_path) as s:
        await s.start_rank(UP)
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            answer = await s.get("/status", method=method)
            assert (answer.status, answer.json["detail"]) == (405, "this API only reads; use GET")
        await s.get("/stacks?rank=0")
        again = await s.get("/stacks?rank=0")
        assert (again.status, int(again.headers["retry-after"]) > 0) == (429, True)
        async with asyncio.timeout(60):
            while (answer := await s.get("/healthz")).status == 200:
                pass
        assert (answer.status, "too many requests" in answer.json["detail"]) == (429, True)


@pytest.mark.asyncio
async def test_metrics_are_prometheus_text_with_few_labels(tmp_path: Path) -> None:
    async with status_rig(tmp_path) as s:
        await s.start_rank(UP)
        s.life.notes.step(s.life.handles[0].local_rank, 1, 12, now_s=0.0)
        answer = await s.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        lines = answer.body.decode().splitlines()
        assert 'phalanx_agent_phase{phase="running"} 1.0' in lines
        assert 'phalanx_agent_ranks{state="running"} 1.0' in lines
        assert 'phalanx_rank_step{local_rank="0"} 12.0' in lines
        assert "phalanx_agent_bad_clients_total 0.0" in lines
        assert any(line.startswith("process_resident_memory_bytes ") for line in lines)
        names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
        assert len(names) == len(set(names))


@pytest.mark.asyncio
async def test_a_file_system_that_hangs_holds_one_answer_and_not_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr(status_rank_files, "_tail", lambda *_: release.wait(60))
    monkeypatch.setattr(status_rank_files, "READ_LIMIT_S", 0.3)
    async with status_rig(tmp_path) as s:
        await s.start_rank(UP)
        waiting = asyncio.create_task(s.get("/logs/tail?rank=0"))
        assert (await s.get("/healthz")).status == 200
        assert not waiting.done()
        answer = await waiting
        release.set()
        assert (answer.status, "does not answer" in answer.json["detail"]) == (504, True)


@pytest.mark.asyncio
async def test_a_port_with_a_token_admits_nobody_without_it(tmp_path: Path) -> None:
    async with status_rig(tmp_path, StatusOptions(port=0, token=TOKEN)) as s:
        answer = await s.get("/status", tcp=True)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "bearer")
        for wrong in ("Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x"):
            assert (await s.get("/logs/tail?rank=0", tcp=True, head=f"Authorization: {wrong}\r\nHost: a")).status == 401
        good = f"Host: node-7.cluster\r\nAuthorization: Bearer {TOKEN}"
        assert (await s.get("/status", tcp=True, head=good)).status == 200
        assert (await s.get("/status")).status == 200, "the socket's mode is its token"
        assert TOKEN not in "".join(s.said)


@pytest.mark.asyncio
async def test_a_port_without_a_token_answers_to_loopback_names_only(tmp_path: Path) -> None:
    async with status_rig(tmp_path, StatusOptions(socket="none", port=0)) as s:
        assert not (tmp_path / "status.sock").exists()
        for host in ("localhost", "127.0.0.1:80", "[::1]:80", "LOCALHOST:1"):
            assert (await s.get("/healthz", tcp=True, head=f"Host: {host}")).status == 200
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example"):
            assert (await s.get("/healthz", tcp=True, head=f"Host: {host}")).status == 421


@pytest.mark.asyncio
async def test_what_cannot_be_opened_is_refused_and_a_left_over_socket_is_taken_over(tmp_path: Path) -> None:
    wanted = tmp_path / "here.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(wanted))
    async with status_rig(tmp_path, StatusOptions(socket=str(wanted))) as s:
        assert (await s.get("/healthz")).status == 200
        for options, words in (
            (StatusOptions(socket=str(wanted)), "another process listens"),
            (StatusOptions(socket=str(tmp_path / "no" / "s")), "No such file"),
            (StatusOptions(socket=f"/tmp/{'x' * 200}"), "at most 107 bytes"),
            (StatusOptions(socket="none", port=0, token="short"), "at least 16"),
            (StatusOptions(socket="none", port=0, token_file="/nowhere/token"), "cannot be read"),
        ):
            with pytest.raises(StatusUnavailable, match=words):
                s.api.open(options, tmp_path)
        (tmp_path / "file").write_text("precious")
        with pytest.raises(StatusUnavailable, match="a file of that name"):
            s.api.open(StatusOptions(socket=str(tmp_path / "file")), tmp_path)
        assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.asyncio
async def test_a_folder_with_a_long_path_has_its_socket_elsewhere(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    async with status_rig(deep) as s:
        assert len(s.socket) < 108
        assert (await s.get("/healthz")).status == 200
        used = Path(s.socket)
    assert not used.parent.exists()


@pytest.mark.asyncio
async def test_a_broken_installation_is_told_and_the_agent_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with status_rig(tmp_path) as s:
        server = s.api._server
        assert isinstance(server, status_server.StatusServer)
        monkeypatch.setitem(sys.modules, "service_kit.web.site", None)
        with pytest.raises((ConnectionError, IndexError)):
            await s.get("/status")
        assert any("cannot be served" in line for line in s.said)
