"""The journal of a job as plain data for programs: every entry whole, under its run and incident. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fault_contracts.registry import spec_of
from phalanx_cli.journal.moments import moment_of
from phalanx_cli.journal.record import Entry, IncidentTale, Record, RunTale


def record_data(record: Record, evidence: Mapping[str, str]) -> dict[str, Any]:
    """Runs, oldest first; `evidence`: what ids stand for, as far as the streams still have it."""
    return {
        "runs": [_run(run) for run in record.runs],
        "unread": [
            {"sequence": each.sequence, "subject": each.subject, "problem": each.problem} for each in record.unread
        ],
        "evidence": dict(sorted(evidence.items())),
    }


def _run(run: RunTale) -> dict[str, Any]:
    return {
        "begun_at": None if run.begun_at is None else run.begun_at.isoformat(),
        "ended": None if run.ended is None else run.ended.model_dump(mode="json"),
        "holes": list(run.holes),
        "incidents": [_incident(tale) for tale in run.incidents],
        "entries": [_entry(entry) for entry in run.others],
    }


def _incident(tale: IncidentTale) -> dict[str, Any]:
    closed = tale.closed
    return {
        "incident_id": tale.incident_id,
        "begun_at": tale.begun_at.isoformat(),
        "begin_known": tale.opened is not None,
        "open": closed is None,
        "holes": list(tale.holes),
        "outcome": None if closed is None else closed.outcome,
        "attempts": None if closed is None else closed.attempts,
        "attribution": None if closed is None else closed.attribution.value,
        "cause": None if closed is None else closed.cause,
        "phases": None if closed is None else closed.phases.model_dump(mode="json"),
        "account": None if closed is None or closed.account is None else closed.account.model_dump(mode="json"),
        "verdicts": [verdict.model_dump(mode="json") for verdict in tale.verdicts],
        "entries": [_entry(entry) for entry in tale.entries],
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "type": spec_of(type(entry.payload)).type,
        "message_id": entry.message_id,
        "sequence": entry.sequence,
        "at": moment_of(entry.payload, entry.at).isoformat(),
        "data": entry.payload.model_dump(mode="json"),
    }
