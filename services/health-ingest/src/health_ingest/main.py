"""The wiring of health-ingest, top to bottom: `python -m health_ingest.main`."""

from __future__ import annotations

import sys

from fault_contracts.agent import WorkerExited
from fault_contracts.health import ConditionRaised, SignalObserved, SignalsObserved
from fault_contracts.measures import MeasuresReported
from fault_contracts.node_actions import NodeActionReported
from fault_contracts.payload import Payload
from fault_contracts.rank_faults import RanksFaulted
from fault_contracts.recovery import GangFormed, JobEnded
from fault_contracts.registry import Bucket
from fault_contracts.step_times import StepTimesReported
from health_ingest.adapters.check_policy_yaml import load_check_policy
from health_ingest.adapters.foreign_table import load_foreign_table
from health_ingest.adapters.kv_conditions import KvConditions
from health_ingest.adapters.kv_ledger import KvLedger
from health_ingest.adapters.kv_nodes import KvNodes
from health_ingest.adapters.redis_windows import RedisWindows
from health_ingest.adapters.xid_policy_yaml import load_xid_policy
from health_ingest.application.advance_condition import AdvanceCondition
from health_ingest.application.condition_index import ConditionIndex
from health_ingest.application.end_by_reset import EndByReset
from health_ingest.application.hold_hardware import assemble
from health_ingest.application.ingest_batch import BATCH_MAX, IngestBatch
from health_ingest.application.ingest_signal import IngestSignal
from health_ingest.application.nodes_heard import NodesHeard
from health_ingest.application.sweep_conditions import SweepConditions
from health_ingest.application.take_foreign import TakeForeign
from health_ingest.application.watch_peers import WatchPeers
from health_ingest.application.watch_stragglers import WatchStragglers
from health_ingest.domain.rulebook import Rulebook
from health_ingest.settings import HealthIngestSettings
from service_kit.deadlines import Deadlines
from service_kit.errors import PermanentError
from service_kit.failpoints import Failpoints
from service_kit.lifecycle import Service, run_service
from service_kit.logging import get_logger
from service_kit.ports import Delivery

NAME = "health-ingest"


async def wire(service: Service[HealthIngestSettings]) -> None:
    """Build adapters and use cases and start the consumers."""
    settings, clock = service.settings, service.clock
    policy = settings.policy()
    failpoints = Failpoints(settings.failpoint)
    records = KvConditions(service.key_value(Bucket.CONDITIONS))
    deadlines = Deadlines(clock)
    index, heard = ConditionIndex(), NodesHeard()
    advance = AdvanceCondition(
        records=records, bus=service.bus, clock=clock, deadlines=deadlines, failpoints=failpoints, index=index
    )
    ingest = IngestSignal(advance=advance, clock=clock, policy=policy, failpoints=failpoints)
    sweep = SweepConditions(
        advance=advance,
        records=records,
        deadlines=deadlines,
        clock=clock,
        policy=policy,
        rescan_s=settings.rescan_s,
        index=index,
        heard=heard,
    )
    stragglers = WatchStragglers(
        advance=advance, records=records, clock=clock, policy=settings.straggler_policy(), conditions=policy
    )
    # Deaths of ranks, and what is as grave, have consumers of their own: a storm of signals must not stand before them
    # in the queue. Reclaim: what a killed process had in hand is taken up by its next life at once, not 30 s later.
    sources: dict[str, type[Payload]] = {"exits": WorkerExited, "rank-faults": RanksFaulted}
    for name, message in sources.items():
        service.own(
            await service.bus.consume(durable=f"{NAME}-{name}", messages=[message], handler=ingest.handle, reclaim=True)
        )
    await wire_signals(service, advance=advance, index=index, heard=heard, failpoints=failpoints)
    # Heard, not consumed: every replica needs the windows of all nodes, and an old window says nothing about now.
    service.own(await service.bus.listen(messages=[StepTimesReported, JobEnded], handler=stragglers.heard))
    # Here, because this service is the one that looks at what comes in.
    await service.audit(f"{NAME}-audit")
    await watch_peers(service)
    await hold_hardware(service, failpoints)
    await open_door(service)
    # Last: what a killed process left is finished when this one is ready, not half way to it.
    service.spawn(sweep.run(), name="sweep conditions")
    service.spawn(sweep.rescan_forever(), name="rescan conditions")
    service.spawn(stragglers.forever(), name="watch stragglers")


