"""One planner put together from its ports: the same for the service, the tests and the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fault_contracts.cluster_policy import ClusterPolicy
from recovery_planner.application.advance_gang import AdvanceGang
from recovery_planner.application.answer_admission import AnswerAdmission
from recovery_planner.application.care_duties import CareDuties
from recovery_planner.application.cause_board import CauseBoard
from recovery_planner.application.expire_deadlines import ExpireDeadlines
from recovery_planner.application.hear_of_nodes import HearOfNodes
from recovery_planner.application.journal_figures import JournalFigures, NoJournalFigures
from recovery_planner.application.lead import Lead
from recovery_planner.application.node_standings import StandingBook
from recovery_planner.application.node_ward import NodeWard
from recovery_planner.application.ports import CheckpointStore, Failpoints, GangStore, NodeStandingStore
from recovery_planner.application.publish_care import CarePublisher
from recovery_planner.application.publish_effects import EffectPublisher
from recovery_planner.application.record_checkpoint import CheckpointBook
from recovery_planner.application.replace_nodes import ReplaceNodes
from recovery_planner.application.run_duties import RunDuties
from recovery_planner.application.tend_nodes import TendNodes
from recovery_planner.application.tending_ports import NodeFigures, NodeLifeStore, NodePool, NoFigures
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
    lives: NodeLifeStore | None = None
    """None: nobody cares for nodes, and persons cannot take one out of use."""
    pool: Callable[[Callable[[str], bool]], NodePool | None] | None = None
    """Makes the pool, with a way to ask whether a name is taken."""
    figures: NodeFigures = field(default_factory=NoFigures)
    journal_figures: JournalFigures = field(default_factory=NoJournalFigures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Not yet running: `lead.run(duties, ...)` does that."""

    lead: Lead
    duties: RunDuties
    watch: WatchAgents
    advance: AdvanceGang
    care: CareDuties | None = None


def assemble(
    world: World,
    *,
    policy: Policy,
    patience: Patience,
    ended_kept_s: float,
    fit_demanded: bool = False,
    cluster_policy: ClusterPolicy | None = None,
) -> Planner:
    """Connect the use cases."""
    jobs = (cluster_policy or ClusterPolicy()).jobs
    policy = replace(policy, restarts_ceiling=jobs.restarts_max, capacity_wait_ceiling_s=jobs.capacity_wait_s)
    bus, clock, failpoints = world.bus, world.clock, world.failpoints
    source = f"/recovery-planner/{world.instance_id}"
    book = CheckpointBook(world.checkpoints)
    lead = Lead(bus=bus, clock=clock, instance_id=world.instance_id, source=source)
    publisher = EffectPublisher(
        bus=bus,
        clock=clock,
        leader=lead,
        policy=policy,
        source=source,
        failpoints=failpoints,
        figures=world.journal_figures,
    )
    standings = StandingBook(world.nodes, ok_demanded=fit_demanded)
    board = CauseBoard(clock)
    advance = AdvanceGang(
        store=world.gangs,
        checkpoints=book,
        publisher=publisher,
        clock=clock,
        policy=policy,
        failpoints=failpoints,
        fits=standings.fits,
        sightings=board.sightings,
    )
    watch = WatchAgents(advance=advance, bus=bus, clock=clock, patience=patience)
    deadlines, admission = ExpireDeadlines(advance=advance, clock=clock), AnswerAdmission(bus=bus, standings=standings)
    nodes = WatchNodes(advance=advance, book=standings, board=board)
    advance.watchers += [deadlines, watch, nodes, admission, board]
    care = _care(world, cluster_policy or ClusterPolicy(), advance, nodes, standings, board, lead, source)
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
        care=care,
    )
    return Planner(lead=lead, duties=duties, watch=watch, advance=advance, care=care)


def _care(
    world: World,
    policy: ClusterPolicy,
    advance: AdvanceGang,
    where: WatchNodes,
    book: StandingBook,
    board: CauseBoard,
    lead: Lead,
    source: str,
) -> CareDuties | None:
    """The care of nodes, where there is a place for its records."""
    if world.lives is None:
        return None
    bus, clock, failpoints = world.bus, world.clock, world.failpoints
    ward = NodeWard(world.lives)

    def is_taken(node_id: str) -> bool:
        return ward.get(node_id) is not None or bool(where.jobs_on(node_id))

    pool = None if world.pool is None else world.pool(is_taken)
    tend = TendNodes(
        ward=ward,
        standings=world.nodes,
        book=book,
        advance=advance,
        where=where,
        publisher=CarePublisher(bus=bus, clock=clock, leader=lead, source=source, failpoints=failpoints),
        clock=clock,
        policy=policy,
        failpoints=failpoints,
        figures=world.figures,
        has_pool=pool is not None,
    )
    return CareDuties(
        tend=tend,
        hear=HearOfNodes(tend=tend, gangs=world.gangs, board=board),
        replace=ReplaceNodes(tend=tend, pool=pool, bus=bus, clock=clock),
        bus=bus,
        clock=clock,
    )
