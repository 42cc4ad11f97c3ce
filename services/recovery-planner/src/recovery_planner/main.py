"""The planner's wiring, top to bottom. `python -m recovery_planner.main`."""

from __future__ import annotations

import asyncio
import os
import socket
import sys

from fault_contracts.registry import Bucket
from recovery_planner.adapters.kv_gangs import KvCheckpoints, KvGangs
from recovery_planner.application.advance_gang import AdvanceGang
from recovery_planner.application.answer_admission import AnswerAdmission
from recovery_planner.application.expire_deadlines import ExpireDeadlines
from recovery_planner.application.lead import Lead
from recovery_planner.application.publish_effects import EffectPublisher
from recovery_planner.application.record_checkpoint import CheckpointBook
from recovery_planner.application.run_duties import RunDuties
from recovery_planner.application.watch_agents import WatchAgents
from recovery_planner.settings import PlannerSettings
from service_kit.failpoints import Failpoints
from service_kit.lifecycle import Service, run_service

NAME = "recovery-planner"


async def wire(service: Service[PlannerSettings]) -> None:
    """Build the use cases and begin to lead, or to stand by."""
    settings, bus, clock = service.settings, service.bus, service.clock
    failpoints = Failpoints(settings.failpoint)
    instance_id = f"{socket.gethostname()}/{os.getpid()}/{clock.now().isoformat()}"
    source = f"/{NAME}/{instance_id}"
    store = KvGangs(service.key_value(Bucket.GANGS))
    checkpoints = CheckpointBook(KvCheckpoints(service.key_value(Bucket.CHECKPOINTS)))
    lead = Lead(bus=bus, clock=clock, instance_id=instance_id, source=source)
    policy = settings.policy()
    publisher = EffectPublisher(bus=bus, clock=clock, leader=lead, policy=policy, source=source, failpoints=failpoints)
    advance = AdvanceGang(
        store=store, checkpoints=checkpoints, publisher=publisher, clock=clock, policy=policy, failpoints=failpoints
    )
    watch = WatchAgents(advance=advance, bus=bus, clock=clock, patience=settings.patience())
    deadlines = ExpireDeadlines(advance=advance, clock=clock)
    admission = AnswerAdmission(bus=bus)
    advance.watchers += [deadlines, watch, admission]
    duties = RunDuties(
        bus=bus,
        clock=clock,
        store=store,
        advance=advance,
        checkpoints=checkpoints,
        watch=watch,
        deadlines=deadlines,
        admission=admission,
        ended_kept_s=settings.ended_kept_s,
    )

    async def after_reconnect() -> None:
        watch.reconnected()

    service.connection.on_reconnected(after_reconnect)
    service.add_check("duties", duties.failed)
    known = asyncio.Event()
    service.spawn(lead.run(duties, known), name="lead")
    await known.wait()


def main() -> int:
    """Entry point; returns the exit code."""
    return run_service(NAME, PlannerSettings, wire)


if __name__ == "__main__":
    sys.exit(main())