async def wire_signals(
    service: Service[HealthIngestSettings],
    *,
    advance: AdvanceCondition,
    index: ConditionIndex,
    heard: NodesHeard,
    failpoints: Failpoints,
) -> None:
    """What may come in masses is taken in by the batch, from a durable that replicas share."""
    policy, checks = service.settings.policy(), load_check_policy(service.settings.check_policy)
    batches = IngestBatch(
        advance=advance,
        resets=EndByReset(advance=advance, index=index, clock=service.clock, policy=policy),
        rulebook=Rulebook(limits=policy, checks=checks, driver=load_xid_policy()),
        index=index,
        heard=heard,
        clock=service.clock,
        policy=policy,
        failpoints=failpoints,
    )
    service.own(
        await service.bus.consume_batches(
            durable=f"{NAME}-signals",
            messages=[SignalObserved, SignalsObserved, NodeActionReported],
            handler=batches.handle,
            batch_max=BATCH_MAX,
            reclaim=True,
        )
    )

    async def hear(delivery: Delivery) -> None:
        index.heard(delivery.envelope.data)

    service.own(await service.bus.listen(messages=[ConditionRaised], handler=hear))


async def watch_peers(service: Service[HealthIngestSettings]) -> None:
    """Hold devices against their peers. Without Redis or Valkey nothing is compared."""
    settings = service.settings
    if not settings.redis_url:
        get_logger(__name__).info("peers_not_watched", why="REDIS_URL is not set")
        return
    windows = RedisWindows(settings.redis_url, cluster=settings.cluster, clock=service.clock)
    service.own(windows)
    watch = WatchPeers(
        windows=windows,
        bus=service.bus,
        clock=service.clock,
        policy=settings.peer_policy(),
        sweeps=settings.peer_window(),
    )
    # Who works where must be known to every replica; a report is weighed by one of them.
    jobs: list[type[Payload]] = [GangFormed, StepTimesReported, JobEnded]
    service.own(await service.bus.listen(messages=jobs, handler=watch.heard_of_jobs))
    service.own(await service.bus.listen(messages=[MeasuresReported], handler=watch.heard, share=f"{NAME}-peers"))
    service.spawn(watch.forever(), name="watch peers")


async def hold_hardware(service: Service[HealthIngestSettings], failpoints: Failpoints) -> None:
    """Keep the bad-hardware ledger and the standing of nodes, and answer whoever asks."""
    settings = service.settings
    hardware = assemble(
        bus=service.bus,
        clock=service.clock,
        ledger=KvLedger(service.key_value(Bucket.QUARANTINE)),
        nodes=KvNodes(service.key_value(Bucket.NODES)),
        policy=settings.ledger_policy(),
        failpoints=failpoints,
        rescan_s=settings.rescan_s,
    )
    for subscription in await hardware.start():
        service.own(subscription)
    service.spawn(hardware.ledger.run(), name="dates of the ledger")
    service.spawn(hardware.ledger.rescan_forever(), name="rescan ledger")


async def open_door(service: Service[HealthIngestSettings]) -> None:
    """Let other systems tell signals over HTTP. Without a token nobody may."""
    settings, token = service.settings, service.settings.door_token()
    if token is None:
        get_logger(__name__).info("signals_door_closed", why="PHALANX_SIGNALS_TOKEN is not set")
        return
    # Here and not above: FastAPI and uvicorn cost 15 MB and half a second, and most have no such door.
    from health_ingest.adapters.signal_door import SignalDoor

    try:
        table = load_foreign_table(settings.signals_table)
    except ValueError as error:  # ends the start as a bad setting does
        raise PermanentError(str(error)) from error
    taking = TakeForeign(bus=service.bus, clock=service.clock, table=table)
    door = SignalDoor(taking, token)
    await door.open(settings.signals_host, settings.signals_port)
    service.own(door)


def main() -> int:
    """Run until a signal; returns the exit code."""
    return run_service(NAME, HealthIngestSettings, wire)


if __name__ == "__main__":
    sys.exit(main())
