"""Failure drills: parts of the system itself fail while a job trains; real processes on machines of their own.

After each: the job trains to its end with the unfailed run's states, no rank was started twice in a generation, nothing
that the bus acknowledged is lost, every checkpoint that a rank told its agent is stored, the journal has no hole and
every incident an end. `make drills` runs them and prints a table; `make check` does not: each takes a minute or more.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from drill_net import why_not
from drill_rig import DrillRig
from drill_servers import shift, why_no_fake_time

pytestmark = [pytest.mark.drill, pytest.mark.asyncio, pytest.mark.timeout(420)]

TABLE = os.environ.get("PHALANX_DRILL_TABLE", "")
"""File that gets a JSON line for each drill."""
CUT_S = 60.0
"""Longer than every time-out of the bus and than the planner's wait for a silent agent (15 s)."""


@pytest.fixture(autouse=True)
def machines() -> None:
    """Skip with the reason where no machines can be made."""
    reason = why_not()
    if reason:
        pytest.skip(reason)


async def drill(rig: DrillRig, name: str, act: Callable[[DrillRig], Awaitable[dict[str, str]]]) -> None:
    """Train, act, check, and write the row of the table."""
    begun_s = time.monotonic()
    async with rig:
        await rig.train()
        measured = await act(rig)
        counted = await rig.check_all()
    row = {"drill": name, **measured, **counted, "whole drill": f"{time.monotonic() - begun_s:.0f} s"}
    print(json.dumps(row), flush=True)
    if TABLE:
        _append(Path(TABLE), json.dumps(row))


async def killed_rank(rig: DrillRig, rank: int) -> float:
    """SIGKILL of a rank; seconds until the next generation trains."""
    begun_s = time.monotonic()
    rig._signal_rank(rank, signal.SIGKILL)
    await rig.recovered(f"the gang after the kill of rank {rank}")
    return time.monotonic() - begun_s


async def test_the_server_that_leads_the_control_stream_dies(tmp_path: Path) -> None:
    """Three nats-servers, R3: its leader is killed, a rank dies at once after it, and the server comes back."""

    async def act(rig: DrillRig) -> dict[str, str]:
        leader = rig.servers.stream_leader("CONTROL")
        server = rig.servers.programs[leader]
        server.kill()
        took_s = await killed_rank(rig, 3)
        server.start()
        healthy_s = await killed_rank(rig, 1)
        assert rig.servers.stream_leader("CONTROL"), "nobody leads"
        return {"recovered without it": f"{took_s:.1f} s", "recovered with it": f"{healthy_s:.1f} s"}

    await drill(DrillRig(tmp_path, nats_servers=3), "NATS leader killed, R3", act)


async def test_an_agent_without_the_bus_trains_on_and_tells_afterwards(tmp_path: Path) -> None:
    """A minute without the bus, with its peers in reach: no restart, no event lost."""

    async def act(rig: DrillRig) -> dict[str, str]:
        node, others = rig.holder(3), [*rig.servers.nats, *rig.servers.cores]
        rig.net.cut(node, others)
        before = rig.steps_done()
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < CUT_S:
            await rig.trains_on("steps without the bus", steps=5)
        steps = rig.steps_done() - before
        rig.net.heal(node, others)
        await rig.trains_on("steps after it", steps=20)
        return {"steps without the bus": str(steps)}

    await drill(DrillRig(tmp_path), f"agent cut off from the bus for {CUT_S:g} s", act)


async def test_a_rank_dies_on_a_node_without_the_bus(tmp_path: Path) -> None:
    """The node cannot tell: it counts as lost, the spare takes its ranks, and it does not train beside it."""

    async def act(rig: DrillRig) -> dict[str, str]:
        node, others = rig.holder(3), [*rig.servers.nats, *rig.servers.cores]
        rig.net.cut(node, others)
        took_s = await killed_rank(rig, 3)
        assert rig.holder(3) != node, "the ranks are where nobody can be reached"
        rig.net.heal(node, others)
        again_s = await killed_rank(rig, 0)
        return {"recovered on the spare": f"{took_s:.1f} s", "next one, node back": f"{again_s:.1f} s"}

    await drill(DrillRig(tmp_path), "a rank dies on a node without the bus", act)


