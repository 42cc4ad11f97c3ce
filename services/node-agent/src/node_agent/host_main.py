"""The host role: one process for each machine that watches its devices. Wiring, top to bottom.

`python -m node_agent.host_main`, or `phalanx host`. New collectors and event sources are plugged in in `watchers`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from fault_contracts.envelope import derived_id
from fault_contracts.node_actions import OrderNodeAction
from node_agent.adapters import machine
from node_agent.adapters.action_journal import SqliteActionJournal
from node_agent.adapters.device_holders import ProcHolders
from node_agent.adapters.gpu_watch_gate import GpuWatchGate
from node_agent.adapters.host_flags import host_environment
from node_agent.adapters.host_folder import HostFolder, take_host_folder
from node_agent.adapters.kmsg_source import kmsg_source
from node_agent.adapters.machine_collector import MachineCollector
from node_agent.adapters.network_collector import NetworkCollector
from node_agent.adapters.node_actor_setup import Acting, node_actor, validation_command
from node_agent.adapters.nvml_collector import NvmlLimits
from node_agent.adapters.nvml_sources import nvml_sources
from node_agent.adapters.overheard import Overheard
from node_agent.application.answer_host_health import HostHealthAnswer
from node_agent.application.collector_ports import Collector, EventSource
from node_agent.application.host_life import HostLife, HostPolicy
from node_agent.application.host_reports import HostIdentity, HostReports
from node_agent.application.report_measures import MeasuresReports
from node_agent.domain.device_directory import Directory
from node_agent.domain.machine_health import MachinePolicy
from node_agent.settings import HostSettings, NvmlUse
from service_kit.cancellation import cancel_all
from service_kit.lifecycle import Service, run_service
from service_kit.outbox import Outbox
from service_kit.ports import Bus, Clock

NAME = "node-agent-host"
DRAIN_S = 3.0
"""How long the end waits for the bus to take the last events; what is left goes out in the next life."""
QUICK_LOOK_S = NvmlLimits().interval_s
NOT_READ = "none"
"""In the place of the kernel log's path: it is not read."""
FAKE_STATE_VARIABLE = "PHALANX_FAKE_NVML_STATE"
"""Control file of the fake driver library of tests and drills (phalanx_cli.drill)."""


def watchers(settings: HostSettings, directory: Directory, clock: Clock) -> tuple[list[Collector], list[EventSource]]:
    """Everything that looks at the machine. The one place to plug in another."""
    network = NetworkCollector(
        sys_root=settings.sys_root,
        interval_s=settings.network_s,
        expected=settings.nics_expected,
        directory=directory,
        clock=clock,
    )
    host = MachineCollector(
        sys_root=settings.sys_root,
        proc_root=settings.proc_root,
        disks=[path for path in settings.disks.split(":") if path],
        interval_s=settings.sweep_s,
        policy=MachinePolicy(disk_free_ratio_min=settings.disk_free_ratio_min, blocked_s_max=settings.blocked_s_max),
        clock=clock,
    )
    kernel_log: EventSource = kmsg_source(
        directory,
        clock,
        path=settings.kmsg_path,
        proc_root=settings.proc_root,
        driver_version=partial(machine.nvidia_driver_version, settings.proc_root),
    )
    collectors: list[Collector] = [network, host]
    sources = [kernel_log] if str(settings.kmsg_path) != NOT_READ else []
    if settings.nvml is not NvmlUse.OFF:
        nvml = nvml_sources(
            directory=directory,
            clock=clock,
            boot_id=machine.boot_id(settings.proc_root),
            library=settings.nvml_library,
            gpus_expected=settings.gpus_expected,
            required=settings.nvml is NvmlUse.ON,
            pci_devices=settings.sys_root / "bus" / "pci" / "devices",
            limits=NvmlLimits(
                interval_s=min(NvmlLimits().interval_s, settings.sweep_s), whole_every_s=settings.sweep_s
            ),
        )
        collectors.append(nvml.collector)
        # The kernel log comes first: NVML tells an Xid only when the log did not.
        sources = [*(Overheard(source, nvml.events.heard) for source in sources), nvml.events]
    return collectors, sources


