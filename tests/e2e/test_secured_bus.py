"""`phalanx run` over a bus that knows everybody: TLS, an identity for each process, permissions from the registry.

The permissions must not only forbid: that nobody is denied anything, from the first start to the recovery, shows that
they are whole.
"""

from __future__ import annotations

import os
import signal
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import secured
from agent_process import AgentProcess
from secured import CLUSTER, SecuredServer

from fault_contracts.permissions import Holder, Role
from phalanx_cli.stack.services import SERVICES
from phalanx_cli.stack.stack import Stack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600), pytest.mark.asyncio]

CLI = ["-m", "phalanx_cli.main"]
RUN = [
    "-m",
    "phalanx_cli.main",
    "run",
    "--no-standby",
    "--nnodes",
    "2",
    "--nproc-per-node",
    "1",
    "--job-id",
    "safe job",
]
RANK = """
import os, sys, time
rank, restart = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
print(f"rank {rank} up, restart {restart}", flush=True)
end = time.monotonic() + 600
while not os.path.exists(sys.argv[1]) and time.monotonic() < end:
    time.sleep(0.05)
print(f"rank {rank} done", flush=True)
"""
START_S = 150.0
"""A dozen Python processes start in this test, on machines that may be busy."""


def environment(server: SecuredServer, name: str) -> dict[str, str]:
    """What one process is told of the bus."""
    return {
        "NATS_URL": server.tls_url,
        "PHALANX_CLUSTER": CLUSTER,
        "NATS_TLS_CA": str(server.folder.path / "ca.crt"),
        "PHALANX_COMMAND_KEYS": str(server.folder.path / "command-keys"),
        "NATS_NKEY_SEED_FILE": str(server.folder.identity_path(name)),
    }


def launcher(node: str, job: str = "") -> Holder:
    return Holder(role=Role.LAUNCHER, node=node, job=job)


def host(node: str) -> Holder:
    return Holder(role=Role.HOST, node=node)


def rank_of(agent: AgentProcess) -> int:
    children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
    [pid] = [int(pid) for pid in children if b"train.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return pid


async def phalanx(server: SecuredServer, cwd: Path, name: str, *argv: str) -> tuple[int, str]:
    run = AgentProcess([*CLI, *argv], cwd=cwd, env=environment(server, name))
    async with run:
        return await run.exit_code(timeout_s=START_S), run.text


async def test_a_gang_recovers_and_nobody_is_denied_anything(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANK)
    go_on = tmp_path / "go-on"
    holders = [launcher("a"), launcher("b", "safe job"), host("a")]
    server = SecuredServer(data_dir=tmp_path / "nats", folder=secured.make_folder(tmp_path, holders))
    server.start()
    specs = [replace(spec, env=environment(server, spec.name)) for spec in SERVICES]
    async with AsyncExitStack() as stack:
        stack.callback(server.stop)
        await stack.enter_async_context(Stack(tmp_path / "stack", CLUSTER, services=specs, nats_url=server.tls_url))
        agents = {}
        for holder in holders[:2]:
            argv = [*RUN, "--job-id", "safe job", "--cluster", CLUSTER, "--node-id", holder.node]
            argv += ["train.py", str(go_on)]
            agent = AgentProcess(argv, cwd=tmp_path, env=environment(server, holder.name))
            agents[holder.node] = await stack.enter_async_context(agent)
        watch = AgentProcess(
            [*CLI, "host", "--node-id", "a", "--data-dir", str(tmp_path / "host"), "--kmsg", "none"],
            cwd=tmp_path,
            env=environment(server, "host-a"),
        )
        await stack.enter_async_context(watch)
        for agent in agents.values():
            await agent.wait_line("up, restart 0", timeout_s=START_S)
        os.kill(rank_of(agents["b"]), signal.SIGKILL)
        for agent in agents.values():
            await agent.wait_line("up, restart 1", timeout_s=START_S)
        code, text = await phalanx(server, tmp_path, "cli", "job", "safe job", "--cluster", CLUSTER)
        assert code == 0, text
        assert "SIGKILL" in text
        code, text = await phalanx(server, tmp_path, "console", "node", "a", "--cluster", CLUSTER)
        assert "host_collector" in text, "the host role answers, and the question may be asked"
        order = ["node-action", "a", "validate", "--dry-run", "--cluster", CLUSTER, "--reason", "a test"]
        code, text = await phalanx(server, tmp_path, "cli", *order)
        assert code == 0, text
        go_on.touch()
        assert [await agent.exit_code(timeout_s=START_S) for agent in agents.values()] == [0, 0]
        watch.signal(signal.SIGTERM)
        assert await watch.exit_code(timeout_s=START_S) == 0
        said = [agent.text for agent in (*agents.values(), watch)]
    said += [path.read_text(errors="replace") for path in (tmp_path / "stack" / "logs").glob("*.log")]
    for log in (*said, (tmp_path / "nats" / "nats-server.log").read_text()):
        assert not [line for line in log.splitlines() if "ermissions violation" in line or "permission_denied" in line]
