"""A scenario from a number: jobs, a network, and up to a dozen faults at unlucky moments."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from sim_scenario import Fault, JobPlan, Scenario

from service_kit.testing.memory_broker import Trouble
from service_kit.testing.process_life import StoreTrouble

_SIGNALS = (6, 7, 9, 11, 15)
_ERRORS = ("ValueError", "RuntimeError", "KeyError", "OutOfMemoryError", "DistBackendError")
_XIDS = (13, 31, 43, 48, 63, 74, 79, 79, 79, 94, 95, 119)
_ACTIONS = ("restart_process", "restart_job", "replace_node", "reboot_node", "dont_retry_notify_user", "wait_or_ignore")
_POLICIES = (
    '{"mode":"observe"}',
    '{"confirming_retries":1}',
    '{"process_restarts_before_job":1,"job_restarts_max":1}',
    '{"backoff":{"first_s":2,"max_s":10}}',
    '{"checkpoint":{"step_back_max":2}}',
    '{"checkpoint":{"step_back_max":1},"confirming_retries":1}',
    '{"elastic":{"nnodes_min":1,"wait_s":5,"snooze_s":5}}',
    '{"elastic":{"nnodes_min":2,"replica_nodes":2,"wait_s":3,"snooze_s":10},"capacity_wait_s":30}',
    '{"elastic":{"nnodes_min":1,"nnodes_allowed":[1,2,4],"wait_s":8,"snooze_s":5},"checkpoint":{"step_back_max":2}}',
    '{"elastic":{"nnodes_min":1,"wait_s":5,"regrow":false}}',
    '{"causes":[{"attribution":"user","retry":"confirm"},{"attribution":"platform","level":"job"}]}',
    '{"fault_deadline_s":40}',
    '{"capacity_wait_s":10,"start_deadline_s":15}',
    '{"restarts_max":2,"window_s":30}',
)
"""What a job may want, a little of everything that the planner acts on."""
_LADDER = '"ladder":{"rounds_min":2,"retry_s":5,"suspect_s":60,"reset_gpu_s":20,"reboot_node_s":40,"validate_s":30}'
_REBOOTS = (
    '"ladder":{"rungs":["reboot_node"],"rounds_min":2,"retry_s":5,"suspect_s":60,"reboot_node_s":40,'
    '"validate_s":30,"evict_s":8}'
)
_POOL = '"pool":{"kind":"simulated","delay_s":5,"wait_s":90,"requests_max":3,"failures_every":3,"returns_every":2}'
_CLUSTERS = (
    f'{{{_LADDER},"breaker":{{"share_max":0.5}},{_POOL}}}',
    f'{{{_LADDER},"breaker":{{"share_max":0.9,"nodes_max":1,"window_s":60,"open_s":15}},{_POOL}}}',
    f"{{{_REBOOTS}}}",
    '{"dry_run":true,"ladder":{"suspect_s":60}}',
    '{"jobs":{"restarts_max":2}}',
)
"""What an operator may want."""
_COMMON = ("kill rank", "crash", "kill agent", "cut off")
_VERBS = (
    *_COMMON,
    *_COMMON,
    "oom rank",
    "raise",
    "hang rank",
    "poison",
    "fail start",
    "fail action",
    "lose node",
    "jump clock",
    "xid",
    "notice",
    "join",
    "leave",
    "repeat commands",
    "repeat events",
    "verdict",
)


def scenario_of(seed: int) -> Scenario:
    """The same one for the same number, for ever (of this version of the generator)."""
    dice = Random(f"scenario/{seed}")
    jobs = tuple(_job(dice, name) for name in "abc"[: dice.choice((1, 1, 1, 2, 3))])
    planners = dice.choice((1, 2, 2))
    return Scenario(
        seed=seed,
        jobs=jobs,
        planners=planners,
        network=_network(dice),
        store=dice.choice((StoreTrouble(), StoreTrouble(failed=0.02, ack_lost=0.02))),
        faults=_faults(dice, jobs, planners),
        cluster=dice.choice(_CLUSTERS) if dice.random() < 0.35 else "",
    )


def crowd_of(agents: int, seed: int = 0) -> Scenario:
    """Jobs of fifty nodes and two spares; something befalls every second one, and the planner in the midst."""
    dice = Random(f"crowd/{seed}")
    count = max(1, agents // 52)
    jobs = tuple(JobPlan(name=f"j{n}", nodes=50, spares=2, nproc=1, save_every=10) for n in range(count))
    faults = [
        Fault(at_s=round(12 + 6 * dice.random(), 3), verb="lose node", target=dice.choice(job.agents))
        for job in jobs[::2]
    ]
    faults.append(Fault(at_s=13.0, verb="crash", target="planner", number=100))
    return Scenario(
        seed=seed, jobs=jobs, planners=2, network=Trouble(dropped=0.001, delay_s_max=0.05), faults=tuple(faults)
    )


def _job(dice: Random, name: str) -> JobPlan:
    job = _any_job(dice, name)
    # Sizes that a policy names are sizes of four nodes.
    return replace(job, nodes=4) if '"nnodes_min":2' in job.policy or "nnodes_allowed" in job.policy else job


def _any_job(dice: Random, name: str) -> JobPlan:
    return JobPlan(
        name=name,
        nodes=dice.choice((1, 2, 2, 3, 4)),
        spares=dice.choice((0, 1, 1, 2)),
        nproc=dice.choice((1, 2)),
        restarts=dice.choice((1, 2, 3, 100)),
        window_s=dice.choice((60.0, 3_600.0)),
        steps=dice.choice((None, None, 25, 60)),
        save_every=dice.choice((2, 4, 7)),
        in_place=dice.choice((0, 0, 1)),
        policy=dice.choice(_POLICIES) if dice.random() < 0.4 else "",
    )


def _network(dice: Random) -> Trouble:
    if dice.random() < 0.3:
        return Trouble(delay_s_max=0.01)
    return Trouble(
        publish_lost=dice.choice((0.0, 0.02, 0.1)),
        dropped=dice.choice((0.0, 0.01, 0.03)),
        duplicated=dice.choice((0.0, 0.02, 0.1)),
        delay_s_max=dice.choice((0.002, 0.05, 0.3)),
        reordered=dice.choice((0.0, 0.05)),
    )


def _faults(dice: Random, jobs: tuple[JobPlan, ...], planners: int) -> tuple[Fault, ...]:
    """Most come close behind another one: while it is stopped, decided and started again."""
    faults: list[Fault] = []
    at_s = dice.choice((0.0, 0.5, 5.0, 12.0))
    for _ in range(dice.choice((1, 2, 3, 4, 6, 9))):
        at_s = round(at_s + dice.choice((0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 3.0, 8.0, 20.0)) * dice.random(), 3)
        faults.append(_fault(dice, at_s, dice.choice(jobs), planners))
    return tuple(faults)


def _fault(dice: Random, at_s: float, job: JobPlan, planners: int) -> Fault:
    verb = dice.choice(_VERBS)
    node, rank = dice.choice(job.agents), dice.randrange(job.nodes * job.nproc)
    match verb:
        case "kill rank":
            return Fault(at_s=at_s, verb=verb, target=job.name, rank=rank, number=dice.choice(_SIGNALS))
        case "oom rank" | "hang rank":
            return Fault(at_s=at_s, verb=verb, target=job.name, rank=rank)
        case "poison":
            return Fault(at_s=at_s, verb=verb, target=job.name, for_s=dice.choice((4.0, 15.0, 40.0)))
        case "raise":
            return Fault(at_s=at_s, verb=verb, target=job.name, rank=rank, word=dice.choice(_ERRORS))
        case "crash":
            who = dice.choice(("planner", "planner", "planner", "standby", "ingest", "classifier"))
            touches, back_s = dice.choice((0, 1, 2, 3, 5, 8, 13, 21, 40)), dice.choice((None, 0.2, 4.0, 12.0))
            return Fault(at_s=at_s, verb=verb, target=who, number=touches, for_s=back_s)
        case "cut off":
            who = dice.choice((node, node, "planner"))
            return Fault(at_s=at_s, verb=verb, target=who, for_s=dice.choice((0.5, 3.0, 12.0, 25.0)))
        case "lose node" | "kill agent":
            return Fault(at_s=at_s, verb=verb, target=node, for_s=dice.choice((None, None, 0.2, 3.0, 15.0)))
        case "jump clock":
            return Fault(at_s=at_s, verb=verb, target=node, number=dice.choice((-3_600, -90, -20, 10, 90, 3_600)))
        case "xid":
            return Fault(at_s=at_s, verb=verb, target=node, number=dice.choice(_XIDS))
        case "notice":
            return Fault(at_s=at_s, verb=verb, target=node, number=dice.choice((5, 20)))
        case "fail start" | "fail action" | "leave" | "repeat events":
            return Fault(at_s=at_s, verb=verb, target=node)
        case "verdict":
            old, place = dice.choice((0, 0, 1, 2)), dice.randrange(job.nodes)
            return Fault(at_s=at_s, verb=verb, target=job.name, rank=place, number=old, word=dice.choice(_ACTIONS))
    return Fault(at_s=at_s, verb=verb, target=job.name)
