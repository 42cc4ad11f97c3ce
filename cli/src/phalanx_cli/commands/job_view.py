"""One job as plain data and as lines, from the records that the planner keeps. Reading only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fault_contracts.checkpoints import CheckpointRef, data_path_of, path_of
from phalanx_cli.foreign_text import printable
from recovery_planner.domain.accounting import account_until
from recovery_planner.domain.budget import budget_at
from recovery_planner.domain.checkpoint import choose
from training_topology.rank_labels import unpack_labels

if TYPE_CHECKING:
    from recovery_planner.domain.checkpoint_history import CheckpointHistory
    from recovery_planner.domain.gang import Gang

RANKS_SHOWN = 64
"""Lines of ranks in the table; JSON has all of them."""


def job_view(gang: Gang, history: CheckpointHistory, *, step: int | None, now: datetime) -> dict[str, Any]:
    """The job as data. `step` is the newest that a node reported; the record's own may be older."""
    try:
        labels, problem = unpack_labels(gang.labels), ""
    except ValueError as error:
        labels, problem = {}, str(error)
    budget = budget_at(gang.spec, gang.restarts, now)
    chosen = choose(history, gang.starts, found=gang.checkpoint_found)
    known = [number for number in (gang.step_max, step) if number is not None]
    return {
        "job_id": gang.job_id,
        "phase": gang.phase.value,
        "topology_version": gang.table.topology_version,
        "born_at": gang.born_at.isoformat(),
        "nnodes": gang.table.nnodes or gang.spec.nnodes,
        "nnodes_asked": gang.spec.nnodes,
        "nproc_per_node": gang.spec.nproc_per_node,
        "world_size": gang.table.world_size or gang.spec.nnodes * gang.spec.nproc_per_node,
        "nodes": [_node(gang, row.node_id, row.node_rank) for row in gang.table.rows],
        "spares": [
            {"node_id": node_id, "standing": member.standing.value, "phase": member.phase.value}
            for node_id, member in gang.members.items()
            if not gang.is_seated(node_id)
        ],
        "ranks": [
            {"rank": rank, "node_id": row.node_id, "labels": labels.get(rank, {})}
            for row in gang.table.rows
            for rank in gang.table.ranks_of(row.node_id)
        ],
        "labels_problem": problem,
        "step": max(known, default=None),
        "checkpoint": None if chosen.ref is None else _checkpoint(chosen.ref, gang),
        "checkpoint_reason": chosen.sentence,
        "started_from": gang.starts[-1].step if gang.starts and gang.starts[-1].step >= 0 else None,
        "incident": _incident(gang),
        "restarts": {
            "done": gang.restart_count,
            "left": budget.left,
            "max": gang.spec.restarts_max,
            "window_s": gang.spec.window_s,
        },
        "journal_entries": gang.journal_seq,
        "account": account_until(gang, now).model_dump(mode="json"),
        "ending": None
        if gang.ending is None
        else {
            "outcome": gang.ending.outcome.value,
            "reason": gang.ending.reason.sentence,
            "ended_at": gang.ending.ended_at.isoformat(),
        },
    }


def _node(gang: Gang, node_id: str, node_rank: int) -> dict[str, Any]:
    ranks = gang.table.ranks_of(gang.table.rows[node_rank].node_id)
    member = gang.members.get(node_id)
    return {
        "node_id": node_id,
        "node_rank": node_rank,
        "address": gang.table.rows[node_rank].address,
        "ranks": [ranks.start, ranks.stop - 1],
        "standing": "unknown" if member is None else member.standing.value,
        "phase": "unknown" if member is None else member.phase.value,
    }


def _checkpoint(ref: CheckpointRef, gang: Gang) -> dict[str, Any]:
    view: dict[str, Any] = {"step": ref.step, "path": ref.path, "data_path": ref.data_path}
    if ref.paths or ref.data_paths:
        ranks = range(gang.table.world_size)
        view["paths"] = {str(rank): path_of(ref, rank) for rank in ranks}
        view["data_paths"] = {str(rank): data_path_of(ref, rank) for rank in ranks if data_path_of(ref, rank)}
    return view


def _incident(gang: Gang) -> dict[str, Any] | None:
    incident = gang.incident
    if incident is None:
        return None
    return {
        "incident_id": incident.incident_id,
        "attempt": incident.attempt,
        "opened_at": incident.opened_at.isoformat(),
        "trigger": incident.trigger.sentence,
        "verdict": None if incident.verdict is None else incident.verdict.cause,
        "waits_for": list(gang.awaited),
    }


def job_lines(view: dict[str, Any]) -> Iterator[str]:
    """The view as lines for a terminal."""
    yield f"job {view['job_id']}: {view['phase']}, version {view['topology_version']}"
    if view["ending"] is not None:
        yield f"ended at {view['ending']['ended_at'][:19]}: {view['ending']['outcome']}; {view['ending']['reason']}"
    yield f"last step    {'unknown' if view['step'] is None else view['step']}"
    checkpoint = view["checkpoint"]
    if checkpoint is None:
        yield f"checkpoint   none: {view['checkpoint_reason']}"
    else:
        where = "a path for each rank, such as " if "paths" in checkpoint else ""
        data = f", data {checkpoint['data_path']}" if checkpoint["data_path"] else ""
        yield f"checkpoint   step {checkpoint['step']}, {where}{checkpoint['path'] or 'path not told'}{data}"
    restarts = view["restarts"]
    yield (
        f"restarts     {restarts['done']} so far, {restarts['left']} of {restarts['max']} left "
        f"in {restarts['window_s']:g} s"
    )
    incident = view["incident"]
    if incident is not None:
        yield f"incident     attempt {incident['attempt']} since {incident['opened_at'][:19]}: {incident['trigger']}"
        if incident["waits_for"]:
            yield f"             waits for {', '.join(incident['waits_for'][:8])}"
    yield ""
    yield from table(
        ("NODE_RANK", "NODE", "ADDRESS", "RANKS", "STANDING", "WORKERS"),
        [
            (n["node_rank"], n["node_id"], n["address"], f"{n['ranks'][0]}-{n['ranks'][1]}", n["standing"], n["phase"])
            for n in view["nodes"]
        ]
        + [("spare", s["node_id"], "", "", s["standing"], s["phase"]) for s in view["spares"]],
    )
    yield from _rank_lines(view)


def _rank_lines(view: dict[str, Any]) -> Iterator[str]:
    labelled = [rank for rank in view["ranks"] if rank["labels"]]
    if view["labels_problem"]:
        yield ""
        yield view["labels_problem"]
    if not labelled:
        return
    names = sorted({name for rank in labelled for name in rank["labels"]})
    rows = [(r["rank"], r["node_id"], *(r["labels"].get(name, "") for name in names)) for r in labelled[:RANKS_SHOWN]]
    yield ""
    yield from table(("RANK", "NODE", *names), rows)
    if len(labelled) > RANKS_SHOWN:
        yield f"... and {len(labelled) - RANKS_SHOWN} more ranks; --json has all"


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Columns of equal width. A foreign text cannot move the cursor or make a second line."""
    shown = [[printable(str(cell)) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(len(head))]
    for row in shown:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
