"""A gang without a node in time goes on smaller, by whole replicas; a restart takes what has come since.

Survivors keep their order, and ranks are dense again: a script learns its new world from the environment. A planned
regrow is `regrow`'s business; here is what a plan makes of the nodes that are there.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from fault_contracts.policy import ElasticPolicy
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.elastic_state import ElasticState, with_size
from recovery_planner.domain.gang import Gang, Phase
from recovery_planner.domain.placement import Placement, candidates, is_kept
from recovery_planner.domain.rank_assignment import next_table, seated_table
from recovery_planner.domain.replicas import replicas_of
from recovery_planner.domain.withheld import observes
from training_topology.topology import RankTable

Seats = tuple[str, ...]
"""Nodes in order of node_rank."""


def elastic_rules(gang: Gang) -> ElasticPolicy | None:
    """The policy's word; None: the gang has one size. A job that only observes is restarted as it is."""
    return None if gang.spec.policy is None or observes(gang) else gang.spec.policy.elastic


def is_allowed(gang: Gang, rules: ElasticPolicy, nnodes: int, *, by_label: bool) -> bool:
    """Whether the gang may have this size."""
    if nnodes == gang.spec.nnodes:
        return True
    if not rules.nnodes_min <= nnodes <= gang.spec.nnodes:
        return False
    if rules.nnodes_allowed:
        return nnodes in rules.nnodes_allowed
    return by_label or nnodes % rules.replica_nodes == 0


def table_after(draft: Draft, placement: Placement) -> RankTable | None:
    """The next rank table; None: the gang waits for a node."""
    gang, rules = draft.gang, elastic_rules(draft.gang)
    if rules is None:
        return None if placement.unfilled else next_table(gang.table, gang.members, placement.moves)
    seats = seats_without(gang, placement, rules) if placement.unfilled else _seats_of(gang, placement)
    if placement.unfilled and not _is_time(draft, rules):
        return None
    if seats is None:
        _give_up_shrinking(draft, rules)
        return None
    grown = seats_grown(gang, seats, rules)
    if len(grown) == gang.table.nnodes and not placement.unfilled:
        return next_table(gang.table, gang.members, placement.moves)
    _explain(draft, grown, placement)
    return seated_table(gang.table, gang.members, grown, nproc=gang.spec.nproc_per_node)


def can_do_without(gang: Gang, placement: Placement) -> bool:
    """Whether the gang may go on although these places have nobody to go to."""
    rules = elastic_rules(gang)
    return rules is not None and seats_without(gang, placement, rules) is not None


def wait_for_node(draft: Draft, *, at_most_s: float) -> None:
    """The gang begins to wait for a node: not until the job fails for it, when it may go on without."""
    rules = elastic_rules(draft.gang)
    if rules is None:
        return
    shrink_at = draft.now + timedelta(seconds=min(rules.wait_s, at_most_s))
    draft.change(elastic=replace(draft.gang.elastic, shrink_at=shrink_at))


def elastic_at_start(gang: Gang, table: RankTable, now: datetime) -> ElasticState:
    """What the gang remembers when the generation of `table` begins."""
    rules = elastic_rules(gang)
    if rules is None:
        return gang.elastic
    state = gang.elastic
    if gang.table.rows:
        state = with_size(state, table.topology_version, table.nnodes, before=gang.table.nnodes)
    is_small = table.nnodes < gang.spec.nnodes
    return replace(
        state,
        # The labels are gone with the ranks that told them, and the gang is to grow by what it has lost.
        replica_nodes=state.replica_nodes or _labelled_size(gang, rules) if is_small else 0,
        shrink_at=None,
        regrow=None,
        regrow_at=now + timedelta(seconds=rules.snooze_s) if is_small and rules.regrow else None,
    )


def seats_without(gang: Gang, placement: Placement, rules: ElasticPolicy) -> Seats | None:
    """The largest allowed gang of whole replicas that the nodes at hand make; None: there is none.

    Nodes of the replica that lacks most fill the others up: their ranks are dealt out anew anyway.
    """
    groups, by_label = replicas_of(gang, rules)
    seats = _occupants(gang, placement)
    _mend(groups, seats)
    whole = [group for group in groups if all(rank in seats for rank in group)]
    for count in range(len(whole), 0, -1):
        ranks = sorted(rank for group in whole[:count] for rank in group)
        if is_allowed(gang, rules, len(ranks), by_label=by_label):
            return tuple(seats[rank] for rank in ranks)
    return None


