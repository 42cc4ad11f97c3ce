"""The demo from its first to its last act. Each step waits for an event that it saw, never for a time to pass."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fault_contracts.agent import WorkersStopped
from fault_contracts.payload import Payload
from fault_contracts.recovery import JobOutcome
from phalanx_cli.demo.agents import Agents, Place
from phalanx_cli.demo.inject import InjectionFailed, inject
from phalanx_cli.demo.judgement import (
    FAILED,
    KILLED,
    SUCCEEDED,
    FaultResult,
    Injected,
    judge_bug,
    judge_recovery,
    whole_run_problems,
)
from phalanx_cli.demo.place import RunFolder
from phalanx_cli.demo.report import Report
from phalanx_cli.demo.scenario import RANKS_PER_NODE, WORLD_SIZE, Fault, Options
from phalanx_cli.demo.screen import Screen
from phalanx_cli.demo.sentences import sentence
from phalanx_cli.demo.story import JobStory
from phalanx_cli.demo.watch import NotSeen, Watch
from phalanx_cli.demo.weights import WeightsVerdict, compare
from phalanx_cli.stack.guard import GuardedProcess, ProcessSpec
from phalanx_cli.stack.stack import Stack
from service_kit.clock import SystemClock
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.settings import BusSettings

CLUSTER = "demo"
START_LIMIT_S = 60.0
"""From the agents' start to the first step of all ranks: three interpreters import torch on busy cores."""
PROGRESS_LIMIT_S = 30.0
"""For a complete checkpoint and a step after it: a second's work."""
RECOVERY_LIMIT_S = 45.0
"""From a fault to its closed incident; the planner's own limits are shorter."""
UNFAILED_LIMIT_S = 300.0
NODES_BY_NAME = ("node-a", "node-b", "node-c")
BUG_SENTENCE = "rank 1 meets a character that the model does not know, at the same step in every try"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """What the acts share."""

    options: Options
    folder: RunFolder
    screen: Screen
    watch: Watch
    nats_url: str

    def agents(self, job_id: str, work: str, *extra: str, spares: int) -> Agents:
        """The agents of one job, not started yet."""
        place = Place(job_id=job_id, cluster=CLUSTER, nats_url=self.nats_url, folder=self.folder.logs / job_id)
        return Agents(place, training_arguments(self.options, self.folder.work(work), *extra), spares=spares)


async def play(options: Options, folder: RunFolder, screen: Screen) -> Report:
    """Run everything and say what held.

    Raises:
        StackError, ServiceError: the servers or the bus are not to be had.
    """
    screen.heading(
        f"Starting nats-server, Valkey and three services; {WORLD_SIZE} ranks train without faults meanwhile"
    )
    faults: list[FaultResult] = []
    problems: list[str] = []
    weights: WeightsVerdict | None = None
    async with AsyncExitStack() as exits:
        stack, _ = await asyncio.gather(
            exits.enter_async_context(Stack(folder.stack, CLUSTER)), _unfailed(options, folder, screen, problems)
        )
        connection = await connect(BusSettings(nats_url=stack.nats_url, cluster=CLUSTER), name="demo")
        exits.push_async_callback(connection.close)
        bus = JetStreamBus(connection, cluster=CLUSTER)
        watch = await exits.enter_async_context(Watch(bus, _shown_on(screen)))
        stage = _Stage(options=options, folder=folder, screen=screen, watch=watch, nats_url=stack.nats_url)
        if options.recoverable:
            await _recoverable_job(stage, faults, problems)
            weights = compare(
                folder.work("unfailed") / "final",
                folder.work("faults-job") / "final",
                world_size=WORLD_SIZE,
                steps=options.steps,
            )
        if Fault.BUG in options.faults:
            await _bug_job(stage, faults, problems)
        problems += [f"dead letter from {letter.consumer}: {letter.message}" for letter in watch.dead_letters]
    return Report(
        faults=tuple(faults), weights=weights, problems=tuple(problems), took_s=screen.elapsed_s, logs=folder.logs
    )


def training_arguments(options: Options, work: Path, *extra: str) -> tuple[str, ...]:
    """Arguments of the training script that all runs share."""
    return (
        *("--work", str(work), "--steps", str(options.steps), "--seed", str(options.seed)),
        *("--checkpoint-every", str(options.checkpoint_every)),
        *extra,
    )


async def _unfailed(options: Options, folder: RunFolder, screen: Screen, problems: list[str]) -> None:
    """The run to compare with; not paced, for nobody watches it."""
    if not options.recoverable:
        return
    script = training_arguments(options, folder.work("unfailed"))
    process = GuardedProcess(
        ProcessSpec(
            name="unfailed run",
            argv=(sys.executable, "-P", "-m", "phalanx_cli.demo.unfailed", str(WORLD_SIZE), *script),
            log_path=folder.logs / "unfailed.log",
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        )
    )
    try:
        async with asyncio.timeout(UNFAILED_LIMIT_S):
            await process.wait()
    except TimeoutError:
        problems.append(f"the unfailed run did not end within {UNFAILED_LIMIT_S:g} s")
    finally:
        process.kill()
    if process.ending != SUCCEEDED:
        problems.append(f"the unfailed run ended with {process.ending}: see {folder.logs / 'unfailed.log'}")
    screen.line("unfailed", f"{options.steps} steps without faults: {process.ending}")


