"""A job under fire: servers, services, agents and ranks as real processes, and the wait until it trains again."""

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from chaos_ledger import Ledger, processes_with
from chaos_schedule import NPROC, WORLD, Blow, Kind, Moment, Trial
from chaos_story import tell

from fault_contracts.agent import CheckpointReported
from fault_contracts.payload import Payload
from fault_contracts.recovery import GangFormed, IncidentClosed, RecoveryPlanned
from phalanx_cli.demo.story import JobStory
from phalanx_cli.demo.watch import NotSeen, Watch
from phalanx_cli.stack.guard import GuardedProcess, ProcessSpec
from phalanx_cli.stack.stack import Stack
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.settings import BusSettings

CLUSTER, JOB = "chaos", "chaos"
TRAINING = Path(__file__).with_name("chaos_train.py")
START_LIMIT_S = 180.0
"""Three interpreters import all of torch on two cores that others use, too."""
RECOVERY_LIMIT_S = 120.0
"""Ten times the planner's longest wait for an agent, but for that for a new node, whose agent imports torch first."""
GONE_LIMIT_S = 20.0
LOOK_S = 0.05
STEP_S = 0.01


@dataclass(slots=True)
class Bus:
    """What was seen on the bus, in the order of arrival."""

    seen: list[tuple[datetime, Payload]] = field(default_factory=list)
    recovered: int = 0
    starts: dict[int, int] = field(default_factory=dict)
    """version → the step that the planner had it start after."""
    confirmed: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    """(step, version) → ranks that confirmed it."""

    def take(self, _: JobStory, event: Payload, at: datetime) -> None:
        """Keep one event."""
        self.seen.append((at, event))
        match event:
            case GangFormed():
                self.starts[event.topology_version] = 0
            case RecoveryPlanned() if event.level != "failed":
                self.starts[event.topology_version] = event.checkpoint_step or 0
            case IncidentClosed() if event.outcome == "recovered":
                self.recovered += 1
            case CheckpointReported():
                self.confirmed.setdefault((event.step, event.topology_version), set()).add(event.rank)

    def newest_checkpoint(self) -> int:
        """The largest step that all ranks of one generation confirmed, and that no later one may have begun anew."""
        whole = [key for key, ranks in self.confirmed.items() if len(ranks) == WORLD]
        later = sorted(self.starts.items())
        return max((s for s, v in whole if all(start >= s for newer, start in later if newer > v)), default=0)


