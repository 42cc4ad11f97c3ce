"""The ranks of this node in one topology_version: who still runs, who failed first, whether all are through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from training_topology.identity import LocalRank, Rank


class GroupStatus(StrEnum):
    """State of the group as a whole."""

    RUNNING = "running"
    FAILED = "failed"
    COMPLETED = "completed"


class EndKind(StrEnum):
    """What one exit means for the group."""

    RANK_COMPLETED = "rank_completed"
    """Exit code 0, others still run: nothing to report."""
    ALL_COMPLETED = "all_completed"
    RANK_FAILED = "rank_failed"
    REPEATED = "repeated"
    """This rank's end is known already, or the rank is not of this group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStep:
    """The group after an exit. `ordinal` counts failures of the group from 0; None when the exit is no failure."""

    group: WorkerGroup
    kind: EndKind
    ordinal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGroup:
    """Ranks first_rank to first_rank + nproc - 1.

    Attributes:
        succeeded: for each local rank that ended, whether with exit code 0.
        failures: local ranks in their order of failure.
        broken: it cannot go on although perhaps nobody failed, because a fault was found that nobody is blamed for.
    """

    topology_version: int
    first_rank: Rank
    nproc: int
    succeeded: Mapping[LocalRank, bool] = field(default_factory=dict)
    failures: tuple[LocalRank, ...] = ()
    broken: bool = False

    @property
    def status(self) -> GroupStatus:
        """Failed beats completed beats running."""
        if self.failures or self.broken:
            return GroupStatus.FAILED
        if len(self.succeeded) == self.nproc:
            return GroupStatus.COMPLETED
        return GroupStatus.RUNNING

    @property
    def first_failure(self) -> LocalRank | None:
        """The local rank that failed first; later ones are often its victims."""
        return self.failures[0] if self.failures else None

    def rank_of(self, local_rank: LocalRank) -> Rank:
        """Global rank of a local one."""
        return Rank(self.first_rank + local_rank)

    def after_gang_fault(self) -> WorkerGroup:
        """Take note that the group cannot go on; its members' ends no longer complete it."""
        return replace(self, broken=True)

    def after_fault(self, local_rank: LocalRank) -> GroupStep:
        """Take note of a rank that gave up its work and lives. Its end, should it come, is counted once more."""
        if local_rank in self.succeeded or local_rank in self.failures or not 0 <= local_rank < self.nproc:
            return GroupStep(group=self, kind=EndKind.REPEATED)
        group = replace(self, failures=(*self.failures, local_rank))
        return GroupStep(group=group, kind=EndKind.RANK_FAILED, ordinal=len(self.failures))

    def after_exit(self, local_rank: LocalRank, *, exit_code: int | None) -> GroupStep:
        """Take note of one end. `exit_code` None: ended by a signal, or the status is unknown; both are failures."""
        if local_rank in self.succeeded or not 0 <= local_rank < self.nproc:
            return GroupStep(group=self, kind=EndKind.REPEATED)
        ok = exit_code == 0
        ended = {**self.succeeded, local_rank: ok}
        if not ok:
            group = replace(self, succeeded=ended, failures=(*self.failures, local_rank))
            return GroupStep(group=group, kind=EndKind.RANK_FAILED, ordinal=len(self.failures))
        group = replace(self, succeeded=ended)
        kind = EndKind.ALL_COMPLETED if group.status is GroupStatus.COMPLETED else EndKind.RANK_COMPLETED
        return GroupStep(group=group, kind=kind)
