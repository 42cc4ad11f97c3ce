"""The wiring of fault-classifier, top to bottom: `python -m fault_classifier.main`."""

from __future__ import annotations

import sys

from fault_classifier.adapters.kv_evidence import KvEvidence
from fault_classifier.adapters.rule_book import RuleBook
from fault_classifier.application.classify_fault import ClassifyFault
from fault_classifier.application.collect_evidence import MESSAGES, CollectEvidence
from fault_classifier.application.expire_verdicts import ExpireVerdicts
from fault_classifier.application.read_texts import TextReader
from fault_classifier.domain.neighbourhood import Neighbourhood
from fault_classifier.settings import FaultClassifierSettings
from fault_contracts.registry import Bucket
from service_kit.deadlines import Deadlines
from service_kit.failpoints import Failpoints
from service_kit.lifecycle import Service, run_service

NAME = "fault-classifier"


async def wire(service: Service[FaultClassifierSettings]) -> None:
    """Build adapters and use cases and start the consumers."""
    settings, clock = service.settings, service.clock
    failpoints = Failpoints(settings.failpoint)
    records = KvEvidence(service.key_value(Bucket.EVIDENCE))
    deadlines = Deadlines(clock)
    rules = RuleBook(settings.overlays, settings.rule_set())
    neighbourhood = Neighbourhood()
    classify = ClassifyFault(
        records=records,
        bus=service.bus,
        clock=clock,
        deadlines=deadlines,
        policy=settings.policy(),
        book=lambda: rules.causes,
        neighbourhood=neighbourhood,
        failpoints=failpoints,
    )
    collect = CollectEvidence(
        classify=classify,
        neighbourhood=neighbourhood,
        texts=TextReader(lambda: rules.matcher),
        clock=clock,
        failpoints=failpoints,
    )
    expire = ExpireVerdicts(
        classify=classify,
        records=records,
        deadlines=deadlines,
        clock=clock,
        rescan_s=settings.rescan_s,
        history_s=settings.history_s,
    )
    # Reclaim: a judge that was killed with a message in hand must not keep the gang waiting for 30 s.
    service.own(await service.bus.consume(durable=NAME, messages=MESSAGES, handler=collect.handle, reclaim=True))
    service.spawn(expire.run(), name="expire verdicts")
    service.spawn(rules.follow(clock), name="follow rules")
    service.spawn(expire.rescan_forever(), name="rescan evidence")


def main() -> int:
    """Run until a signal; returns the exit code."""
    return run_service(NAME, FaultClassifierSettings, wire)


if __name__ == "__main__":
    sys.exit(main())