class Rig:
    """One job on two nodes and a spare. Leaving it ends everything."""

    def __init__(self, folder: Path, *, block: bool) -> None:
        self.folder = folder
        self.block = block
        self.ledger = Ledger(folder)
        self.bus = Bus()
        self.story = JobStory(JOB, ranks_per_node=NPROC)
        self.agents: dict[str, GuardedProcess] = {}
        self._lost: list[str] = []
        self._names = 0
        self._blows = 0
        (folder / "blows").mkdir(parents=True)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as exits:
            self._nats_url = await self._enter_servers(exits)
            self.connection = await connect(BusSettings(nats_url=self._nats_url, cluster=CLUSTER), name="chaos")
            exits.push_async_callback(self.connection.close)
            bus = JetStreamBus(self.connection, cluster=CLUSTER)
            self.watch = await exits.enter_async_context(Watch(bus, self.bus.take))
            self.watch.follow(self.story)
            exits.callback(self._end_agents)
            for _ in range(3):
                self._start(self._new_name())
            self._exits = exits.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is not None and not isinstance(error, asyncio.CancelledError):
                error.add_note(await tell(self))
        finally:
            await self._exits.aclose()

    # --------------------------------------------------------------------------------------------- processes

    async def _enter_servers(self, exits: AsyncExitStack) -> str:
        """Start the servers and services; where clients find the bus."""
        stack = await exits.enter_async_context(Stack(self.folder / "stack", CLUSTER))
        return stack.nats_url

    def _around(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]:
        """What comes before an agent's command line, what is added to its flags, and to its environment."""
        return (), (), {"GLOO_SOCKET_IFNAME": "lo"}

    def _new_name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def _start(self, name: str) -> None:
        folder = self.folder / "nodes" / name
        before, flags, around = self._around(name)
        argv = (
            *before,
            *(sys.executable, "-P", "-m", "phalanx_cli.main", "run", "--nnodes", str(WORLD // NPROC), "--spares", "1"),
            *("--nproc-per-node", str(NPROC), "--job-id", JOB, "--node-id", name, "--max-restarts", "100000"),
            *("--cluster", CLUSTER, "--nats-url", self._nats_url, "--redirects", "3", *flags),
            *("--data-dir", str(folder), "--log-dir", str(folder / "ranks"), str(TRAINING), str(self.folder)),
            str(STEP_S),
        )
        marks = {"CHAOS_FOLDER": str(self.folder), "CHAOS_NODE": name, "CHAOS_BLOCK": "1" if self.block else "0"}
        env = {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", **marks, **around}
        log_path = self.folder / "nodes" / f"{name}.log"
        self.agents[name] = GuardedProcess(ProcessSpec(name=name, argv=argv, log_path=log_path, env=env))

    def _end_agents(self) -> None:
        for agent in self.agents.values():
            agent.kill()
        for pid in processes_with(f"CHAOS_FOLDER={self.folder}"):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it ended meanwhile

    def _notice_lost_nodes(self, trial: Trial) -> None:
        """A new agent for each that was killed."""
        for name, agent in list(self.agents.items()):
            if agent.returncode is None:
                continue
            assert agent.ending == "SIGKILL", f"the agent of {name} ended with {agent.ending}"
            del self.agents[name]
            self._lost.append(name)
            self._start(name if trial.same_node else self._new_name())

    # ------------------------------------------------------------------------------------------------- blows

    async def until(self, what: str, limit_s: float, trial: Trial | None, condition) -> None:
        """Look at everything until the condition holds.

        Raises:
            AssertionError: the limit passed, or something happened that must not.
        """
        end_s = asyncio.get_running_loop().time() + limit_s
        while True:
            self.ledger.look()
            assert self.story.ended is None or what == "the end", f"the job ended: {self.story.ended}"
            if trial is not None:
                self._notice_lost_nodes(trial)
            if condition():
                return
            assert asyncio.get_running_loop().time() < end_s, f"not within {limit_s:g} s: {what}"
            await asyncio.sleep(LOOK_S)

    @property
    def trains(self) -> bool:
        """All ranks step in the newest generation, and bus and ranks agree which one that is."""
        return self.ledger.steady and self.story.training and self.story.topology_version == self.ledger.version

    async def train(self) -> None:
        """Wait for the first steps."""
        await self.until("the first steps", START_LIMIT_S, None, lambda: self.trains)

    async def play(self, trial: Trial) -> None:
        """One trial, from a job that trains to a job that trains."""
        if trial.after_checkpoint:
            wanted = self.bus.starts[self.ledger.version] + 1
            await self.until("a checkpoint", RECOVERY_LIMIT_S, trial, lambda: self.bus.newest_checkpoint() >= wanted)
        await asyncio.sleep(trial.pause_s)
        version, floor = self.ledger.version, self.bus.newest_checkpoint()
        paths = [self._deal(blow) for blow in trial.blows]
        armed = {path for path in paths if path.exists()}
        sure = paths[0] if paths[0] in armed else None
        await self.until(
            f"recovery from {trial}",
            RECOVERY_LIMIT_S,
            trial,
            lambda: self.ledger.version > version and self._rests(armed, sure),
        )
        in_vain = {path for path in armed if _taken_back(path)}
        # Meanwhile one of the others may have come to its place.
        hit = armed - in_vain
        await self.until(f"rest after {trial}", RECOVERY_LIMIT_S, trial, lambda: self._rests(hit, None))
        self._check_starts(floor, since=version)
        await self._check_processes(trial)

    def _rests(self, armed: set[Path], sure: Path | None) -> bool:
        """All blows that were met have had their effect, and the job trains. `sure` is met before anything else."""
        if sure is not None and sure.exists():
            return False
        met = [path.name.split("_")[0] for path in armed if not path.exists()]
        return self.trains and all(map(self.ledger.is_over, met))

    def _deal(self, blow: Blow) -> Path:
        self._blows += 1
        path = self.folder / "blows" / f"{self._blows:05d}_{blow.moment}_{blow.kind}_{blow.rank}"
        if blow.moment is not Moment.ANY:
            path.touch()
        elif blow.kind is Kind.RAISE:
            path = path.with_name(f"{self._blows:05d}_{Moment.STEP}_{blow.kind}_{blow.rank}")
            path.touch()
        elif blow.kind is Kind.NODE:
            agent = self.agents.get(self.story.holder(blow.rank)[0])
            if agent is not None:
                agent.kill()
        else:
            signum = signal.SIGSTOP if blow.kind is Kind.STOP else signal.SIGKILL
            self._signal_rank(blow.rank, signum)
        return path

    def _signal_rank(self, rank: int, signum: signal.Signals) -> None:
        pid, _ = self.ledger.lives[self.ledger.version][rank]
        try:
            os.kill(pid, signum)
        except ProcessLookupError:
            pass  # the other blow of this trial was faster

    # ------------------------------------------------------------------------------------------------ checks

    def _check_starts(self, floor: int, *, since: int) -> None:
        """Every generation started where the planner said, and none behind what was confirmed before the fault."""
        for version, begun in self.ledger.begun.items():
            if version <= since:
                continue
            planned = self.bus.starts.get(version)
            assert set(begun.values()) == {planned}, f"version {version} starts after {begun}, planned was {planned}"
            assert planned >= floor, f"version {version} starts after {planned}, but all had confirmed {floor}"

    async def _check_processes(self, trial: Trial | None) -> None:
        """No process of a rank that was replaced, none at all of a node that was lost and came back by another name."""
        self._lost = [name for name in self._lost if name not in self.agents]

        def left() -> list[str]:
            nodes = [f"{name}: {pids}" for name in self._lost if (pids := processes_with(f"CHAOS_NODE={name}"))]
            return [*nodes, *self.ledger.outlived()]

        try:
            await self.until("only what has to run", GONE_LIMIT_S, trial, lambda: self.trains and not left())
        except AssertionError as error:
            raise AssertionError(f"{error}: left are {left()}") from error
        self._lost.clear()

    async def finish(self) -> None:
        """Let the job end by itself; all agents leave with 0, and nothing of them is left."""
        step = max(max(steps.values()) for steps in self.ledger.steps.values() if steps)
        partial = self.folder / "last.partial"
        partial.write_text(str(step + 100))
        partial.rename(self.folder / "last")
        try:
            await self.watch.until(lambda: self.story.ended is not None, "the end of the job", limit_s=RECOVERY_LIMIT_S)
        except NotSeen as error:
            raise AssertionError(str(error)) from error
        assert self.story.ended is not None
        assert self.story.ended.outcome == "succeeded", self.story.ended
        for name, agent in self.agents.items():
            async with asyncio.timeout(START_LIMIT_S):  # one may still be importing torch
                assert await agent.wait() == 0, f"{name}: {agent.ending}"
        self.ledger.look()
        assert self.ledger.finals == set(range(WORLD))
        await self.until("the end", GONE_LIMIT_S, None, lambda: not processes_with(f"CHAOS_FOLDER={self.folder}"))
        assert self.watch.dead_letters == []


def _taken_back(path: Path) -> bool:
    """A blow that nobody came to is taken back; False when a rank was faster."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