def seats_grown(gang: Gang, seats: Seats, rules: ElasticPolicy) -> Seats:
    """With as many whole replicas more as nodes are free for."""
    free = free_nodes(gang, seats) if rules.regrow else ()
    told = gang.elastic.replica_nodes or _labelled_size(gang, rules)
    by_label, unit = bool(told), 1 if rules.nnodes_allowed else told or rules.replica_nodes
    for nnodes in range(min(gang.spec.nnodes, len(seats) + len(free)), len(seats), -1):
        is_whole = (nnodes - len(seats)) % unit == 0
        if is_whole and is_allowed(gang, rules, nnodes, by_label=by_label):
            return (*seats, *free[: nnodes - len(seats)])
    return seats


def free_nodes(gang: Gang, seats: Seats) -> Seats:
    """Nodes that could train, without a problem, and that have no seat. In a stopped gang, survivors are among them."""
    taken = set(seats)
    survivors = [row.node_id for row in gang.table.rows if is_kept(gang, row.node_id)]
    names = dict.fromkeys((*survivors, *candidates(gang)))
    return tuple(name for name in names if name not in taken and not gang.members[name].doubt)


def _labelled_size(gang: Gang, rules: ElasticPolicy) -> int:
    """Nodes of the largest replica that labels tell; 0: they tell none."""
    groups, by_label = replicas_of(gang, rules)
    return max(map(len, groups), default=0) if by_label else 0


def _seats_of(gang: Gang, placement: Placement) -> Seats:
    return tuple(placement.moves.get(row.node_rank, row.node_id) for row in gang.table.rows)


def _occupants(gang: Gang, placement: Placement) -> dict[int, str]:
    holes = set(placement.unfilled)
    return {rank: node for rank, node in enumerate(_seats_of(gang, placement)) if rank not in holes}


def _mend(groups: list[tuple[int, ...]], seats: dict[int, str]) -> None:
    """Fill the replica that lacks least with nodes of those that lack most, as long as that makes it whole."""
    broken = [group for group in groups if any(rank not in seats for rank in group)]
    while broken:
        broken.sort(key=lambda group: (sum(rank not in seats for rank in group), group[0]))
        best, rest = broken[0], broken[1:]
        holes = [rank for rank in best if rank not in seats]
        donors = [rank for group in reversed(rest) for rank in reversed(group) if rank in seats]
        if len(donors) < len(holes):
            return
        for hole, donor in zip(holes, donors, strict=False):
            seats[hole] = seats.pop(donor)
        broken = rest


def _is_time(draft: Draft, rules: ElasticPolicy) -> bool:
    """A hole has waited long enough. Once that is so, it stays so until the next start."""
    if draft.gang.phase is not Phase.WAITING:
        return rules.wait_s == 0
    at = draft.gang.elastic.shrink_at
    return at is None or draft.now >= at


def _give_up_shrinking(draft: Draft, rules: ElasticPolicy) -> None:
    if draft.gang.elastic.shrink_at is None:
        return
    draft.change(elastic=replace(draft.gang.elastic, shrink_at=None))
    sentence = f"the nodes that are left make no allowed gang (at least {rules.nnodes_min} nodes, whole replicas)"
    draft.explain("elastic.cannot_shrink", f"{sentence}; the gang waits for a node")


def _explain(draft: Draft, seats: Seats, placement: Placement) -> None:
    gang = draft.gang
    before, nproc = gang.table.nnodes, gang.spec.nproc_per_node
    left = [row.node_id for row in gang.table.rows if row.node_id not in seats]
    came = [node for node in seats if not gang.is_seated(node)]
    size = f"from {before} to {len(seats)} nodes, {before * nproc} to {len(seats) * nproc} ranks"
    if len(seats) < before:
        holes = len(placement.unfilled)
        why = f"no node came for {holes} place{'s' * (holes > 1)}"
        draft.explain("elastic.shrunk", f"{why}: the gang shrinks {size}; out: {', '.join(left[:8])}")
    elif len(seats) > before:
        draft.explain("elastic.grown", f"the gang grows {size}; new: {', '.join(came[:8])}")
    else:
        draft.explain("elastic.mended", f"replicas are filled up from each other: the gang stays at {before} nodes")
