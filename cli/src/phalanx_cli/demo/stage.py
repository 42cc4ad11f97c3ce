"""What the demo's jobs share: their agents, the waits for what was seen on the bus, and one injected fault."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from phalanx_cli.demo.agents import Agents, Place
from phalanx_cli.demo.hosts import Hosts
from phalanx_cli.demo.inject import inject
from phalanx_cli.demo.judgement import KILLED, SUCCEEDED, FaultResult, Injected
from phalanx_cli.demo.options import Options
from phalanx_cli.demo.place import RunFolder
from phalanx_cli.demo.scenario import Act, Fault
from phalanx_cli.demo.screen import Screen
from phalanx_cli.demo.story import JobStory
from phalanx_cli.demo.truths import TRUTHS
from phalanx_cli.demo.watch import NotSeen, Watch
from phalanx_cli.stack.stack import Stack
from service_kit.clock import SystemClock
from service_kit.ports import Bus

CLUSTER = "demo"
POLICY = Path(__file__).with_name("policy.yaml")
LOG_RULES = Path(__file__).with_name("log_rules.yaml")
START_LIMIT_S = 120.0
"""From the agents' start to the first step of all ranks: three interpreters import torch, in 50 s on busy cores."""
PROGRESS_LIMIT_S = 30.0
"""For a complete checkpoint and a step after it: a second's work."""
RECOVERY_LIMIT_S = 45.0
"""From a fault to its closed incident; the planner's own limits are shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The servers, the screen, and what was found so far."""

    options: Options
    folder: RunFolder
    screen: Screen
    watch: Watch
    stack: Stack | None
    """None: servers and services run elsewhere."""
    nats_url: str
    bus: Bus
    cluster: str = CLUSTER
    results: list[FaultResult] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def agents(self, job_id: str, act: Act, *extra: str, spares: int) -> Agents:
        """The agents of one job, not started yet."""
        place = Place(
            job_id=job_id,
            cluster=self.cluster,
            nats_url=self.nats_url,
            folder=self.folder.logs / job_id,
            machines=self.options.machines,
        )
        module = "phalanx_cli.demo.train_in_place" if act is Act.IN_PLACE else "phalanx_cli.demo.train"
        script = training_arguments(self.options, act, self.folder, "--step-s", str(self.options.step_s), *extra)
        files = {Act.RESTARTS: ("--log-rules", str(LOG_RULES)), Act.POLICY: ("--policy", str(POLICY))}
        return Agents(place, (module, *script), spares=spares, files=files.get(act, ()))

    def hosts(self, names: Sequence[str]) -> Hosts:
        """The host roles of the nodes, started.

        Raises:
            NoCompiler, BuildFailed: the fake driver library cannot be built here.
        """
        hosts = Hosts(
            self.folder.logs / "hosts", cluster=self.cluster, nats_url=self.nats_url, cache=self.folder.root.parent
        )
        hosts.start(names)
        return hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job on the stage."""

    act: Act
    story: JobStory
    agents: Agents
    names: tuple[str, ...]
    hosts: Hosts | None = None
    """Where the nodes have GPUs."""
    injected: list[Injected] = field(default_factory=list)
    expected: dict[str, str] = field(default_factory=dict)
    """How each agent has to end."""
    problems: list[str] = field(default_factory=list)
    """Of what was done to a recovery while it was under way."""


def training_arguments(options: Options, act: Act, folder: RunFolder, *extra: str) -> tuple[str, ...]:
    """Arguments of the training script that all runs share."""
    return (
        *("--work", str(folder.work(act)), "--steps", str(options.steps_of(act)), "--seed", str(options.seed)),
        *("--checkpoint-every", str(options.checkpoint_every)),
        *extra,
    )


def start(job: Job, watch: Watch) -> asyncio.Task[None]:
    """Start the nodes, and wake whoever waits when one of them ends."""

    async def notice(node_id: str) -> None:
        await job.agents.processes[node_id].wait()
        await watch.notice()

    async def notice_all() -> None:
        await asyncio.gather(*(notice(node_id) for node_id in job.names))

    for node_id in job.names:
        job.agents.start(node_id)
        job.expected.setdefault(node_id, SUCCEEDED)
    return asyncio.create_task(notice_all())


def gone(job: Job) -> bool:
    """Whether an agent has ended."""
    return any(job.agents.processes[name].returncode is not None for name in job.names)


async def until_training(stage: Stage, job: Job) -> None:
    """All nodes are there, the one in reserve too: its start must not share the cores with a measured recovery.

    Raises:
        NotSeen: not within the limit, or an agent ended.
    """
    story = job.story
    watched = () if job.hosts is None else job.names

    def ready() -> bool:
        there = story.watched.issuperset(watched) and all(name in story.nodes for name in job.names)
        return (story.training and there) or gone(job)

    await stage.watch.until(
        ready,
        "the first step of all ranks",
        limit_s=START_LIMIT_S,
    )
    for name in job.names:
        process = job.agents.processes[name]
        if process.returncode is not None:
            raise NotSeen(f"phalanx run on {name} ended with {process.ending}: see {job.agents.log_path(name)}")


async def inject_and_wait(
    stage: Stage, job: Job, fault: Fault, meanwhile: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Hit when the newest generation has a whole checkpoint and steps after it; then wait for the closed incident.

    `meanwhile` is what else is done to the recovery while it is under way.

    Raises:
        NotSeen: no progress, no recovery, or the job was too short.
        InjectionFailed: the target was not there.
    """
    story = job.story

    def worth_it() -> bool:
        checkpoint, step = story.checkpoint, story.step
        if story.ended is not None:
            return True
        if not story.training or checkpoint is None or step is None:
            return False
        return checkpoint > story.base_step and step > checkpoint

    await stage.watch.until(worth_it, f"progress before {fault}", limit_s=PROGRESS_LIMIT_S)
    if story.ended is not None:
        raise NotSeen(f"the job ended before {fault} could be injected; give it more --steps")
    before = len(story.incidents)
    wanted = before + TRUTHS[fault].incidents
    at = SystemClock().now()
    injection = inject(fault, story, stage.folder.faults, job.hosts)
    stage.screen.line("inject", injection.sentence)
    job.injected.append(Injected(injection=injection, at=at, incidents_before=before))
    job.expected.update(dict.fromkeys(injection.agents_killed, KILLED))
    if meanwhile is not None:
        await meanwhile()
    await stage.watch.until(
        lambda: (len(story.incidents) >= wanted and story.open_incident is None) or story.ended is not None,
        f"the recovery from {fault}",
        limit_s=RECOVERY_LIMIT_S,
    )


def rest_s(steps: int, step_s: float) -> float:
    """For the steps that are left, at ten times their pace."""
    return 30.0 + 10 * steps * max(step_s, 0.02)
