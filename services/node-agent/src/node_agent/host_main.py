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

from fault_contracts.envelope import derived_id
from node_agent.adapters import machine
from node_agent.adapters.host_flags import host_environment
from node_agent.adapters.host_folder import HostFolder, take_host_folder
from node_agent.adapters.kmsg_source import kmsg_source
from node_agent.application.answer_host_health import HostHealthAnswer
from node_agent.application.collector_ports import Collector, EventSource
from node_agent.application.host_life import HostLife, HostPolicy
from node_agent.application.host_reports import HostIdentity, HostReports
from node_agent.domain.device_directory import Directory
from node_agent.settings import HostSettings
from service_kit.lifecycle import Service, run_service
from service_kit.outbox import Outbox
from service_kit.ports import Clock

NAME = "node-agent-host"
DRAIN_S = 3.0
"""How long the end waits for the bus to take the last events; what is left goes out in the next life."""
FAKE_STATE_VARIABLE = "PHALANX_FAKE_NVML_STATE"
"""Control file of the fake driver library of tests and drills (phalanx_cli.drill)."""


def watchers(settings: HostSettings, directory: Directory, clock: Clock) -> tuple[list[Collector], list[EventSource]]:
    """Everything that looks at the machine. The one place to plug in another."""
    collectors: list[Collector] = []
    sources: list[EventSource] = [
        kmsg_source(
            directory,
            clock,
            path=settings.kmsg_path,
            proc_root=settings.proc_root,
            driver_version=partial(machine.nvidia_driver_version, settings.proc_root),
        )
    ]
    return collectors, sources


async def wire(service: Service[HostSettings]) -> None:
    """Build adapters and use cases and let them run."""
    settings, clock = service.settings, service.clock
    node_id = settings.node_id or socket.gethostname()
    folder = take_host_folder(settings.data_dir, node_id=node_id)
    identity = _identity(settings, node_id, service.clock)
    directory = Directory()
    outbox = Outbox(folder.outbox)
    collectors, sources = watchers(settings, directory, clock)
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
    folder.write_card(_card(settings, identity))
    answer = HostHealthAnswer(life, clock, uptime_s=partial(machine.uptime_s, settings.proc_root))
    service.own(await service.bus.answer(what="host_health", key=node_id, reply=answer.reply))
    service.connection.on_reconnected(life.on_reconnected)
    service.spawn(_live(service, life, outbox, folder), name="watch the machine")


async def _live(service: Service[HostSettings], life: HostLife, outbox: Outbox, folder: HostFolder) -> None:
    sending = asyncio.create_task(outbox.run(service.bus))
    try:
        await life.run()
    finally:
        await outbox.drain(DRAIN_S if service.connection.is_connected else 0.0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await outbox.close()
        folder.close()


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
        "kmsg_path": str(settings.kmsg_path),
        "nvml": settings.nvml.value,
        "nvml_library": settings.nvml_library,
        "fake_state": os.environ.get(FAKE_STATE_VARIABLE, ""),
        "sys_root": str(settings.sys_root),
        "started_at": identity.started_at.isoformat(),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal; returns the exit code."""
    os.environ.update(host_environment(sys.argv[1:] if argv is None else argv))
    return run_service(NAME, HostSettings, wire, keeps_streams=False)


if __name__ == "__main__":
    sys.exit(main())
