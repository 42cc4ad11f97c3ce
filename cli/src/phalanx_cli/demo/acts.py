"""The demo's jobs, one after the other. Each step waits for an event that was seen, never for a time to pass."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from fault_contracts.recovery import JobOutcome
from phalanx_cli.demo.come_back import come_back
from phalanx_cli.demo.grow_again import join_later
from phalanx_cli.demo.inject import Injection, InjectionFailed
from phalanx_cli.demo.judgement import FAILED, judge_bug, judge_recovery, whole_run_problems
from phalanx_cli.demo.pace import say_enough
from phalanx_cli.demo.planner_kill import kill_planner
from phalanx_cli.demo.processes import read_processes
from phalanx_cli.demo.scenario import NODES, RANKS_PER_NODE, WORLD_SIZE, Act, Fault
from phalanx_cli.demo.stage import (
    RECOVERY_LIMIT_S,
    START_LIMIT_S,
    Job,
    Stage,
    gone,
    inject_and_wait,
    rest_s,
    start,
    until_training,
)
from phalanx_cli.demo.story import JobStory
from phalanx_cli.demo.truths import TRUTHS
from phalanx_cli.demo.watch import NotSeen

NODES_BY_NAME = ("node-a", "node-b", "node-c", "node-d")
GPU_NODES_BY_NAME = ("gpu-a", "gpu-b", "gpu-c", "gpu-d")
"""Machines of their own: those that break are held back from any later job, as they must be."""
HEADINGS = {
    Act.RESTARTS: "A job on two nodes with two ranks each; every fault must be recovered from",
    Act.IN_PLACE: "The same training as a re-executable block: processes must stay, but for the one that is killed",
    Act.POLICY: "The same training with a recovery policy, for what a restart alone does not help",
    Act.HARDWARE: "The same training on nodes with GPUs (made up by a fake driver library): "
    "a sick GPU must lose its work, and a program's own fault must cost no node",
}
BUG_RANK = 1
BUG_SENTENCE = f"rank {BUG_RANK} meets a character that the model does not know, at the same step in every try"


async def recovering_job(stage: Stage, act: Act) -> None:
    """A job that comes through all of its faults, and ends as if nothing had happened."""
    options, watch = stage.options, stage.watch
    spares = options.spares_of(act)
    stage.screen.heading(f"{HEADINGS[act]}{f'; nodes in reserve: {spares}' if spares else ''}")
    story = JobStory(f"demo-{act}", ranks_per_node=RANKS_PER_NODE)
    watch.follow(story)
    names = (GPU_NODES_BY_NAME if act is Act.HARDWARE else NODES_BY_NAME)[: NODES + spares]
    with ExitStack() as ends:
        agents = ends.enter_context(
            stage.agents(story.job_id, act, "--faults", str(stage.folder.faults), spares=spares)
        )
        hosts = ends.enter_context(stage.hosts(names)) if act is Act.HARDWARE else None
        job = Job(act=act, story=story, agents=agents, names=names, hosts=hosts)
        exits = start(job, watch)
        try:
            await until_training(stage, job)
            for fault in options.faults_of(act):
                await _play_fault(stage, job, fault)
            if act is not Act.RESTARTS:  # the first job has the length that the user asked for
                say_enough(stage.folder.work(act))
            limit_s = rest_s(options.steps_of(act), options.step_s)
            await watch.until(lambda: story.ended is not None, "the end of the job", limit_s=limit_s)
        except (NotSeen, InjectionFailed) as error:
            stage.problems.append(str(error))
        left = await agents.left() if story.ended else {}
        exits.cancel()
    processes = stage.folder.work(act) / "processes"
    lives = read_processes(processes, topology_versions=story.topology_version, world_size=WORLD_SIZE)
    stage.results.extend(judge_recovery(story, one, lives) for one in job.injected)
    stage.problems.extend(job.problems)
    stage.problems.extend(
        whole_run_problems(
            story,
            outcome=JobOutcome.SUCCEEDED,
            incidents=sum(TRUTHS[fault].incidents for fault in options.faults_of(act)),
            left=left,
            expected=job.expected,
        )
    )


async def _play_fault(stage: Stage, job: Job, fault: Fault) -> None:
    """One fault and what belongs to it.

    Raises:
        NotSeen, InjectionFailed: it could not be injected, or was not recovered from.
    """
    match fault:
        case Fault.KILL_PLANNER:
            await inject_and_wait(stage, job, fault, partial(kill_planner, stage, job, len(job.story.incidents)))
        case Fault.NO_SPARE:
            await inject_and_wait(stage, job, fault, partial(join_later, stage, job, len(job.story.incidents)))
        case Fault.XID_79:
            await inject_and_wait(stage, job, fault)
            await come_back(stage, job, job.injected[-1].injection.node_id)
        case _:
            await inject_and_wait(stage, job, fault)


async def bug_job(stage: Stage) -> None:
    """The last job: one retry, then the end with the user's verdict."""
    stage.screen.heading(f"A job with a bug: {BUG_SENTENCE}; it must end after one retry")
    story = JobStory(f"demo-{Act.BUG}", ranks_per_node=RANKS_PER_NODE)
    stage.watch.follow(story)
    names = NODES_BY_NAME[:2]
    extra = ("--bug-at-step", str(stage.options.bug_at_step), "--bug-rank", str(BUG_RANK))
    with stage.agents(story.job_id, Act.BUG, *extra, spares=0) as agents:
        job = Job(act=Act.BUG, story=story, agents=agents, names=names, expected=dict.fromkeys(names, FAILED))
        exits = start(job, stage.watch)
        try:
            await stage.watch.until(
                lambda: story.ended is not None or gone(job),
                "the end of the job",
                limit_s=START_LIMIT_S + RECOVERY_LIMIT_S,
            )
        except NotSeen as error:
            stage.problems.append(str(error))
        left = await agents.left() if story.ended else {}
        exits.cancel()
    node_id = story.holder(BUG_RANK)[0] if story.rank_table else ""
    injection = Injection(fault=Fault.BUG, sentence=BUG_SENTENCE, node_id=node_id, rank=BUG_RANK)
    result = judge_bug(story, injection)
    stage.results.append(result)
    if not result.problems:
        stage.screen.line("end", "no further restart: one retry came to the same end, so the fault is the user's own")
    stage.problems.extend(
        whole_run_problems(story, outcome=JobOutcome.FAILED_USER, incidents=2, left=left, expected=job.expected)
    )
