"""Whatever a script sends to the worker socket: told, counted, and nobody else's trouble.

The reports go into the agent's real use case, so that what the payloads refuse would show here too.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_worker_socket_real import HANDLE, until

from fault_contracts.agent import AgentPhase, CheckpointReported, JobSpec
from fault_contracts.envelope import Envelope
from node_agent.adapters.worker_output import rank_files
from node_agent.adapters.worker_socket import WorkerSocket
from node_agent.application.agent_life import AgentIdentity, AgentLife, JobProgram
from node_agent.application.block_reports import BlockReports
from node_agent.application.outgoing import Outgoing
from node_agent.application.ports import ProgramKind, TerminalCopy, WorkerHandle
from node_agent.application.relay_worker_reports import WorkerReportRelay
from node_agent.domain.block_ranks import begun
from node_agent.domain.progress import Progress
from node_agent.domain.worker_group import WorkerGroup
from service_kit.clock import SystemClock
from training_topology.identity import LocalRank, Rank
from worker_link.client import WorkerLink
from worker_link.frames import MAX_FRAME_BYTES, encode
from worker_link.messages import CheckpointSaved, Hello, Step, to_wire

BAD = replace(HANDLE, rank=Rank(0), local_rank=LocalRank(0), topology_version=1)
HELLO = encode(to_wire(Hello(rank=0, pid=1, topology_version=1)))


def frame(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


class Agent:
    """The socket, and the use case behind it; its outbox keeps everything."""

    def __init__(self, folder: Path) -> None:
        self.sent: list[Any] = []
        self.said: list[str] = []
        self.broken: list[dict[str, Any]] = []
        self.handles: dict[int, WorkerHandle] = {os.getpid(): BAD}
        identity = AgentIdentity(node_id="n", instance_id="i", job_id="j", address="127.0.0.1", host="h", pid=1)
        life = AgentLife(
            identity=identity,
            spec=JobSpec(nnodes=1, nproc_per_node=2),
            program=JobProgram(
                kind=ProgramKind.SCRIPT,
                program="train.py",
                args=(),
                cwd=folder,
                role="default",
                base_env={},
                files=lambda version, local_rank: rank_files(folder, "job", version, local_rank),
                terminal=lambda _local_rank: TerminalCopy(),
            ),
        )
        life.phase, life.topology_version, life.blocks = AgentPhase.RUNNING, 1, begun(1, 2)
        life.group = WorkerGroup(topology_version=1, first_rank=Rank(0), nproc=2)
        life.progress = Progress(expected=2)
        self.life = life
        outgoing = Outgoing(identity, SystemClock(), self)
        blocks = BlockReports(life, outgoing, SystemClock(), self)
        self.relay = WorkerReportRelay(life, outgoing, SystemClock(), self, blocks)
        self.socket = WorkerSocket(owner_of=self.handles.get, reports=self.relay)

    async def put(self, envelope: Envelope[Any], *, urgent: bool = False) -> None:
        assert envelope.to_bytes()
        self.sent.append(envelope.data)

    def say(self, line: str) -> None:
        self.said.append(line)

    def checkpoints(self, rank: int) -> list[int]:
        return [p.step for p in self.sent if isinstance(p, CheckpointReported) and p.rank == rank]


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Agent]:
    agent = Agent(folder)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: agent.broken.append(context))
    await agent.socket.start()
    try:
        yield agent
    finally:
        await agent.socket.close()
    assert agent.broken == [], "an exception reached the loop"


async def send(agent: Agent, data: bytes) -> None:
    """One connection that says this and is closed by either side."""
    reader, writer = await asyncio.open_unix_connection(str(agent.socket.path))
    writer.write(data)
    writer.write_eof()
    try:
        async with asyncio.timeout(20):
            await reader.read()
    except ConnectionError:
        pass  # refused: that is an answer
    writer.close()


TEXTS = st.text(st.characters(codec=None, categories=["L", "N", "P", "Cs", "Cc"]), max_size=200) | st.just("x" * 5000)
NUMBERS = st.integers() | st.integers(2**62, 2**70) | st.floats() | st.just(10**400)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=4) | st.dictionaries(TEXTS, v, max_size=4), max_leaves=8)
TYPES = ["hello", "step", "checkpoint_saved", "rank_labels", "restart_request", "block_entered", "block_faulted"]
TYPES += ["at_barrier", "block_finished", "welcome", "go", "abort", "from_the_future"]
FIELDS = ["rank", "pid", "token", "topology_version", "step", "phase", "at_monotonic_s", "path", "kind", "writers"]
FIELDS += ["labels", "mode", "reason", "error_type", "message", "callstack", "healthy", "env", "checkpoint_step"]
GOOD = {"topology_version": 1, "step": 3, "at_monotonic_s": 1.0, "path": "/c", "mode": "job", "reason": "r"}
GOOD |= {"labels": {"dp": "0"}, "healthy": True, "error_type": "E", "message": "m", "rank": 0, "pid": 1}
MESSAGES = st.builds(
    lambda kind, odd: {"type": kind, **GOOD, **odd},
    st.sampled_from(TYPES) | VALUES,
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3),
)
FRAMES = MESSAGES.map(lambda m: frame(json.dumps(m).encode("utf-8", "surrogatepass"))) | MESSAGES.map(
    lambda m: frame(json.dumps(m, ensure_ascii=False).encode("utf-8", "surrogatepass"))
)
BYTES = st.binary(max_size=64) | st.binary(max_size=64).map(frame)
STREAMS = st.lists(FRAMES | BYTES, max_size=5).map(b"".join)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(streams=st.lists(st.tuples(st.booleans(), STREAMS, st.integers(0, 400)), min_size=1, max_size=6))
def test_no_stream_of_frames_disturbs_the_agent_or_another_connection(
    tmp_path_factory: pytest.TempPathFactory, streams: list[tuple[bool, bytes, int]]
) -> None:
    async def story() -> None:
        async with serving(tmp_path_factory.getbasetemp()) as agent:
            for greets, stream, cut in streams:
                data = (HELLO if greets else b"") + stream
                await send(agent, data if cut > len(data) else data[: len(data) - cut])
            wanted = 7_000_001
            last = encode(to_wire(CheckpointSaved(step=wanted, path="/good")))
            await send(agent, HELLO + last)
            await until(lambda: wanted in agent.checkpoints(0))

    asyncio.run(story())


NESTED = [
    frame(b'{"type":"step","phase":' + b"[" * n + b"]" * n + b',"step":1,"at_monotonic_s":1}') for n in (9, 30_000)
]
NESTED += [  # the parser's own limit lies between these; just below it, a value that was read cannot be written out
    frame(b'{"type":"step","at_monotonic_s":1,"step":1,"phase":' + b'{"a":' * n + b"1" + b"}" * n + b"}")
    for n in range(880, 1000)
]
REFUSED = {
    "nested": (NESTED, ""),
    "too large": ([struct.pack(">I", MAX_FRAME_BYTES + 1)], "at most 65536"),
    "huge length": ([b"\xff" * 4], "at most 65536"),
    "not utf-8": ([frame(b'{"type":"\xff"}')], "not JSON"),
    "half a character": ([frame(rb'{"type":"checkpoint_saved","step":1,"path":"\ud800"}')], "path must be"),
    "raw half a character": ([frame(b'{"type":"rank_labels","labels":{"a":"\xed\xa0\x80"}}')], "not JSON"),
    "half a label": ([frame(rb'{"type":"rank_labels","labels":{"\udfff":"1"}}')], "labels must be"),
    "utf-16": ([frame('{"type":"step"}'.encode("utf-16"))], "not JSON"),
    "NaN": ([frame(b'{"type":"step","step":1,"at_monotonic_s":NaN}')], "NaN is not JSON"),
    "infinity": ([frame(b'{"type":"step","step":1,"at_monotonic_s":1e999}')], "at_monotonic_s must be"),
    "digits": ([frame(b'{"type":"step","step":' + b"9" * 60_000 + b"}")], "not JSON"),
    "big step": ([frame(b'{"type":"step","at_monotonic_s":1,"step":9223372036854775808}')], "step must be"),
    "array": ([frame(b"[1]")], "not an object"),
    "empty": ([frame(b"")], "not JSON"),
    "two hellos, another rank": ([encode(to_wire(Hello(rank=1, pid=1, topology_version=1)))], "claims rank 1"),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("case", REFUSED)
async def test_each_known_trick_is_told_counted_and_loses_nothing_before_it(tmp_path: Path, case: str) -> None:
    frames, words = REFUSED[case]
    async with serving(tmp_path) as agent:
        for number, bad in enumerate(frames, start=1):
            before = encode(to_wire(CheckpointSaved(step=number, path="/before")))
            await send(agent, HELLO + before + bad)
            await until(lambda: agent.relay.bad_clients >= number)  # noqa: B023  waited for in this round
        assert agent.relay.bad_clients == len(frames)
        assert agent.checkpoints(0) == list(range(1, len(frames) + 1))
        assert words in agent.said[0]
        assert len(agent.said) <= 5, "the terminal is not filled"


ATTACKS = {
    "connects": """
        held = []
        for n in range(3000):
            try:
                s = socket.socket(socket.AF_UNIX); s.connect(path)
                if n % 3: s.close()
                else: held.append(s)
            except OSError:
                pass
            if n % 400 == 0 and len(held) > 300:
                [h.close() for h in held]; held = []
    """,
    "slow": """
        held = []
        for _ in range(100):
            s = socket.socket(socket.AF_UNIX); s.connect(path); held.append(s)
        for byte in hello[:12]:
            for s in held:
                try: s.send(bytes([byte]))
                except OSError: pass
            time.sleep(0.02)
    """,
    "flood": """
        s = socket.socket(socket.AF_UNIX); s.connect(path); s.settimeout(20)
        try:
            s.sendall(hello + step * 60_000)
        except OSError:
            pass
    """,
}


@contextmanager
def attacker(code: str, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    lines = "\n".join(line[8:] for line in code.splitlines())
    hello = encode(to_wire(Hello(rank=1, pid=1, topology_version=1)))
    step = encode(to_wire(Step(step=1, at_monotonic_s=1.0)))
    head = f"import socket, sys, time\npath, hello, step = {str(path)!r}, {hello!r}, {step!r}\nsys.stdin.read(1)\n"
    process = subprocess.Popen([sys.executable, "-c", head + lines], stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ATTACKS)
async def test_a_rank_that_misbehaves_does_not_silence_its_sibling(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path) as agent:
        before = open_fds()
        most = 0
        with attacker(ATTACKS[name], agent.socket.path) as process:
            agent.handles[process.pid] = replace(BAD, rank=Rank(1), local_rank=LocalRank(1), pid=process.pid)
            assert process.stdin is not None
            process.stdin.write(b"x")
            process.stdin.flush()
            link = WorkerLink(socket_path=str(agent.socket.path), rank=0, topology_version=1)
            said = 0
            async with asyncio.timeout(60):
                while process.poll() is None or said < 20:
                    said += 1
                    link.checkpoint_saved(said, "/good")
                    most = max(most, open_fds() - before)
                    await asyncio.sleep(0.01)
            await until_sent(agent, link, said)
            assert agent.checkpoints(0) == list(range(1, said + 1))
            link.close()
        # Those that were taken, and what is accepted and refused within three turns of the loop.
        assert most < 32 + 3 * 64 + 20, f"{most} descriptors for one rank's connections"
        if name != "flood":
            assert agent.relay.bad_clients > 0
        await until(lambda: open_fds() <= before + 2)


async def until_sent(agent: Agent, link: WorkerLink, count: int) -> None:
    """The last report may wait for the link's next try."""

    def arrived() -> Callable[[], bool] | bool:
        link.flush()
        return len(agent.checkpoints(0)) >= count

    await until(arrived)


@pytest.mark.asyncio
async def test_another_users_process_is_refused_whatever_the_file_mode_says(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    async with serving(tmp_path) as agent:
        code = f"""
import os, socket
os.setgroups([]); os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX)
try:
    s.connect({str(agent.socket.path)!r})
except PermissionError:
    print("closed door")
"""
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
        assert (await process.communicate())[0] == b"closed door\n"
        agent.socket.path.parent.chmod(0o755)
        agent.socket.path.chmod(0o666)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
        assert await process.wait() == 0
        await until(lambda: agent.relay.bad_clients)
        assert "user 65534 is not the job's user" in agent.said[0]
