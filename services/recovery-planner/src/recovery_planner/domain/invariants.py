"""What holds in every gang record. Checked before it is written and after it is read, here and in the simulator."""

from __future__ import annotations

from collections.abc import Iterator

from recovery_planner.domain.gang import Gang, Phase
from recovery_planner.domain.member import Standing


class InvariantBroken(Exception):
    """A gang record that no sequence of decisions may produce: a defect, never a peer's fault."""


def violations(gang: Gang) -> Iterator[str]:
    """Everything that is wrong with the record, one sentence each."""
    with_table = gang.phase not in (Phase.FORMING, Phase.ENDED)
    elastic = gang.spec.policy.elastic if gang.spec.policy is not None else None
    least = gang.spec.nnodes if elastic is None else elastic.nnodes_min
    if with_table and not least <= gang.table.nnodes <= gang.spec.nnodes:
        yield f"{gang.phase} with {gang.table.nnodes} rows for {gang.spec.nnodes} nodes, at least {least}"
    if with_table and gang.table.topology_version < 1:
        yield f"{gang.phase} at topology_version {gang.table.topology_version}"
    if gang.phase in (Phase.STOPPING, Phase.DECIDING, Phase.WAITING):
        if gang.incident is None:
            yield f"{gang.phase} without an incident"
        if gang.deadline_at is None:
            yield f"{gang.phase} without a deadline could wait for ever"
    if gang.phase in (Phase.FORMING, Phase.RUNNING, Phase.ENDED):
        if gang.incident is not None:
            yield f"{gang.phase} with an open incident"
        if gang.deadline_at is not None and gang.phase is not Phase.ENDED:  # there it is that of the end's repeat
            yield f"{gang.phase} with a deadline"
    if (gang.phase is Phase.ENDED) != (gang.ending is not None):
        yield f"{gang.phase} and the ending {'is missing' if gang.ending is None else 'is there'}"
    if gang.incident is not None and gang.incident.fault_version > gang.table.topology_version:
        yield f"the incident speaks of version {gang.incident.fault_version}, the table is older"
    if gang.phase in (Phase.STARTING, Phase.RUNNING):
        # A start may only name nodes that can be counted on at that moment; whoever is lost later opens an incident,
        # except a node whose ranks have all ended well.
        for node in gang.nodes:
            member = gang.members.get(node)
            if member is None:
                yield f"{node} has a row and no member"
            elif member.standing is not Standing.PRESENT and node not in gang.completed:
                yield f"{node} is {member.standing} in a gang that is {gang.phase}"
    seqs = [effect.seq for effect in gang.pending]
    if seqs != sorted(set(seqs)) or (seqs and seqs[-1] > gang.effect_seq):
        yield f"pending effects {seqs} do not rise up to {gang.effect_seq}"


def assert_holds(gang: Gang) -> None:
    """Check all of it.

    Raises:
        InvariantBroken: naming the job and what is wrong.
    """
    found = list(violations(gang))
    if found:
        raise InvariantBroken(f"gang of job {gang.job_id}: {'; '.join(found)}")