async def wire(service: Service[HostSettings]) -> None:
    """Build adapters and use cases and let them run."""
    settings, clock = service.settings, service.clock
    node_id = settings.node_id or socket.gethostname()
    folder = take_host_folder(settings.data_dir, node_id=node_id)
    identity = _identity(settings, node_id, service.clock)
    directory = Directory()
    outbox = Outbox(folder.outbox)
    gate = GpuWatchGate()
    collectors, sources = gate.wrap(*watchers(settings, directory, clock), prefix="nvml")
    life = HostLife(
        identity,
        HostReports(identity, outbox, clock),
        directory,
        clock,
        collectors=collectors,
        sources=sources,
        policy=HostPolicy(sweep_s=settings.sweep_s, whole_s=settings.whole_s),
        driver_version=partial(machine.nvidia_driver_version, settings.proc_root),
    )
    journal = SqliteActionJournal(folder.journal)
    actor = node_actor(
        settings.options(),
        identity,
        life,
        gate,
        directory,
        outbox,
        journal,
        ProcHolders(proc_root=settings.proc_root, dev_root=settings.dev_root),
        validate=validation_command(
            node_id, nats_url=settings.nats_url, cluster=settings.cluster, data_dir=settings.data_dir.absolute()
        ),
    )
    folder.write_card(_card(settings, identity))
    answer = HostHealthAnswer(life, clock, uptime_s=partial(machine.uptime_s, settings.proc_root))
    service.own(await service.bus.answer(what="host_health", key=node_id, reply=answer.reply))
    service.connection.on_reconnected(life.on_reconnected)
    watching = Watching(life, outbox, service.bus, folder)
    service.own(watching)
    service.spawn(watching.failed(), name="watch the machine")
    await actor.settle()
    acting = Acting(actor, journal, service.bus, catch_up_s=settings.catch_up_s)
    service.own(acting)
    service.spawn(acting.failed(), name="look for orders")
    service.own(await service.bus.listen(messages=[OrderNodeAction], handler=actor.on_delivery, key=node_id))
    measures = MeasuresReports(identity, service.bus, clock, life.board.whole, sweep_s=settings.sweep_s)
    service.spawn(measures.run(), name="tell measures")


class Watching:
    """The work of the host role, ended in order: first the looks, then the outbox, when it has what they brought."""

    def __init__(self, life: HostLife, outbox: Outbox, bus: Bus, folder: HostFolder) -> None:
        self._outbox = outbox
        self._folder = folder
        self._looks = asyncio.create_task(life.run(), name="watch the machine")
        self._sending = asyncio.create_task(outbox.run(bus), name="send what was seen")

    async def failed(self) -> None:
        """Ends only with the failure of a part."""
        await asyncio.shield(asyncio.gather(self._looks, self._sending))

    async def stop(self) -> None:
        """service_kit.ports.Subscription."""
        await cancel_all([self._looks])
        await self._outbox.drain(DRAIN_S)
        await cancel_all([self._sending])
        await self._outbox.close()
        self._folder.close()


def _identity(settings: HostSettings, node_id: str, clock: Clock) -> HostIdentity:
    now = clock.now()
    return HostIdentity(
        node_id=node_id,
        instance_id=derived_id(node_id, "host", os.getpid(), now.isoformat()),
        boot_id=machine.boot_id(settings.proc_root),
        host=socket.gethostname(),
        machine_serial=machine.machine_serial(settings.sys_root),
        gpus_expected=settings.gpus_expected,
        started_at=now,
    )


def _card(settings: HostSettings, identity: HostIdentity) -> dict[str, object]:
    """host.json: what `phalanx inject` needs to know of this process."""
    return {
        "node_id": identity.node_id,
        "pid": os.getpid(),
        "instance_id": identity.instance_id,
        "boot_id": identity.boot_id,
        # Read from any folder: absolute.
        "kmsg_path": NOT_READ if str(settings.kmsg_path) == NOT_READ else str(settings.kmsg_path.absolute()),
        "nvml": settings.nvml.value,
        "nvml_library": settings.nvml_library,
        "fake_state": str(Path(state).absolute()) if (state := os.environ.get(FAKE_STATE_VARIABLE, "")) else "",
        "sys_root": str(settings.sys_root),
        "started_at": identity.started_at.isoformat(),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal; returns the exit code."""
    os.environ.update(host_environment(sys.argv[1:] if argv is None else argv))
    return run_service(NAME, HostSettings, wire, keeps_streams=False)


if __name__ == "__main__":
    sys.exit(main())
