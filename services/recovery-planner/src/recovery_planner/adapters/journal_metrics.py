"""What the journal says, for Prometheus: incidents, recovery times, costs. No job, node or id is a label."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from fault_contracts.payload import Payload
from fault_contracts.recovery import (
    ActionWithheld,
    AttemptOpened,
    CauseLinked,
    IncidentClosed,
    IncidentOpened,
    JobEnded,
    RecoveryHeld,
)

CAUSES_MAX = 300
"""Causes that get a label of their own: more than the shipped rules have. Beyond it, a cause counts as `other`."""
SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0)
"""A restart in place on one machine, to a gang that waited an hour for a node."""
PHASES = ("detect", "stop", "plan", "wait", "start", "first_step")

OPENED = Counter("phalanx_incidents_opened_total", "Incidents that were opened")
INCIDENTS = Counter(
    "phalanx_incidents_total",
    "Incidents that are over, by the gravest level that was planned",
    ("attribution", "cause", "level", "outcome"),
)
ATTEMPTS = Counter("phalanx_recovery_attempts_repeated_total", "Generations that broke before they trained")
RECOVERY_SECONDS = Histogram(
    "phalanx_recovery_seconds",
    "Fault to training again, of incidents that recovered",
    ("attribution",),
    buckets=SECONDS,
)
PHASE_SECONDS = Histogram(
    "phalanx_recovery_phase_seconds", "Time in a phase of an incident that recovered", ("phase",), buckets=SECONDS
)
STEPS_LOST = Counter("phalanx_steps_lost_total", "Steps that were done again after a restart", ("attribution",))
GPU_SECONDS_LOST = Counter(
    "phalanx_gpu_seconds_lost_total", "GPU-seconds that stood still (down), or did a step again (redone)",
    ("attribution", "kind"),
)  # fmt: skip
UNPRICED = Counter("phalanx_incidents_unpriced_total", "Incidents whose lost steps nobody told, or their pace")
NODES_TAKEN = Counter("phalanx_nodes_replaced_total", "Places of gangs that another node got", ("attribution",))
HELD = Counter("phalanx_recovery_held_total", "Plans that had to wait", ("waits_for",))
WITHHELD = Counter("phalanx_actions_withheld_total", "What would have been done and was not", ("action", "withheld_by"))
LINKED = Counter("phalanx_causes_linked_total", "Incidents whose cause others share", ("family",))
JOBS_ENDED = Counter("phalanx_jobs_ended_total", "Jobs that ended", ("outcome",))

_LEVELS = ("in_process", "process", "job")


class JournalCounters:
    """application.journal_figures.JournalFigures on the process's registry."""

    def __init__(self) -> None:
        self._causes: set[str] = set()

    def note(self, payload: Payload) -> None:
        """See the port."""
        match payload:
            case IncidentOpened():
                OPENED.inc()
            case AttemptOpened():
                ATTEMPTS.inc()
            case RecoveryHeld():
                HELD.labels(waits_for=payload.waits_for).inc()
            case ActionWithheld():
                WITHHELD.labels(action=payload.action, withheld_by=payload.withheld_by).inc()
            case CauseLinked():
                LINKED.labels(family=payload.family).inc()
            case IncidentClosed():
                self._closed(payload)
            case JobEnded():
                JOBS_ENDED.labels(outcome=str(payload.outcome)).inc()
            case _:
                pass

    def _closed(self, closed: IncidentClosed) -> None:
        whose = str(closed.attribution)
        account = closed.account
        levels = () if account is None else tuple(str(level) for level in account.levels)
        level = max((each for each in levels if each in _LEVELS), key=_LEVELS.index, default="none")
        INCIDENTS.labels(
            attribution=whose, cause=self._bounded(closed.cause), level=level, outcome=closed.outcome
        ).inc()
        if closed.outcome == "recovered":
            if closed.phases.total_s is not None:
                RECOVERY_SECONDS.labels(attribution=whose).observe(closed.phases.total_s)
            for phase in PHASES:
                seconds = getattr(closed.phases, f"{phase}_s")
                if seconds is not None:
                    PHASE_SECONDS.labels(phase=phase).observe(seconds)
        if account is None:
            return
        STEPS_LOST.labels(attribution=whose).inc(account.steps_redone or 0)
        GPU_SECONDS_LOST.labels(attribution=whose, kind="down").inc(account.down_gpu_s)
        GPU_SECONDS_LOST.labels(attribution=whose, kind="redone").inc(account.redone_gpu_s or 0.0)
        NODES_TAKEN.labels(attribution=whose).inc(len(account.nodes_taken))
        if account.redone_gpu_s is None:
            UNPRICED.inc()

    def _bounded(self, cause: str) -> str:
        if not cause:
            return "none"
        if cause not in self._causes and len(self._causes) >= CAUSES_MAX:
            return "other"
        self._causes.add(cause)
        return cause