async def test_the_replicas_of_planner_and_classifier_are_killed_in_mid_recovery(tmp_path: Path) -> None:
    """Two of each: the leading planner and one classifier die right after the fault; then the other ones."""

    async def act(rig: DrillRig) -> dict[str, str]:
        times = []
        for round_number in range(2):
            leader = rig.servers.leading_planner()
            classifier = rig.servers.of("fault_classifier")[round_number]
            begun_s = time.monotonic()
            rig._signal_rank(round_number, signal.SIGKILL)
            leader.kill()
            classifier.kill()
            await rig.recovered("the gang, by the other planner")
            times.append(time.monotonic() - begun_s)
            assert rig.servers.leading_planner() is not leader, "the dead one leads"
            for program in (leader, classifier):
                program.start()
                await program.is_ready()
        return {"recovered": ", ".join(f"{each:.1f} s" for each in times)}

    await drill(DrillRig(tmp_path, replicas=2), "leading planner and a classifier killed", act)


async def test_valkey_loses_everything_and_goes_away(tmp_path: Path) -> None:
    """Flushed at a fault, then killed for good: no decision depends on it."""

    async def act(rig: DrillRig) -> dict[str, str]:
        rig._signal_rank(2, signal.SIGKILL)
        rig.servers.flush_valkey()
        await rig.recovered("the gang after the flush")
        rig.servers.programs["valkey"].kill()
        took_s = await killed_rank(rig, 1)
        return {"recovered without Valkey": f"{took_s:.1f} s"}

    await drill(DrillRig(tmp_path), "Valkey flushed, then killed", act)


async def test_the_disk_under_jetstream_is_full(tmp_path: Path) -> None:
    """Training goes on; after somebody made room and started the server again, all that was held back is stored."""

    async def act(rig: DrillRig) -> dict[str, str]:
        disk = rig.servers.disk
        assert disk is not None
        filler = disk / "filler"
        _fill(filler)
        acked = len(rig.probe.acked)
        await rig.trains_on("steps with a full disk", steps=100)
        rig._signal_rank(3, signal.SIGKILL)
        await asyncio.sleep(3)  # the fault stands while nothing can be written
        refused = len(rig.probe.acked) - acked
        filler.unlink()
        server = rig.servers.programs["nats1"]
        begun_s = time.monotonic()
        server.kill()
        server.start()
        await rig.recovered("the gang after there was room")
        return {"acknowledged while full": str(refused), "recovered after": f"{time.monotonic() - begun_s:.1f} s"}

    await drill(DrillRig(tmp_path, disk_mib=64), "disk full under JetStream", act)


async def test_a_slow_link_delays_and_loses_nothing(tmp_path: Path) -> None:
    """What one node sends goes out with 256 kbit/s: training is slow, a fault there is recovered from."""

    async def act(rig: DrillRig) -> dict[str, str]:
        node = rig.holder(3)
        rig.net.slow(node, kbit_s=256)
        await rig.trains_on("steps over the slow link", steps=20)
        took_s = await killed_rank(rig, 3)
        rig.net.quick(node)
        return {"recovered over the slow link": f"{took_s:.1f} s"}

    await drill(DrillRig(tmp_path), "slow link, 256 kbit/s", act)


@pytest.mark.skipif(bool(why_no_fake_time()), reason=why_no_fake_time())
@pytest.mark.parametrize("jump_s", [3600, -3600])
async def test_clocks_jump(tmp_path: Path, jump_s: int) -> None:
    """The wall clock of the planner, and then of a node, jumps by an hour; a rank dies after each."""

    async def act(rig: DrillRig) -> dict[str, str]:
        planner = rig.servers.leading_planner()
        shift(rig.servers.folder / f"{planner.name}.time", jump_s)
        planner_s = await killed_rank(rig, 2)
        shift(rig.clock_of(rig.holder(3)), -jump_s)
        node_s = await killed_rank(rig, 3)
        return {"planner's clock": f"{planner_s:.1f} s", "node's clock": f"{node_s:.1f} s"}

    await drill(DrillRig(tmp_path, clocks=True), f"clocks jump by {jump_s:+d} s", act)


def _append(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")


def _fill(path: Path) -> None:
    """Write until nothing more fits."""
    with path.open("wb", buffering=0) as file:
        block = b"\0" * (1 << 16)
        while block:
            try:
                file.write(block)
            except OSError:
                block = block[: len(block) // 2]
