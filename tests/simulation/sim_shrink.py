"""The shortest scenario that still breaks the same promise: faults are left out, then everything else that can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sim_scenario import Fault, Scenario

from service_kit.testing.memory_broker import Trouble
from service_kit.testing.process_life import StoreTrouble

Breaks = Callable[[Scenario], bool]
"""Whether a scenario breaks the promise in question."""


def shrink(scenario: Scenario, breaks: Breaks, *, tries_max: int = 300) -> Scenario:
    """Delta debugging over the faults, then simpler surroundings, until nothing can go or the tries are used up."""
    left = [tries_max]

    def still(candidate: Scenario) -> bool:
        if left[0] <= 0:
            return False
        left[0] -= 1
        return breaks(candidate)

    while True:
        before = scenario
        scenario = replace(scenario, faults=_fewer(scenario, still))
        for simpler in _simpler(scenario):
            if still(simpler):
                scenario = simpler
                break
        if scenario == before or left[0] <= 0:
            return scenario


def _fewer(scenario: Scenario, still: Breaks) -> tuple[Fault, ...]:
    """ddmin: ever smaller parts are left out as long as it still breaks."""
    faults = scenario.faults
    parts = 2
    while len(faults) >= 1:
        size = max(1, len(faults) // parts)
        for start in range(0, len(faults), size):
            rest = (*faults[:start], *faults[start + size :])
            if still(replace(scenario, faults=rest)):
                faults, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(faults))
    return faults


def _simpler(scenario: Scenario) -> Iterator[Scenario]:
    """One thing less each time."""
    if scenario.network != Trouble():
        yield replace(scenario, network=Trouble())
        usual = Trouble()
        for name in ("publish_lost", "dropped", "duplicated", "delay_s_max", "reordered"):
            if getattr(scenario.network, name) != getattr(usual, name):
                yield replace(scenario, network=replace(scenario.network, **{name: 0.0}))
    if scenario.store != StoreTrouble():
        yield replace(scenario, store=StoreTrouble())
    if scenario.cluster:
        yield replace(scenario, cluster="")
    if scenario.planners > 1:
        yield replace(scenario, planners=1)
    for place in range(len(scenario.jobs)):
        if len(scenario.jobs) > 1:
            yield replace(scenario, jobs=(*scenario.jobs[:place], *scenario.jobs[place + 1 :]))
    for place, job in enumerate(scenario.jobs):
        for change in ({"steps": None}, {"spares": 0}, {"nproc": 1}, {"nodes": max(1, job.nodes - 1)}):
            if "elastic" in job.policy and "nodes" in change:
                continue  # its policy names sizes of this many
            if any(getattr(job, name) != value for name, value in change.items()):
                smaller = replace(job, **change)  # type: ignore[arg-type]
                yield replace(scenario, jobs=(*scenario.jobs[:place], smaller, *scenario.jobs[place + 1 :]))
    for place, fault in enumerate(scenario.faults):
        rounder = float(round(fault.at_s))
        if fault.at_s != rounder:
            faults = (*scenario.faults[:place], replace(fault, at_s=rounder), *scenario.faults[place + 1 :])
            yield replace(scenario, faults=faults)
