"""One planner put together from its ports: the same for the service, the tests and the simulator."""

from __future__ import annotations

from dataclasses import dataclass

from recovery_planner.application.advance_gang import AdvanceGang
from recovery_planner.application.answer_admission import AnswerAdmission
from recovery_planner.application.expire_deadlines import ExpireDeadlines
from recovery_planner.application.lead import Lead
from recovery_planner.application.node_standings import StandingBook
from recovery_planner.application.ports import CheckpointStore, Failpoints, GangStore, NodeStandingStore
from recovery_planner.application.publish_effects import EffectPublisher
from recovery_planner.application.record_checkpoint import CheckpointBook
from recovery_planner.application.run_duties import RunDuties
from recovery_planner.application.watch_agents import Patience, WatchAgents
from recovery_planner.application.watch_nodes import WatchNodes
from recovery_planner.domain.policy import Policy
from service_kit.ports import Bus, Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a planner stands on."""

    bus: Bus
    clock: Clock
    gangs: GangStore
    checkpoints: CheckpointStore
    nodes: NodeStandingStore
    failpoints: Failpoints
    instance_id: str
    """One life of the planner process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Not yet running: `lead.run(duties, ...)` does that."""

    lead: Lead
    duties: RunDuties
    watch: WatchAgents
    advance: AdvanceGang


def assemble(
    world: World, *, policy: Policy, patience: Patience, ended_kept_s: float, fit_demanded: bool = False
) -> Planner:
    """Connect the use cases."""
    bus, clock, failpoints = world.bus, world.clock, world.failpoints
    source = f"/recovery-planner/{world.instance_id}"
    book = CheckpointBook(world.checkpoints)
    lead = Lead(bus=bus, clock=clock, instance_id=world.instance_id, source=source)
    publisher = EffectPublisher(bus=bus, clock=clock, leader=lead, policy=policy, source=source, failpoints=failpoints)
    standings = StandingBook(world.nodes, ok_demanded=fit_demanded)
    advance = AdvanceGang(
        store=world.gangs,
        checkpoints=book,
        publisher=publisher,
        clock=clock,
        policy=policy,
        failpoints=failpoints,
        fits=standings.fits,
    )
    watch = WatchAgents(advance=advance, bus=bus, clock=clock, patience=patience)
    deadlines, admission = ExpireDeadlines(advance=advance, clock=clock), AnswerAdmission(bus=bus, standings=standings)
    nodes = WatchNodes(advance=advance, book=standings)
    advance.watchers += [deadlines, watch, nodes, admission]
    duties = RunDuties(
        bus=bus,
        clock=clock,
        store=world.gangs,
        advance=advance,
        checkpoints=book,
        watch=watch,
        deadlines=deadlines,
        admission=admission,
        nodes=nodes,
        standings=standings,
        ended_kept_s=ended_kept_s,
    )
    return Planner(lead=lead, duties=duties, watch=watch, advance=advance)