async def _recoverable_job(stage: _Stage, faults: list[FaultResult], problems: list[str]) -> None:
    """First job: every fault in turn, each recovered from, and the end as if nothing had happened."""
    options, watch = stage.options, stage.watch
    stage.screen.heading("First job: two nodes with two ranks each, one in reserve; every fault must be recovered from")
    story = JobStory("demo-recovers", ranks_per_node=RANKS_PER_NODE)
    watch.follow(story)
    extra = ("--step-s", str(options.step_s), "--faults", str(stage.folder.faults))
    injected: list[Injected] = []
    expected = dict.fromkeys(NODES_BY_NAME, SUCCEEDED)
    with stage.agents(story.job_id, "faults-job", *extra, spares=1) as agents:
        exits = _start(agents, NODES_BY_NAME, watch)
        try:
            await _until_training(stage, story, agents, NODES_BY_NAME)
            for fault in options.recoverable:
                await _inject_and_wait(stage, story, fault, injected, expected)
            await watch.until(lambda: story.ended is not None, "the end of the job", limit_s=_rest_s(options))
        except (NotSeen, InjectionFailed) as error:
            problems.append(str(error))
        left = await agents.left() if story.ended else {}
        exits.cancel()
    faults += [judge_recovery(story, one) for one in injected]
    problems += whole_run_problems(
        story, outcome=JobOutcome.SUCCEEDED, incidents=len(options.recoverable), left=left, expected=expected
    )


async def _bug_job(stage: _Stage, faults: list[FaultResult], problems: list[str]) -> None:
    """Second job: one retry, then the end with the user's verdict."""
    stage.screen.heading(f"Second job: {BUG_SENTENCE}; it must end after one retry")
    story = JobStory("demo-bug", ranks_per_node=RANKS_PER_NODE)
    stage.watch.follow(story)
    names = NODES_BY_NAME[:2]
    extra = ("--step-s", str(stage.options.step_s), "--bug-at-step", str(stage.options.bug_at_step), "--bug-rank", "1")
    with stage.agents(story.job_id, "bug-job", *extra, spares=0) as agents:
        exits = _start(agents, names, stage.watch)
        try:
            await stage.watch.until(
                lambda: story.ended is not None or _gone(agents, names), "the end of the job", limit_s=START_LIMIT_S * 2
            )
        except NotSeen as error:
            problems.append(str(error))
        left = await agents.left() if story.ended else {}
        exits.cancel()
    result = judge_bug(story, BUG_SENTENCE)
    faults.append(result)
    if not result.problems:
        stage.screen.line("end", "no further restart: one retry came to the same end, so the fault is the user's own")
    problems += whole_run_problems(
        story, outcome=JobOutcome.FAILED_USER, incidents=2, left=left, expected=dict.fromkeys(names, FAILED)
    )


def _start(agents: Agents, names: tuple[str, ...], watch: Watch) -> asyncio.Task[None]:
    """Start the nodes, and wake whoever waits when one of them ends."""

    async def notice(node_id: str) -> None:
        await agents.processes[node_id].wait()
        await watch.notice()

    async def notice_all() -> None:
        await asyncio.gather(*(notice(node_id) for node_id in names))

    for node_id in names:
        agents.start(node_id)
    return asyncio.create_task(notice_all())


def _gone(agents: Agents, names: tuple[str, ...]) -> bool:
    return any(agents.processes[name].returncode is not None for name in names)


async def _until_training(stage: _Stage, story: JobStory, agents: Agents, names: tuple[str, ...]) -> None:
    """All nodes are there, the one in reserve too: its start must not share the cores with a measured recovery."""
    await stage.watch.until(
        lambda: (story.training and all(name in story.nodes for name in names)) or _gone(agents, names),
        "the first step of all ranks",
        limit_s=START_LIMIT_S,
    )
    for name in names:
        process = agents.processes[name]
        if process.returncode is not None:
            raise NotSeen(f"phalanx run on {name} ended with {process.ending}: see {agents.log_path(name)}")


async def _inject_and_wait(
    stage: _Stage, story: JobStory, fault: Fault, injected: list[Injected], expected: dict[str, str]
) -> None:
    """Hit when the newest generation has a whole checkpoint and steps after it; then wait for the closed incident."""

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
    at = SystemClock().now()
    injection = inject(fault, story, stage.folder.faults)
    stage.screen.line("inject", injection.sentence)
    injected.append(Injected(injection=injection, at=at, incidents_before=before))
    if fault is Fault.KILL_NODE:
        expected[injection.target] = KILLED
    await stage.watch.until(
        lambda: (len(story.incidents) > before and story.open_incident is None) or story.ended is not None,
        f"the recovery from {fault}",
        limit_s=RECOVERY_LIMIT_S,
    )


def _rest_s(options: Options) -> float:
    """For the steps that are left, at ten times their pace."""
    return 30.0 + 10 * options.steps * max(options.step_s, 0.02)


def _shown_on(screen: Screen) -> Callable[[JobStory, Payload, datetime], None]:
    def show(story: JobStory, event: Payload, _at: datetime) -> None:
        told = sentence(event, ranks_per_node=story.ranks_per_node)
        if isinstance(event, WorkersStopped) and event.node_id not in story.rank_table:
            told = None  # a node in reserve has no ranks; it only confirms that it heard
        if told is not None:
            screen.line(*told)
        screen.status(story, at_once=told is not None)

    return show
