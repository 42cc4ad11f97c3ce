"""The kernel log through a real host role to a real bus: every line counted once, also when the host role is killed."""

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest
from host_cast import LIMIT_S, Machine, Told, host_process, told_on

from fault_contracts.health import SignalObserved
from fault_contracts.payload import Health
from phalanx_cli.stack.nats_server import NatsServer

pytestmark = [pytest.mark.integration, pytest.mark.asyncio, pytest.mark.timeout(300)]
UUID = "GPU-1f2e3d4c-5b6a-7988-a7b6-c5d4e3f2a1b0"


class Log:
    """A file of records, as the device would give them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sequence = 0
        path.touch()

    def write(self, *lines: str, priority: int = 3) -> None:
        with self.path.open("a") as file:
            for line in lines:
                self._sequence += 1
                file.write(f"{priority},{self._sequence},{self._sequence * 10},-;{line}\n")


async def counts(told: Told, wanted: dict[str, int]) -> list[SignalObserved]:
    """Wait until the checks were told so often."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            signals: list[SignalObserved] = await told.all(SignalObserved)
            seen = Counter[str]()
            for each in signals:
                seen[each.check] += each.count
            if all(seen[check] >= count for check, count in wanted.items()):
                assert {check: seen[check] for check in wanted} == wanted
                return signals
            await asyncio.sleep(0.1)


async def test_lines_become_signals_once_and_survive_a_kill(
    tmp_path: Path, nats_server: NatsServer, unique_name: str
) -> None:
    machine, url = Machine(tmp_path), nats_server.url
    log = Log(tmp_path / "kmsg")
    log.write("NVRM: Xid (PCI:0000:3b:00): 43, pid=7, name=python3, Ch 00000010")
    told = await told_on(url, unique_name)
    async with host_process(machine, url=url, cluster=unique_name, PHALANX_KMSG=str(log.path)) as host:
        (first,) = await counts(told, {"xid_43": 1})
        assert (first.old, first.node_id, first.boot_id[:8]) == (True, "n1", "7d0c2a5e")
        log.write(f"NVRM: GPU at PCI:0000:3b:00: {UUID}", "NVRM: GPU Board Serial Number: 1654321000000")
        log.write("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", priority=12)
        log.write(*["NVRM: Xid (PCI:0000:3b:00): 95, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No"] * 5_000)
        signals = await counts(told, {"xid_43": 1, "xid_95": 5_000, "xid_79": 0, "kmsg_forged": 1})
        storm = [each for each in signals if each.check == "xid_95"]
        assert len(storm) == 2
        assert {(each.component_id, each.health, each.old) for each in storm} == {(UUID, Health.BAD, False)}
        assert storm[0].attributes["board_serial"] == "1654321000000"
        host.signal(signal.SIGKILL)
        await host.exit_code()
    log.write("NVRM: Xid (PCI:0000:3b:00): 48, DBE (double bit error) ECC Error at partition 3, subpartition 0")
    async with host_process(machine, url=url, cluster=unique_name, PHALANX_KMSG=str(log.path)):
        signals = await counts(told, {"xid_48": 1, "xid_43": 1, "xid_95": 5_000})
        (missed,) = [each for each in signals if each.check == "xid_48"]
        assert (missed.component_id, missed.old) == (UUID, True)
