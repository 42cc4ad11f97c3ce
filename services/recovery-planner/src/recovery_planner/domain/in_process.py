"""When a gang may restart in place, whose processes are replaced all the same, and how that is called."""

from __future__ import annotations

from collections.abc import Collection

from fault_contracts.agent import RestartAsked
from fault_contracts.commands import StopMode
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.policy import Policy
from training_topology.topology import RankTable

_SEVERITY = {RestartAsked.IN_PROCESS: 0, RestartAsked.PROCESS: 1, RestartAsked.JOB: 2}


def graver(one: RestartAsked, other: RestartAsked) -> RestartAsked:
    """Several wishes count as the gravest: job > process > in_process."""
    return max(one, other, key=_SEVERITY.__getitem__)


def stop_mode_of(gang: Gang, policy: Policy) -> tuple[StopMode, str]:
    """How the open incident stops the ranks, and why."""
    incident = gang.incident
    assert incident is not None, "a stop belongs to an incident"
    present = [gang.members[node] for node in gang.nodes if gang.is_present(node)]
    without = [member.node_id for member in present if not member.in_process]
    if without or not present:
        named = without[0] if without else "every node"
        return StopMode.PROCESS, f"{named} has announced no re-executable block"
    if incident.asked is not RestartAsked.IN_PROCESS:
        return StopMode.PROCESS, f"the script asked for a restart of level {incident.asked}"
    if incident.in_process_attempts >= policy.in_process_attempts_max:
        return StopMode.PROCESS, f"{incident.in_process_attempts} restarts in place did not heal this incident"
    return StopMode.IN_PROCESS, "every rank has announced a re-executable block"


def replaced_ranks(gang: Gang, table: RankTable) -> tuple[int, ...] | None:
    """Ranks of the next table that need a new process; None: all of them, so that nothing is left to restart in place.

    A survivor stands at the barrier, is not condemned, and its node keeps its place.
    """
    incident = gang.incident
    assert incident is not None, "a restart belongs to an incident"
    if incident.stop_mode is not StopMode.IN_PROCESS or incident.asked is not RestartAsked.IN_PROCESS:
        return None
    standing = incident.at_barrier - set(incident.condemned)
    replaced = []
    for row in table.rows:
        before = gang.table.row_of(row.node_id)
        stays = before is not None and (before.address, before.nproc) == (row.address, row.nproc)
        # In a gang of another size the same process may have another number.
        held = gang.table.ranks_of(row.node_id)
        for local_rank, rank in enumerate(table.ranks_of(row.node_id)):
            if not stays or held[local_rank] not in standing:
                replaced.append(int(rank))
    return None if len(replaced) == table.world_size else tuple(replaced)


def granularity(table: RankTable, replaced: Collection[int] | None) -> str:
    """Whose processes are new, in a word: none, rank, ranks, node, nodes, all."""
    if replaced is None or len(replaced) == table.world_size:
        return "all"
    if not replaced:
        return "none"
    whole = [row for row in table.rows if set(table.ranks_of(row.node_id)) <= set(replaced)]
    if sum(row.nproc for row in whole) == len(replaced):
        return "node" if len(whole) == 1 else "nodes"
    return "rank" if len(replaced) == 1 else "ranks"
