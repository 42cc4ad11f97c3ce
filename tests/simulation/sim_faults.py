"""What each line `at ...` of a scenario does to the world. A fault that finds nothing to hit does nothing."""

from __future__ import annotations

from collections.abc import Callable

from sim_agent import SimAgent
from sim_hosts import gpu_of
from sim_poison import rank_raises
from sim_scenario import Fault
from sim_services import RESTART_S, Service
from sim_world import World

from fault_contracts.agent import AgentPhase
from fault_contracts.commands import Command
from fault_contracts.envelope import open_envelope, seal
from fault_contracts.faults import Action, Attribution, Culprit, FaultClassified
from fault_contracts.health import Component, SignalObserved
from fault_contracts.payload import Health, Reason
from fault_contracts.registry import Stream
from service_kit.errors import TransientError
from service_kit.testing.memory_bus import MemoryBus

CUT_OFF_S = 20.0
REPEATED = 6
"""Messages that come once more when something repeats itself."""


def do(world: World, fault: Fault) -> None:
    """Carry one fault out."""
    hit = _DEEDS[fault.verb](world, fault)
    world.fault_done(fault.verb, hit)


def _rank(world: World, fault: Fault, state: str, **how: object) -> str:
    agent = world.holder(fault.target, fault.rank)
    if agent is None or not agent.rank_ends(fault.rank, state):
        return ""
    step = world.training.steps.get((agent.job, agent.version))
    agent.say.exited(fault.rank, step=step, **how)  # type: ignore[arg-type]
    _maybe_victim(world, agent, fault.rank)
    return agent.node_id


def _maybe_victim(world: World, agent: SimAgent, culprit: int) -> None:
    if world.dice.random() < 0.3:
        _victim(world, agent.job, agent.version, culprit)


def _victim(world: World, job: str, version: int, culprit: int) -> None:
    """A peer finds its connection closed and dies of that, a little later."""
    others = [rank for agent in world.agents_of(job) for rank in agent.ranks if rank != culprit]
    if not others:
        return
    rank = world.dice.choice(others)

    def fall() -> None:
        agent = world.holder(job, rank)
        if agent is not None and agent.version == version and agent.rank_ends(rank, "dead"):
            agent.say.exited(rank, error="DistBackendError")

    world.later(world.dice.uniform(0.05, 3.0), fall)


def _kill_rank(world: World, fault: Fault) -> str:
    return _rank(world, fault, "dead", signal=int(fault.number))


def _oom_rank(world: World, fault: Fault) -> str:
    return _rank(world, fault, "dead", signal=9, oom=True)


def _raise(world: World, fault: Fault) -> str:
    agent = world.holder(fault.target, fault.rank)
    if agent is None or not rank_raises(agent, fault.rank, fault.word):
        return ""
    _maybe_victim(world, agent, fault.rank)
    return agent.node_id


def _poison(world: World, fault: Fault) -> str:
    return "" if world.poison.strike(fault.target, fault.for_s) is None else fault.target


def _hang_rank(world: World, fault: Fault) -> str:
    agent = world.holder(fault.target, fault.rank)
    if agent is None or agent.ranks.get(fault.rank) != "run" or agent.phase is not AgentPhase.RUNNING:
        return ""
    version = agent.version
    agent.ranks[fault.rank] = "hung"

    def noticed() -> None:
        still = not agent.is_leaving and agent.version == version and agent.ranks.get(fault.rank) == "hung"
        if still and agent.rank_ends(fault.rank, "hung"):
            agent.say.hangs(fault.rank)

    world.later(5.0, noticed)
    return agent.node_id


def _fail_start(world: World, fault: Fault) -> str:
    agent = world.agents.get(fault.target)
    if agent is None or agent.dead:
        return ""
    agent.fail_starts += 1
    return agent.node_id


def _fail_action(world: World, fault: Fault) -> str:
    host = world.hosts.get(fault.target)
    if host is None or not host.is_there:
        return ""
    host.fail_actions += 1
    return fault.target


def _kill_agent(world: World, fault: Fault) -> str:
    return _lose(world, fault, RESTART_S if fault.for_s is None else fault.for_s)


def _lose_node(world: World, fault: Fault) -> str:
    return _lose(world, fault, fault.for_s)


def _lose(world: World, fault: Fault, for_s: float | None) -> str:
    agent = world.agents.get(fault.target)
    if agent is None or agent.dead:
        return ""
    agent.kill()
    if for_s is None:
        world.gone.add(fault.target)
    else:
        world.later(for_s, lambda: world.start_agent(agent.job, fault.target))
    return fault.target


def _cut_off(world: World, fault: Fault) -> str:
    names = [fault.target, f"host-{fault.target}"]
    if fault.target not in world.agents:
        service = _service(world, fault.target)
        if service is None or service.life is None:
            return ""
        names = [service.life.name]
    for name in names:
        world.cut_off(name)
        world.later(fault.for_s or CUT_OFF_S, lambda name=name: world.heal(name))
    return names[0]


def _service(world: World, kind: str) -> Service | None:
    up = [service for service in world.services if service.is_up]
    leader = next((planner for planner in world.planners if planner.leads), None)
    if kind == "planner":
        return leader or next((planner for planner in world.planners if planner.is_up), None)
    if kind == "standby":
        return next((planner for planner in world.planners if planner.is_up and planner is not leader), None)
    return next((service for service in up if service.kind == kind), None)


