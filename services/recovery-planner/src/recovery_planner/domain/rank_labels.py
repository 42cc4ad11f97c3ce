"""Where each rank stands in the parallel layout, as the ranks said. Kept by rank: one that moves keeps its labels.

The record carries them packed (training_topology.rank_labels); they are unpacked only to be changed, many reports at a
time.
"""

from __future__ import annotations

from dataclasses import dataclass

from fault_contracts.agent import RankLabelsReported
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.gang import Phase
from training_topology.rank_labels import RankLabelTable, pack_labels, unpack_labels

NAMES_MAX = 32
"""Names of labels in one job, over all ranks: dp, tp, pp, cp, ep, and room for what a script likes to say."""
VALUE_LENGTH_MAX = 128
"""As worker_link.message_fields.LABEL_LENGTH_MAX."""
PACKED_BYTES_MAX = 200_000
"""Share of the gang record (1 MB) that labels may take. 100,000 ranks with dp, tp and pp take about 10 KB."""
TOLD_MAX = 8
"""Refusals of one batch that are told one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksLabelled:
    """Labels that came in together, in order."""

    reports: tuple[RankLabelsReported, ...]


def ranks_labelled(draft: Draft, event: RanksLabelled) -> None:
    """Take the labels over; what cannot be is refused and said, and the rest counts."""
    gang = draft.gang
    if gang.phase in (Phase.FORMING, Phase.ENDED):
        draft.ignore("report.stale", f"labels of {len(event.reports)} ranks: the gang is {gang.phase}")
        return
    try:
        table = unpack_labels(gang.labels)
    except ValueError as error:
        # They steer nothing: a job is not stopped for them, and its ranks say them again after a restart.
        draft.explain("labels.damaged", str(error))
        table = {}
    names = {name for labels in table.values() for name in labels}
    refused: list[str] = []
    changed = False
    for report in event.reports:
        problem = _problem(draft, report, table, names)
        if problem:
            refused.append(f"labels of rank {report.rank} on {report.node_id}: {problem}")
        elif table.get(report.rank) != report.labels:
            table[report.rank] = dict(report.labels)
            names |= report.labels.keys()
            changed = True
    for sentence in refused[:TOLD_MAX]:
        draft.ignore("labels.refused", sentence)
    if len(refused) > TOLD_MAX:
        draft.ignore("labels.refused", f"and {len(refused) - TOLD_MAX} more of {len(event.reports)} reports")
    if changed:
        _keep(draft, table)


def _keep(draft: Draft, table: RankLabelTable) -> None:
    packed = pack_labels(table)
    if len(packed) > PACKED_BYTES_MAX:
        draft.ignore(
            "labels.too_large",
            f"labels of {len(table)} ranks take {len(packed)} bytes, the limit is {PACKED_BYTES_MAX}; the former stay",
        )
        return
    draft.change(labels=packed)
    draft.explain("labels.kept", f"labels of {len(table)} ranks are known")


def _problem(draft: Draft, report: RankLabelsReported, table: RankLabelTable, names: set[str]) -> str:
    version, world_size = draft.gang.table.topology_version, draft.gang.table.world_size
    if report.topology_version < version and draft.gang.world_size_at(report.topology_version) != world_size:
        return f"about version {report.topology_version}, which had another size"
    if report.rank >= world_size:
        return f"the job has {world_size} ranks"
    if report.topology_version < version and report.rank in table:
        return f"about version {report.topology_version}, the gang is at {version}"
    if any(not name or max(len(name), len(value)) > VALUE_LENGTH_MAX for name, value in report.labels.items()):
        return f"names and values have 1 to {VALUE_LENGTH_MAX} characters"
    if len(names | report.labels.keys()) > NAMES_MAX:
        return f"more than {NAMES_MAX} different names in the job"
    return ""
