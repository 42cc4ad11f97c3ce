"""`phalanx host` as a process on a real bus: what it tells, what `phalanx node` shows, and what survives kills."""

import asyncio
import json
import os
import signal
from collections import defaultdict
from pathlib import Path

import pytest
from host_cast import LIMIT_S, Machine, Told, host_process, node_row, phalanx, told_on

from fault_contracts.health import SignalObserved, SignalsObserved
from fault_contracts.inventory import InventoryReported
from fault_contracts.payload import Health
from phalanx_cli.stack.nats_server import NatsServer

pytestmark = [pytest.mark.integration, pytest.mark.asyncio, pytest.mark.timeout(300)]


def link_is(health: Health, instance_id: str = "") -> object:
    """A sweep that says so of the link."""

    def wanted(sweep: SignalsObserved) -> bool:
        ours = not instance_id or sweep.instance_id == instance_id
        return ours and any((one.check, one.health) == ("nic_link", health) for one in sweep.samples)

    return wanted


async def nothing_doubled_or_lost(told: Told, instances: int) -> None:
    """Each life counts its sweeps; the stream has every number once."""
    numbers = defaultdict(list)
    for sweep in await told.all(SignalsObserved):
        numbers[sweep.instance_id].append(sweep.sweep)
    assert len(numbers) == instances
    for counted in numbers.values():
        assert counted == list(range(len(counted)))


async def test_a_machine_is_watched_and_shown(tmp_path: Path, nats_server: NatsServer, unique_name: str) -> None:
    machine, url = Machine(tmp_path), nats_server.url
    told = await told_on(url, unique_name)
    try:
        async with host_process(machine, url=url, cluster=unique_name) as host:
            whole = await told.until(lambda sweep: sweep.whole)
            assert whole.boot_id.startswith("7d0c2a5e")
            assert {"nic_link", "nic_count", "disk_space", "host_collector"} <= {one.check for one in whole.samples}
            machine.link(up=False)
            await told.until(link_is(Health.BAD))
            row = await node_row(url, unique_name, "nic_link", "bad")
            assert (row["component_id"], row["source"]) == ("0c42:a103:00a1:b2c4", "network")
            assert row["age_s"] < 60
            code, text = await phalanx(url, unique_name, "node", "n1")
            assert code == 1
            assert "mlx5_0/1: down, and it was up before" in text
            code, text = await phalanx(url, unique_name, "nodes")
            assert code == 1
            assert [line.split()[:2] for line in text.splitlines()[1:]] == [["n1", "bad"]]
            before = len(await told.all(SignalsObserved))
            machine.link(up=True)
            await told.until(link_is(Health.OK), after=before)
            (inventory,) = await told.all(InventoryReported)
            assert [(one.device_id, one.name) for one in inventory.devices] == [("0c42:a103:00a1:b2c4", "mlx5_0")]
            card = json.loads((machine.data / "hosts/n1/host.json").read_text())
            assert (card["pid"], card["node_id"], card["kmsg_path"]) == (host.pid, "n1", "none")
            host.signal(signal.SIGTERM)
            assert await host.exit_code() == 0
        await nothing_doubled_or_lost(told, 1)
        code, text = await phalanx(url, unique_name, "node", "n1")
        assert code == 3
        assert "no host role listens under this name: everything that it watches is unknown" in text
    finally:
        await told.connection.close()


async def test_a_second_host_role_of_a_machine_is_refused(
    tmp_path: Path, nats_server: NatsServer, unique_name: str
) -> None:
    machine = Machine(tmp_path)
    async with host_process(machine, url=nats_server.url, cluster=unique_name) as first:
        await first.wait_line("host_watches")
        async with host_process(machine, url=nats_server.url, cluster=unique_name) as second:
            assert await second.exit_code() == 78
            assert "a host role named n1 runs" in second.text


async def test_what_was_seen_without_a_bus_is_told_when_it_is_back(
    tmp_path: Path, fresh_nats: NatsServer, unique_name: str
) -> None:
    machine = Machine(tmp_path)
    told = await told_on(fresh_nats.url, unique_name)
    try:
        async with host_process(machine, url=fresh_nats.url, cluster=unique_name) as host:
            first = await told.until(lambda sweep: sweep.whole)
            fresh_nats.kill()
            await host.wait_line("bus_disconnected")
            machine.link(up=False)
            await host.wait_line("outbox_waits")
            fresh_nats.start()
            before = len(await told.all(SignalsObserved))
            await told.until(link_is(Health.BAD, first.instance_id))
            await told.until(lambda sweep: sweep.whole and sweep.sweep > 0, after=before)
            host.signal(signal.SIGTERM)
            assert await host.exit_code() == 0
        await nothing_doubled_or_lost(told, 1)
    finally:
        await told.connection.close()


async def test_what_a_killed_host_role_had_seen_is_told_by_its_next_life(
    tmp_path: Path, fresh_nats: NatsServer, unique_name: str
) -> None:
    machine = Machine(tmp_path)
    told = await told_on(fresh_nats.url, unique_name)
    try:
        async with host_process(machine, url=fresh_nats.url, cluster=unique_name) as host:
            first = await told.until(lambda sweep: sweep.whole)
            fresh_nats.kill()
            await host.wait_line("bus_disconnected")
            machine.link(up=False)
            await host.wait_line("outbox_waits")
            os.kill(host.pid, signal.SIGKILL)
            await host.exit_code()
        machine.link(up=True)
        fresh_nats.start()
        async with host_process(machine, url=fresh_nats.url, cluster=unique_name) as host:
            await told.until(link_is(Health.BAD, first.instance_id))
            again = await told.until(lambda sweep: sweep.whole and sweep.instance_id != first.instance_id)
            assert again.sweep == 0
            host.signal(signal.SIGTERM)
            assert await host.exit_code() == 0
        await nothing_doubled_or_lost(told, 2)
    finally:
        await told.connection.close()


async def test_lines_of_the_kernel_log_are_told_once_whatever_is_killed(
    tmp_path: Path, fresh_nats: NatsServer, unique_name: str
) -> None:
    machine, url = Machine(tmp_path), fresh_nats.url
    told = await told_on(url, unique_name)

    async def numbers() -> list[int]:
        signals = await told.all(SignalObserved)
        return sorted(int(one.attributes["seq"]) for one in signals if one.check == "xid_79")

    async def until_told(wanted: set[int]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while True:
                if wanted <= set(await numbers()):
                    return
                await asyncio.sleep(0.1)

    try:
        async with host_process(machine, url=url, cluster=unique_name, PHALANX_KMSG=str(machine.kmsg)) as host:
            await told.until(lambda sweep: sweep.whole)
            for number in range(1, 21):
                machine.log(number)
            await until_told(set(range(1, 21)))
            fresh_nats.kill()
            for number in range(21, 41):
                machine.log(number)
            await host.wait_line("outbox_waits")
            os.kill(host.pid, signal.SIGKILL)
            await host.exit_code()
        for number in range(41, 61):
            machine.log(number)
        fresh_nats.start()
        async with host_process(machine, url=url, cluster=unique_name, PHALANX_KMSG=str(machine.kmsg)) as host:
            machine.log(61)
            await until_told(set(range(1, 62)))
            host.signal(signal.SIGTERM)
            assert await host.exit_code() == 0
        assert await numbers() == list(range(1, 62))
    finally:
        await told.connection.close()
