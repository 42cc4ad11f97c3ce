"""Finds checkpoints in a folder, for scripts that tell nobody: `--checkpoint-dir`.

Polled, because inotify does not see what another machine writes to NFS. On a shared file system every node sees every
file, so each confirms only what is its own: with {rank} in the pattern the files of its local ranks; without, the
checkpoint has one writer, and the agent of node_rank 0 speaks for it.
"""

from __future__ import annotations

from fault_contracts.checkpoints import GROUPS_MAX, CheckpointRef, RankPaths
from node_agent.application.agent_life import AgentLife
from node_agent.application.checkpoint_file_ports import CheckpointFolder, FolderProblem
from node_agent.application.control_ports import Announcer
from node_agent.application.discover_checkpoints import CheckpointDiscovery
from node_agent.domain.checkpoint_arrivals import Arrival, Arrivals, Entry, Look, again, observe
from node_agent.domain.checkpoint_check import CheckLevel, Outcome
from service_kit.ports import Clock
from training_topology.identity import NodeId

SOURCE = "checkpoint_dir"
POLL_S = 1.0
"""Between two looks: one listing of a folder a second is no load, and a checkpoint is minutes apart from the next."""
STABLE_S = 2.0
"""Unchanged for so long and complete by its format: finished. A rename needs no waiting."""
CANDIDATES_MAX = 8
"""Old checkpoints that are looked into for a whole one before the job begins."""


class CheckpointFolderWatch:
    """Looks at the folder until it is cancelled."""

    def __init__(
        self,
        life: AgentLife,
        discovery: CheckpointDiscovery,
        folder: CheckpointFolder,
        clock: Clock,
        announcer: Announcer,
        *,
        level: CheckLevel = CheckLevel.SIZE,
        poll_s: float = POLL_S,
        stable_s: float = STABLE_S,
    ) -> None:
        self._life = life
        self._discovery = discovery
        self._folder = folder
        self._clock = clock
        self._announcer = announcer
        # A name alone proves nothing: what nobody vouches for is looked at closely, whatever the flag says of the rest.
        self._level = CheckLevel.CHECKSUM if level is CheckLevel.CHECKSUM else CheckLevel.SIZE
        self._poll_s = poll_s
        self._stable_s = stable_s
        self._arrivals = Arrivals()
        self._problem = ""
        self._refused: set[str] = set()

    async def find_before(self) -> CheckpointRef | None:
        """What lies in the folder before the job begins: its newest whole checkpoint, or None. Told once."""
        look = await self._look()
        if look is None:
            return None
        if look.is_missing:
            self._announcer.say("the folder of --checkpoint-dir does not exist yet; it is watched from when it does")
        self._arrivals = Arrivals.before_the_job(look)
        by_step: dict[int, list[Entry]] = {}
        for entry in look.entries:
            by_step.setdefault(entry.step, []).append(entry)
        for step in sorted(by_step, reverse=True)[:CANDIDATES_MAX]:
            found = await self._as_candidate(step, by_step[step])
            if found is not None:
                return found
        return None

    async def run(self) -> None:
        """Look again and again."""
        while True:
            await self._clock.sleep(self._poll_s)
            try:
                await self.once()
            except Exception as error:  # noqa: BLE001 - a watch that ended would be missed only after a fault
                self._say_once(f"the watch of --checkpoint-dir failed and goes on: {error!r}")

    async def once(self) -> None:
        """One look, and what it leads to."""
        version = self._life.topology_version if self._life.group is None else self._life.group.topology_version
        if version < 1:
            return
        look = await self._look()
        if look is None:
            return
        self._arrivals, finished = observe(
            self._arrivals,
            look,
            topology_version=version,
            now_s=self._clock.monotonic_s(),
            stable_s=self._stable_s,
        )
        for arrival in finished:
            await self._take(arrival)

    async def _take(self, arrival: Arrival) -> None:
        entry = arrival.entry
        rank = self._speaker(entry)
        if rank is None or arrival.topology_version < 1:
            return
        # It was still for the time being already, so one look is enough.
        verdict = await self._discovery.verify(entry.path, self._level, is_settled=True)
        if verdict.outcome is Outcome.OK:
            self._refused.discard(entry.path)
            self._discovery.confirm(
                rank,
                step=entry.step,
                path=entry.path,
                source=SOURCE,
                writers=None if self._folder.has_rank else 1,
                topology_version=arrival.topology_version,
                is_checked=True,
            )
            return
        self._arrivals = again(self._arrivals, [entry.path], now_s=self._clock.monotonic_s())
        if entry.path not in self._refused and len(self._refused) < CANDIDATES_MAX:
            self._refused.add(entry.path)
            self._announcer.say(f"not a whole checkpoint yet: {verdict.sentence[:400]}")

    def _speaker(self, entry: Entry) -> int | None:
        """The rank that this agent confirms it for; None: another agent does."""
        if self._folder.has_rank:
            return entry.rank if entry.rank in self._discovery.local_ranks else None
        row = self._life.table.row_of(NodeId(self._life.identity.node_id))
        return 0 if row is not None and row.node_rank == 0 else None

    async def _as_candidate(self, step: int, entries: list[Entry]) -> CheckpointRef | None:
        if not self._folder.has_rank:
            for entry in sorted(entries, key=lambda entry: entry.path):
                if await self._is_whole(entry):
                    return CheckpointRef(step=step, path=entry.path)
            return None
        spec = self._life.spec
        by_rank = {entry.rank: entry for entry in entries}
        ranks = range(spec.nnodes * spec.nproc_per_node)
        if any(rank not in by_rank for rank in ranks):
            return None
        groups: dict[tuple[tuple[str, ...], int], list[tuple[int, int]]] = {}
        for rank in ranks:
            entry = by_rank[rank]
            if not await self._is_whole(entry):
                return None
            groups.setdefault(self._folder.rank_rule(entry.path), []).append((rank, rank))
        if len(groups) > GROUPS_MAX:
            return None
        paths = tuple(RankPaths(ranks=tuple(of), parts=parts, width=width) for (parts, width), of in groups.items())
        return CheckpointRef(step=step, path=by_rank[0].path, paths=paths)

    async def _is_whole(self, entry: Entry) -> bool:
        verdict = await self._discovery.verify(entry.path, self._level, is_settled=True)
        return verdict.outcome is Outcome.OK

    async def _look(self) -> Look | None:
        try:
            look = await self._folder.look()
        except FolderProblem as error:
            self._say_once(f"--checkpoint-dir cannot be looked at: {error}")
            return None
        self._problem = ""
        return look

    def _say_once(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._announcer.say(problem[:500])
