"""The demo from its first to its last job, beside a run that nothing happens to."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime

from fault_contracts.agent import WorkersStopped
from fault_contracts.payload import Payload
from phalanx_cli.demo.acts import bug_job, recovering_job
from phalanx_cli.demo.judgement import SUCCEEDED, FaultResult
from phalanx_cli.demo.options import Options
from phalanx_cli.demo.place import RunFolder
from phalanx_cli.demo.report import Report
from phalanx_cli.demo.scenario import WORLD_SIZE, Act
from phalanx_cli.demo.screen import Screen
from phalanx_cli.demo.stage import CLUSTER, Stage
from phalanx_cli.demo.story import JobStory
from phalanx_cli.demo.third_strike import third_strike
from phalanx_cli.demo.watch import Watch
from phalanx_cli.demo.weights import WeightsVerdict, compare, last_step
from phalanx_cli.journal.sentences import sentence
from phalanx_cli.stack.guard import GuardedProcess, ProcessSpec
from phalanx_cli.stack.services import SERVICES, ServiceSpec
from phalanx_cli.stack.stack import Stack
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.settings import BusSettings

UNFAILED = "unfailed"
UNFAILED_LIMIT_S = 300.0
HOT_TOLERANCE_S = 2.0
"""Five minutes by default: a hot GPU slows a gang down, it does not break it."""
RECOVERING = (Act.RESTARTS, Act.IN_PLACE, Act.HARDWARE, Act.POLICY)
"""The jobs that come to their end, in order."""


def impatient_services() -> tuple[ServiceSpec, ...]:
    """The services, of which one tolerates a hot GPU for less time than a real one deserves: nobody wants to watch."""
    tolerances = json.dumps({"gpu_temperature_outlier": HOT_TOLERANCE_S})
    return tuple(
        replace(spec, env={**spec.env, "PHALANX_TOLERANCE_BY_CHECK": tolerances})
        if spec.name == "health-ingest"
        else spec
        for spec in SERVICES
    )


async def play(options: Options, folder: RunFolder, screen: Screen) -> Report:
    """Run everything and say what held.

    Raises:
        StackError, ServiceError: the servers or the bus are not to be had.
    """
    results: list[FaultResult] = []
    problems: list[str] = []
    weights: tuple[WeightsVerdict, ...] = ()
    if any(options.faults_of(act) for act in (*RECOVERING, Act.BUG)):
        weights = await _jobs(options, folder, screen, results, problems)
    if options.faults_of(Act.NODES):
        strikes = await third_strike(folder, screen)
        results += strikes.results
        problems += strikes.problems
    return Report(
        faults=tuple(results),
        weights=weights,
        problems=tuple(problems),
        took_s=screen.elapsed_s,
        logs=folder.logs,
    )


async def _jobs(
    options: Options, folder: RunFolder, screen: Screen, results: list[FaultResult], problems: list[str]
) -> tuple[WeightsVerdict, ...]:
    """All jobs on one stack, beside the run to compare them with."""
    there = options.machines is not None
    screen.heading(
        f"{'Using the servers and services that run' if there else 'Starting nats-server, Valkey and three services'}; "
        f"{WORLD_SIZE} ranks train without faults meanwhile"
    )
    acts = tuple(act for act in RECOVERING if options.faults_of(act))
    async with AsyncExitStack() as exits:
        stack, _ = await asyncio.gather(
            _servers(options, folder, exits), _unfailed(options, acts, folder, screen, problems)
        )
        settings = BusSettings() if stack is None else BusSettings(nats_url=stack.nats_url, cluster=CLUSTER)
        connection = await connect(settings, name="demo")
        exits.push_async_callback(connection.close)
        bus = JetStreamBus(connection, cluster=settings.cluster)
        watch = await exits.enter_async_context(Watch(bus, _shown_on(screen)))
        stage = Stage(
            options=options,
            folder=folder,
            screen=screen,
            watch=watch,
            stack=stack,
            nats_url=settings.nats_url,
            bus=bus,
            cluster=settings.cluster,
        )
        for act in acts:
            await recovering_job(stage, act)
        if options.faults_of(Act.BUG):
            await bug_job(stage)
        results += stage.results
        problems += stage.problems
        problems += [f"dead letter from {letter.consumer}: {letter.message}" for letter in watch.dead_letters]
    return tuple(
        compare(
            folder.work(UNFAILED),
            folder.work(act),
            job=f"demo-{act}",
            world_size=WORLD_SIZE,
            step=last_step(folder.work(act)),
        )
        for act in acts
    )


async def _servers(options: Options, folder: RunFolder, exits: AsyncExitStack) -> Stack | None:
    """The demo's own servers and services; None where they run already."""
    if options.machines is not None:
        return None
    return await exits.enter_async_context(Stack(folder.stack, CLUSTER, services=impatient_services()))


async def _unfailed(
    options: Options, acts: tuple[Act, ...], folder: RunFolder, screen: Screen, problems: list[str]
) -> None:
    """The run to compare with, for all jobs at once; not paced, for nobody watches it."""
    if not acts:
        return
    steps = max(options.steps_of(act) for act in acts)
    script = (
        *("--work", str(folder.work(UNFAILED)), "--steps", str(steps), "--seed", str(options.seed)),
        *("--checkpoint-every", str(options.checkpoint_every)),
    )
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
    screen.line(UNFAILED, f"{steps} steps without faults: {process.ending}")


def _shown_on(screen: Screen) -> Callable[[JobStory, Payload, datetime], None]:
    def show(story: JobStory, event: Payload, _at: datetime) -> None:
        told = sentence(event, ranks_per_node=story.ranks_per_node)
        if isinstance(event, WorkersStopped) and event.node_id not in story.rank_table:
            told = None  # a node in reserve has no ranks; it only confirms that it heard
        if told is not None:
            screen.line(*told)
        screen.status(story, at_once=told is not None)

    return show
