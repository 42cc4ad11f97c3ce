"""The wiring of health-ingest, top to bottom: `python -m health_ingest.main`."""

from __future__ import annotations

import sys

from fault_contracts.agent import WorkerExited
from fault_contracts.health import ConditionRaised, SignalObserved, SignalsObserved
from fault_contracts.node_actions import NodeActionReported
from fault_contracts.payload import Payload
from fault_contracts.rank_faults import RanksFaulted
from fault_contracts.recovery import JobEnded
from fault_contracts.registry import Bucket
from fault_contracts.step_times import StepTimesReported
from health_ingest.adapters.kv_conditions import KvConditions
from health_ingest.application.advance_condition import AdvanceCondition
from health_ingest.application.condition_index import ConditionIndex
from health_ingest.application.end_by_reset import EndByReset
from health_ingest.application.ingest_batch import BATCH_MAX, IngestBatch
from health_ingest.application.ingest_signal import IngestSignal
from health_ingest.application.nodes_heard import NodesHeard
from health_ingest.application.sweep_conditions import SweepConditions
from health_ingest.application.watch_stragglers import WatchStragglers
from health_ingest.domain.rulebook import Rulebook
from health_ingest.domain.xid_rows import XidPolicy
from health_ingest.settings import HealthIngestSettings
from service_kit.deadlines import Deadlines
from service_kit.failpoints import Failpoints
from service_kit.lifecycle import Service, run_service
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
    batches = IngestBatch(
        advance=advance,
        resets=EndByReset(advance=advance, index=index, clock=clock, policy=policy),
        rulebook=Rulebook(limits=policy, checks=settings.checks(), driver=XidPolicy()),
        index=index,
        heard=heard,
        clock=clock,
        policy=policy,
        failpoints=failpoints,
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
    # Heard, not consumed: every replica needs the windows of all nodes, and an old window says nothing about now.
    service.own(await service.bus.listen(messages=[StepTimesReported, JobEnded], handler=stragglers.heard))
    # Here, because this service is the one that looks at what comes in.
    await service.audit(f"{NAME}-audit")
    service.spawn(sweep.run(), name="sweep conditions")
    service.spawn(sweep.rescan_forever(), name="rescan conditions")
    service.spawn(stragglers.forever(), name="watch stragglers")


def main() -> int:
    """Run until a signal; returns the exit code."""
    return run_service(NAME, HealthIngestSettings, wire)


if __name__ == "__main__":
    sys.exit(main())
