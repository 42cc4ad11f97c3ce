"""How large a gang may go on, asked of the planner's own domain: without nodes, and with free ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache

from pydantic import ValidationError

from fault_contracts.agent import JobSpec
from fault_contracts.policy import ElasticPolicy, RecoveryPolicy
from recovery_planner.domain.elastic import elastic_rules, seats_grown, seats_without
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.member import Member
from recovery_planner.domain.placement import Placement
from training_topology.identity import NodeId, NodeRank
from training_topology.topology import NodeRow, RankTable

_BORN = datetime(2000, 1, 1, tzinfo=UTC)
SENTENCES_MAX = 12


class Sizes:
    """The sizes of one job under one policy. Ranks tell no labels here: replicas are as large as the policy says."""

    def __init__(self, policy: RecoveryPolicy, nnodes: int, nproc: int = 8) -> None:
        """Check the policy against the job.

        Raises:
            ValueError: the job cannot have these sizes.
        """
        try:
            self._spec = JobSpec(nnodes=nnodes, nproc_per_node=nproc, policy=policy)
        except ValidationError as error:
            raise ValueError(error.errors()[0]["msg"].removeprefix("Value error, ")) from error
        self.rules: ElasticPolicy | None = elastic_rules(self._gang(0, 0))
        self.without = cache(self._without)
        self.grown = cache(self._grown)

    def _without(self, nnodes: int, holes: int) -> int | None:
        """A gang of `nnodes` places, of which `holes` have nobody: how many nodes it goes on with; None: it waits."""
        if self.rules is None:
            return None
        gang = self._gang(nnodes, 0)
        unfilled = tuple(range(nnodes - holes, nnodes))
        seats = seats_without(gang, Placement(moves={}, unfilled=unfilled, reasons=()), self.rules)
        return None if seats is None else len(seats)

    def _grown(self, nnodes: int, free: int) -> int:
        """A gang of `nnodes` nodes while so many others are free and clean: how large it may grow."""
        if self.rules is None:
            return nnodes
        gang = self._gang(nnodes, free)
        return len(seats_grown(gang, gang.nodes, self.rules))

    def _gang(self, nnodes: int, free: int) -> Gang:
        names = [f"node-{number}" for number in range(nnodes + free)]
        nproc = self._spec.nproc_per_node
        rows = tuple(
            NodeRow(node_rank=NodeRank(rank), node_id=NodeId(name), address=name, nproc=nproc)
            for rank, name in enumerate(names[:nnodes])
        )
        members = {
            name: Member(node_id=name, instance_id=name, address=name, master_port=1, arrival=number, reported_at=_BORN)
            for number, name in enumerate(names)
        }
        return Gang(
            job_id="played",
            born_at=_BORN,
            spec=self._spec,
            table=RankTable(topology_version=1, rows=rows),
            members=members,
            stopped=frozenset(names[:nnodes]),
        )


def told_sizes(policy: RecoveryPolicy, nnodes: int) -> Iterator[str]:
    """What becomes of a gang that nobody fills up, node by node, in sentences.

    Raises:
        ValueError: the job cannot have these sizes.
    """
    sizes = Sizes(policy, nnodes)
    rules = sizes.rules
    if rules is None:
        return
    wait_s = rules.wait_s if policy.capacity_wait_s is None else min(rules.wait_s, policy.capacity_wait_s)
    yield f"without a spare, after {wait_s:g} s (a job of {nnodes} nodes):"
    told, first = 0, 1
    while first <= nnodes and told < SENTENCES_MAX:
        size = sizes.without(nnodes, first)
        last = first
        while last < nnodes and sizes.without(nnodes, last + 1) == size:
            last += 1
        lost = f"{first} lost" if first == last else f"{first} to {last} lost"
        then = "no allowed size is left: it waits for a node" if size is None else f"it goes on with {size} nodes"
        yield f"  {lost}: {then} [{'elastic.cannot_shrink' if size is None else 'elastic.shrunk'}]"
        told, first = told + 1, last + 1
    if first <= nnodes:
        yield f"  and so on, down to {rules.nnodes_min} nodes"
    if rules.regrow:
        snooze = f"{rules.snooze_s:g} s after a start"
        yield f"it grows at any restart, and by plan at a checkpoint, {snooze} [elastic.regrow]"
    else:
        yield "it does not grow again (regrow: false)"
