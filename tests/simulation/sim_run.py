"""Run one scenario to its end and say which promises were broken."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from dataclasses import dataclass
from zlib import crc32

import sim_faults
import structlog
from sim_checkers import Checker
from sim_checkers_end import ALL, unrest
from sim_checkers_nodes import untended
from sim_scenario import Expectation, Fault, Scenario
from sim_world import World

from recovery_planner.domain.gang import Gang
from recovery_planner.domain.member import Standing
from service_kit.testing.memory_broker import Trouble
from service_kit.testing.process_life import StoreTrouble
from service_kit.testing.virtual_clock import Deadlock, run_virtual

REST_S_MAX = 400.0
"""Until everything must be over: a wait for capacity, two starts that fail by their deadline, redeliveries of 30 s."""
REPAIR_S_MAX = 400.0
"""As much again where nodes are repaired: every rung may go unanswered."""
QUIET_S = 8.0
"""Every job at rest for so long: an agent looks for commands each 5 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken promise."""

    name: str
    promise: str
    text: str
    at_s: float

    def __str__(self) -> str:
        return f"{self.at_s:.1f} s: {self.name} ({self.promise}): {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of it."""

    violations: tuple[Violation, ...]
    took_s: float
    """Virtual."""
    messages: int
    digest: int
    """Of all stored messages and their times: the same for the same scenario, or something is not from the seed."""


def run(scenario: Scenario, *, trace: Callable[[str], None] | None = None, rest_s: float = REST_S_MAX) -> Result:
    """Simulate. Stops at the first broken promise."""
    quiet = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=quiet, cache_logger_on_first_use=False)
    gc.disable()  # thousands of short-lived tasks; the collector would look at all of them again and again
    try:
        return run_virtual(_simulate(scenario, trace, rest_s))
    except Deadlock as error:
        spins = Violation(name="time", promise="nothing spins and nothing waits for ever", text=str(error), at_s=0.0)
        return Result(violations=(spins,), took_s=0.0, messages=0, digest=0)
    finally:
        gc.enable()
        _collect_now_and_then()


def _collect_now_and_then() -> None:
    """A world is full of cycles, and nothing else would ever look for them: some ten megabytes a run."""
    _RUNS[0] += 1
    if _RUNS[0] == 1:
        gc.freeze()  # the services' code and rules stay; they are not looked at again
    if _RUNS[0] % COLLECTED_EVERY == 0:
        gc.collect()


COLLECTED_EVERY = 10
_RUNS = [0]


async def _simulate(scenario: Scenario, trace: Callable[[str], None] | None, rest_s: float) -> Result:
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    checkers: list[Checker] = []
    world = World(scenario, watchers=[lambda event: [each.saw(event) for each in checkers]], trace=trace)  # type: ignore[list-item, func-returns-value]
    checkers += [kind(world) for kind in ALL]
    world.begin()
    try:
        await _play(world, checkers, rest_s)
        if not any(each.found for each in checkers):
            for each in checkers:
                each.at_rest()
        found = _found(world, checkers)
        if not found:
            found = _unmet(world, scenario.expectations)
    finally:
        await world.close()
    stored = [r for records in world.broker.streams.values() for r in records]
    digest = crc32(repr([(r.subject, r.sequence, round(r.stored_s, 6)) for r in stored]).encode())
    return Result(violations=tuple(found), took_s=world.clock.monotonic_s(), messages=len(stored), digest=digest)


def _found(world: World, checkers: list[Checker]) -> list[Violation]:
    at_s = world.clock.monotonic_s()
    return [Violation(name=c.name, promise=c.promise, text=text, at_s=at_s) for c in checkers for text in c.found]


async def _play(world: World, checkers: list[Checker], rest_s: float) -> None:
    over_s = 0.0
    for fault in sorted(world.scenario.faults, key=lambda each: each.at_s):
        if not await _until(world, checkers, fault.at_s):
            return
        sim_faults.do(world, fault)
        over_s = max(over_s, fault.at_s + _lasts_s(fault))
    if not await _until(world, checkers, over_s + 0.1):
        return
    calm(world)
    quiet_s, until_s = 0.0, over_s + rest_s + (0.0 if world.cluster is None else REPAIR_S_MAX)
    while world.clock.monotonic_s() < until_s:
        if not await _until(world, checkers, world.clock.monotonic_s() + 1.0):
            return
        # A process that was told to die after so many touches may have died late; its supervisor starts it again.
        rests = all(service.is_up for service in world.services) and not any(unrest(world, job) for job in world.jobs)
        rests = rests and not untended(world)
        quiet_s = quiet_s + 1.0 if rests else 0.0
        world.training.paused = quiet_s >= QUIET_S
        if quiet_s > QUIET_S and world.is_drained():
            return


async def _until(world: World, checkers: list[Checker], at_s: float) -> bool:
    """Let time pass; False as soon as a promise is broken."""
    while (left_s := at_s - world.clock.monotonic_s()) > 0:
        await world.clock.sleep(min(left_s, 1.0))
        if any(each.found for each in checkers):
            return False
    return True


def _lasts_s(fault: Fault) -> float:
    usual = {"cut off": sim_faults.CUT_OFF_S, "notice": fault.number}.get(fault.verb, 0.0)
    return usual if fault.for_s is None else fault.for_s


def calm(world: World) -> None:
    """From now on nothing goes wrong any more."""
    world.note("the faults are over")
    world.broker.trouble = Trouble(delay_s_max=world.scenario.network.delay_s_max)
    for service in world.services:
        if service.life is not None:
            service.life.die_after(None)
            service.life.trouble = StoreTrouble()
    world.scenario = Scenario(jobs=world.scenario.jobs, seed=world.scenario.seed)
    for host in world.hosts.values():
        host.fail_actions = 0
    for name in sorted(world.broker.partitioned):
        world.heal(name)


# --------------------------------------------------------------------------------------------------- expectations


def _unmet(world: World, wanted: tuple[Expectation, ...]) -> list[Violation]:
    found = []
    for each in wanted:
        gang = world.gangs.gangs.get(each.job)
        seen = "no record" if gang is None else _seen(world, gang, each)
        if seen != " ".join(each.words):
            text = f"expected {each.job} {each.what} {' '.join(each.words)}, found {seen}"
            found.append(Violation(name="expect", promise="as told", text=text, at_s=world.clock.monotonic_s()))
    return found


def _seen(world: World, gang: Gang, wanted: Expectation) -> str:
    match wanted.what:
        case "is":
            return str(gang.phase)
        case "outcome":
            return "none" if gang.ending is None else str(gang.ending.outcome)
        case "seats":
            return " ".join(gang.nodes)
        case "version":
            return str(gang.table.topology_version)
        case "restarts":
            return str(gang.restart_count)
        case "size":
            return str(gang.table.nnodes)
        case "over":
            return " ".join(map(str, gang.trial.stepped_over))
        case "life":
            life = world.remedies.lives.get(wanted.words[0])
            return f"{wanted.words[0]} {'ok' if life is None else life.phase}"
        case "charged":
            return str(len(gang.restarts))
        case "condemned":
            return " ".join(sorted(m.node_id for m in gang.members.values() if m.standing is Standing.CONDEMNED))
    return f"no word {wanted.what!r}"
