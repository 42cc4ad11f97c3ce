"""One normalised observation, whatever it came from: the only input of the condition machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fault_contracts.agent import ExitStatus, OomKill, WorkerExited
from fault_contracts.health import Component, FaultedRanks, RankCheck, SignalObserved, SignalsObserved, WorkerEvidence
from fault_contracts.ids import derived_id
from fault_contracts.payload import Health
from fault_contracts.rank_faults import RanksFaulted
from health_ingest.domain.applied import Place

WORKER_EXIT = "worker_exit"
"""The check of a rank that ended without being told to."""
RANK_CHECKS = frozenset({WORKER_EXIT, *(check.value for check in RankCheck)})
"""Checks of ranks of one generation. What they find happens once and never becomes well again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """What a condition is about. `key` is equal for equal entities and is what duplicates are folded by."""

    node_id: str
    component: Component
    component_id: str
    check: str

    @property
    def key(self) -> str:
        """32 hex digits: node and device names together may be longer than a key of the store (256 bytes)."""
        return derived_id(self.node_id, self.check, self.component, self.component_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One observation.

    Attributes:
        signal_id: id of the message it came in; a redelivery has the same.
        observed_at: the node's clock; compared with other times of the same node only.
        code: what was looked at, as the collector names it; the entity's check may be a class of several.
        place: in the stream; None for what did not come in a batch, which is known by its id alone.
        worker: set when a rank ended.
        faulted: set when ranks live and cannot go on.
        values: measured numbers.
        attributes: what names the device and the place of the fault, e.g. xid, pci_bus_id, pid, location.
        count: equal observations that this one stands for.
        old: it happened before anybody watched.
        boot_id: life of the machine it was seen in.
    """

    signal_id: str
    entity: Entity
    health: Health
    detail: str
    observed_at: datetime
    code: str = ""
    place: Place | None = None
    job_id: str = ""
    topology_version: int | None = None
    rank: int | None = None
    worker: WorkerEvidence | None = None
    faulted: FaultedRanks | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    count: int = 1
    old: bool = False
    boot_id: str = ""


def from_observation(observed: SignalObserved, signal_id: str, place: Place | None = None) -> Signal:
    """A signal from a collector of the host."""
    return Signal(
        signal_id=signal_id,
        entity=Entity(
            node_id=observed.node_id,
            component=observed.component,
            component_id=observed.component_id,
            check=observed.check,
        ),
        health=observed.health,
        detail=observed.detail,
        observed_at=observed.observed_at,
        code=observed.check,
        place=place,
        job_id=observed.job_id,
        rank=observed.rank,
        values=observed.values,
        attributes=observed.attributes,
        count=observed.count,
        old=observed.old,
        boot_id=observed.boot_id,
    )


def from_sweep(sweep: SignalsObserved, signal_id: str, place: Place | None = None) -> Iterator[Signal]:
    """The signals of a sweep, in its order. A sample's id is the message's and its place in it."""
    for index, sample in enumerate(sweep.samples):
        yield Signal(
            signal_id=f"{signal_id}.{index}",
            entity=Entity(
                node_id=sweep.node_id,
                component=sample.component,
                component_id=sample.component_id,
                check=sample.check,
            ),
            health=sample.health,
            detail=sample.detail,
            observed_at=sample.observed_at,
            code=sample.check,
            values=sample.values,
            attributes=sample.attributes,
            count=sample.count,
            old=sample.old,
            boot_id=sweep.boot_id,
            place=place,
        )


def from_worker_exit(exited: WorkerExited, signal_id: str) -> Signal:
    """A signal from a rank that ended.

    The entity names the agent's instance: a later run under the same job_id counts topology versions from 1 again,
    and its deaths must not be taken for repeats of the first run's.
    """
    return Signal(
        signal_id=signal_id,
        entity=Entity(
            node_id=exited.node_id,
            component=Component.PROCESS,
            component_id=_life(exited, exited.exit.rank, WORKER_EXIT),
            check=WORKER_EXIT,
        ),
        health=Health.BAD,
        detail=_alive(exited) if exited.process_alive else ending(exited.exit),
        observed_at=exited.observed_at,
        job_id=exited.job_id,
        topology_version=exited.topology_version,
        rank=exited.exit.rank,
        worker=WorkerEvidence(
            exit=exited.exit,
            ordinal=exited.ordinal,
            error=exited.error,
            step=exited.step,
            checkpoint_step=exited.checkpoint_step,
            ran_s=exited.ran_s,
            stderr_tail=exited.stderr_tail,
            restart_asked=exited.restart_asked,
        ),
    )


def from_ranks_faulted(faulted: RanksFaulted, signal_id: str) -> Signal:
    """A signal from ranks that live and cannot go on.

    One condition for all suspects of a check: they were found together and end together. The first one names it.
    """
    first = faulted.suspects[0] if faulted.suspects else None
    return Signal(
        signal_id=signal_id,
        entity=Entity(
            node_id=faulted.node_id,
            component=Component.PROCESS,
            component_id=_life(faulted, None if first is None else first.rank, faulted.check),
            check=faulted.check,
        ),
        health=Health.BAD,
        detail=faulted.reason,
        observed_at=faulted.observed_at,
        job_id=faulted.job_id,
        topology_version=faulted.topology_version,
        rank=None if first is None else first.rank,
        faulted=FaultedRanks(
            rule_id=faulted.rule_id,
            ranks=tuple(suspect.rank for suspect in faulted.suspects),
            pid=None if first is None else first.pid,
            step=faulted.step,
            checkpoint_step=faulted.checkpoint_step,
            place="" if first is None else first.place,
            evidence_path=faulted.evidence_path,
        ),
    )


def _life(message: WorkerExited | RanksFaulted, rank: int | None, check: str) -> str:
    life = f"{message.job_id}/{message.topology_version}/{'-' if rank is None else rank}/{message.instance_id}"
    # The payload takes 256 characters; three names of 256 would not fit.
    return life if len(life) <= 256 else derived_id(life, check)


def _alive(exited: WorkerExited) -> str:
    if exited.restart_asked is not None:
        return f"rank {exited.exit.rank} asked for a restart of level {exited.restart_asked}"
    what = exited.error.type if exited.error is not None else "a fault"
    return f"rank {exited.exit.rank} reported {what} and its process goes on"


def ending(status: ExitStatus) -> str:
    """How a rank ended, in words."""
    if status.signal is not None:
        oom = {
            OomKill.YES: " by the kernel's OOM killer",
            OomKill.NO: "",
            OomKill.UNKNOWN: "",
        }[status.oom_kill]
        return f"rank {status.rank} was ended by signal {status.signal}{oom}"
    if status.exit_code is not None:
        return f"rank {status.rank} ended with exit code {status.exit_code}"
    return f"rank {status.rank} ended; its exit status was lost"