def _crash(world: World, fault: Fault) -> str:
    service = _service(world, fault.target)
    if service is None or service.life is None:
        return ""
    service.restart_s = fault.for_s or RESTART_S
    if fault.number < 1:
        service.life.kill()
    else:
        service.life.die_after(int(fault.number))
    return service.life.name


def _jump_clock(world: World, fault: Fault) -> str:
    agent = world.agents.get(fault.target)
    if agent is None:
        return ""
    agent.clock_off_s += fault.number
    return fault.target


def _xid(world: World, fault: Fault) -> str:
    agent = world.agents.get(fault.target)
    if agent is None or fault.target in world.gone:
        return ""
    code = int(fault.number)
    world.tell(
        SignalObserved(
            node_id=fault.target,
            component=Component.GPU,
            component_id=gpu_of(fault.target),
            check=f"xid_{code}",
            health=Health.BAD,
            detail=f"Xid (PCI:0000:1b:00): {code}",
            attributes={"xid": str(code), "pci_bus_id": "0000:1b:00", "gpu_uuid": gpu_of(fault.target)},
            source="kernel_log",
            observed_at=world.clock.now(),
        )
    )
    return fault.target


def _notice(world: World, fault: Fault) -> str:
    agent = world.agents.get(fault.target)
    if agent is None or agent.is_leaving:
        return ""
    version = agent.version
    if agent.phase is AgentPhase.RUNNING:
        agent.say.notice(fault.number, world.training.steps.get((agent.job, version), 0) + 3)
    until_s = world.clock.monotonic_s() + fault.number

    def look() -> None:
        if agent.is_leaving:
            return
        if agent.version != version or world.clock.monotonic_s() >= until_s or not version:
            world.gone.add(agent.node_id)
            agent.leave("spot instance is reclaimed")
        else:
            world.later(0.2, look)

    look()
    return fault.target


def _join(world: World, fault: Fault) -> str:
    if fault.target not in world.plans:
        return ""
    count = sum(agent.job == fault.target for agent in world.agents.values())
    node_id = f"{fault.target}-n{count}"
    world.arrive(fault.target, node_id)
    return node_id


def _leave(world: World, fault: Fault) -> str:
    agent = world.agents.get(fault.target)
    if agent is None or agent.is_leaving:
        return ""
    world.gone.add(fault.target)
    agent.leave("SIGTERM to the agent")
    return fault.target


def _repeat_commands(world: World, fault: Fault) -> str:
    """A push that comes once more, long after it was meant."""
    records = [r for r in world.broker.streams[Stream.CONTROL] if isinstance(open_envelope(r.body).data, Command)]
    mine = [record for record in records if record.subject.endswith(f".{fault.target}")][-REPEATED:]
    for record in mine:
        world.broker.send(record.subject.replace("phx.cmd.", "phx.go.", 1), record.body, record.sequence)
    return fault.target if mine else ""


def _repeat_events(world: World, fault: Fault) -> str:
    """The acknowledgement was lost, and so the planner gets what it has handled."""
    records = [r for r in world.broker.streams[Stream.AGENTS] if r.subject.endswith(f".{fault.target}")][-REPEATED:]
    for record in records:
        world.broker.deliver_again("recovery-planner-local", record)
    return fault.target if records else ""


def _verdict(world: World, fault: Fault) -> str:
    """The judge says something about a generation that may be long over."""
    gang = world.gangs.gangs.get(fault.target)
    if gang is None or fault.rank >= len(gang.nodes):
        return ""
    version = gang.table.topology_version - int(fault.number)
    if version < 1:
        return ""
    action = Action(fault.word)
    user = action is Action.DONT_RETRY_NOTIFY_USER
    verdict = FaultClassified(
        fault_id=f"story-{fault.target}-{fault.at_s:g}",
        job_id=fault.target,
        topology_version=version,
        attribution=Attribution.USER if user else Attribution.HARDWARE,
        cause="script_error" if user else "gpu_failed",
        culprit=Culprit(node_id=gang.nodes[fault.rank]),
        confidence=0.9,
        action=action,
        reasons=(Reason(rule_id="story", sentence="the story says so"),),
        summary="the story says so",
        classified_at=world.clock.now(),
    )
    bus = MemoryBus(world.broker, name="story")
    envelope = seal(verdict, source="/story", cause_id=verdict.fault_id, time=world.clock.now())

    async def until_stored() -> None:
        while True:
            try:
                await bus.publish(envelope)
            except TransientError:
                await world.clock.sleep(0.3)
            else:
                return

    world.spawn(until_stored())
    return gang.nodes[fault.rank]


_DEEDS: dict[str, Callable[[World, Fault], str]] = {
    "kill rank": _kill_rank,
    "oom rank": _oom_rank,
    "raise": _raise,
    "poison": _poison,
    "hang rank": _hang_rank,
    "fail start": _fail_start,
    "fail action": _fail_action,
    "kill agent": _kill_agent,
    "lose node": _lose_node,
    "cut off": _cut_off,
    "crash": _crash,
    "jump clock": _jump_clock,
    "xid": _xid,
    "notice": _notice,
    "join": _join,
    "leave": _leave,
    "repeat commands": _repeat_commands,
    "repeat events": _repeat_events,
    "verdict": _verdict,
}
