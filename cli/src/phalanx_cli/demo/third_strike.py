"""A node whose GPU fails again and again: two resets, each with a probation, and at the third strike another node.

No job runs here. The planner needs a policy for all nodes, which would hold for every job of the demo, so this scene
has servers and services of its own. The host roles are real, over GPUs of the fake driver library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from fault_contracts.payload import Payload
from fault_contracts.remediation import NodeTended
from phalanx_cli.demo.hosts import Hosts
from phalanx_cli.demo.inject import Injection
from phalanx_cli.demo.judgement import FaultResult, Injected
from phalanx_cli.demo.place import RunFolder
from phalanx_cli.demo.scenario import RANKS_PER_NODE, Fault
from phalanx_cli.demo.screen import Screen
from phalanx_cli.demo.story import JobStory
from phalanx_cli.demo.strikes import FRESH, SICK, STRIKES, fresh_at_work, judge_strikes, named, over, tended_words
from phalanx_cli.demo.watch import NotSeen, Watch
from phalanx_cli.drill.injection import Kind
from phalanx_cli.journal.sentences import sentence
from phalanx_cli.stack.services import SERVICES, ServiceSpec
from phalanx_cli.stack.stack import Stack
from service_kit.clock import SystemClock
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.settings import BusSettings

CLUSTER = "demo-strikes"
LADDER = Path(__file__).with_name("ladder.yaml")
GPU, XID = 1, "48"
"""A double-bit ECC error: the reset that it asks for is the ladder's first rung."""
START_LIMIT_S = 120.0
"""For a host role and its child with the driver library, on busy cores."""
STRIKE_LIMIT_S = 60.0
"""From a strike to the end of its probation: some five seconds on quiet cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strikes:
    """What the scene found."""

    results: tuple[FaultResult, ...] = ()
    problems: tuple[str, ...] = ()


async def third_strike(folder: RunFolder, screen: Screen) -> Strikes:
    """Play the scene from the first server to the last.

    Raises:
        StackError, ServiceError: the servers or the bus are not to be had.
        NoCompiler, BuildFailed: the fake driver library cannot be built here.
    """
    screen.heading(
        f"Two nodes with GPUs and no job on them, a planner with a ladder for all nodes: {SICK} fails three times, "
        f"{FRESH} is the pool's"
    )
    place = folder.root / "work" / "strikes"
    place.mkdir(parents=True)
    story = JobStory(str(Fault.THIRD_STRIKE), ranks_per_node=RANKS_PER_NODE)
    injected: list[Injected] = []
    problems: list[str] = []
    async with Stack(place / "stack", CLUSTER, services=_services(place)) as stack:
        connection = await connect(BusSettings(nats_url=stack.nats_url, cluster=CLUSTER), name="demo")
        try:
            async with Watch(JetStreamBus(connection, cluster=CLUSTER), _shown_on(screen)) as watch:
                watch.follow(story)
                with _hosts(folder, place, stack.nats_url) as hosts:
                    await _play(watch, story, hosts, screen, injected)
                problems += [f"dead letter from {letter.consumer}: {letter.message}" for letter in watch.dead_letters]
        except NotSeen as error:
            problems.append(str(error))
        finally:
            await connection.close()
    results = (judge_strikes(story, injected[-1]),) if injected else ()
    return Strikes(results=results, problems=tuple(problems))


async def _play(watch: Watch, story: JobStory, hosts: Hosts, screen: Screen, injected: list[Injected]) -> None:
    """Three strikes, and the node that comes after the last one.

    Raises:
        NotSeen: a strike had no end, or nothing came of the last one.
    """
    hosts.start([SICK])
    await watch.until(lambda: SICK in story.watched, f"the GPUs of {SICK}", limit_s=START_LIMIT_S)
    for strike in range(1, STRIKES + 1):
        at = SystemClock().now()
        gpu = hosts.break_gpu(SICK, GPU, Kind.XID, XID)
        what = f"strike {strike}: Xid {XID} of GPU {gpu.uuid} of {SICK}, a double-bit ECC error"
        screen.line("inject", what)
        injection = Injection(fault=Fault.THIRD_STRIKE, sentence=what, node_id=SICK, rank=None, gpu_uuid=gpu.uuid)
        injected.append(Injected(injection=injection, at=at, incidents_before=0))
        if strike < STRIKES:
            await _until(watch, partial(_as_many_over, story, strike), f"the end of strike {strike}")
    await _until(watch, lambda: named(story), "the pool's word which node comes")
    # A pool names a node before it runs: this is the machine that boots.
    hosts.start([FRESH])
    screen.line("node", f"{FRESH} is started")
    await watch.until(lambda: fresh_at_work(story) is not None, f"{FRESH} in use", limit_s=START_LIMIT_S)
    await _until(watch, lambda: gpu.uuid in story.quarantined, "the ledger's quarantine")


def _as_many_over(story: JobStory, strikes: int) -> bool:
    return over(story) >= strikes


async def _until(watch: Watch, condition: Callable[[], bool], what: str) -> None:
    await watch.until(condition, what, limit_s=STRIKE_LIMIT_S)


def _services(place: Path) -> tuple[ServiceSpec, ...]:
    """The services, of which the planner has the ladder and the names of the pool."""
    (place / "nodes").write_text(f"{FRESH}\n", encoding="utf-8")
    policy = place / LADDER.name
    policy.write_text(f"{LADDER.read_text(encoding='utf-8')}pool: {{kind: static, file: nodes}}\n", encoding="utf-8")
    return tuple(
        replace(spec, env={**spec.env, "PHALANX_POLICY": str(policy)}) if spec.name == "recovery-planner" else spec
        for spec in SERVICES
    )


def _hosts(folder: RunFolder, place: Path, nats_url: str) -> Hosts:
    """The host roles, which may reset their GPUs: the fake driver library begins to count errors anew."""
    hosts = folder.logs / "strikes"
    settings = {
        "PHALANX_NODE_ACTIONS": "validate,reset_gpu",
        "PHALANX_RESET_COMMAND": f"sed -i /ecc_volatile_uncorrected/d {hosts}/{{node}}/nvml.state",
        "PHALANX_PROC_ROOT": str(_quiet_proc(place / "proc")),
    }
    return Hosts(hosts, cluster=CLUSTER, nats_url=nats_url, cache=folder.root.parent, settings=settings)


def _quiet_proc(proc: Path) -> Path:
    """The /proc of a machine on which nobody holds a GPU.

    Of the real one only root may see that, and a GPU of which it is not known is not reset.
    """
    for name, text in {
        "sys/kernel/random/boot_id": "7d0c2a5e-0000-4000-8000-000000000001",
        "uptime": "4242.0 1.0",
        "self/mountinfo": "21 1 8:1 / / rw - ext4 /dev/sda1 rw",
    }.items():
        path = proc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")
    return proc


def _shown_on(screen: Screen) -> Callable[[JobStory, Payload, datetime], None]:
    told: dict[str, str] = {}

    def show(_story: JobStory, event: Payload, _at: datetime) -> None:
        if isinstance(event, NodeTended):
            again = told.get(event.node_id) == event.reason.sentence
            told[event.node_id] = event.reason.sentence
            screen.line("care", tended_words(event, reason=not again))
        elif line := sentence(event, ranks_per_node=RANKS_PER_NODE):
            screen.line(*line)

    return show
