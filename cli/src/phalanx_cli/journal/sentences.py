"""One line for each event that a person wants to see, None for the rest. Pure."""

from __future__ import annotations

import signal

from fault_contracts.agent import CommandRefused, ExitStatus, OomKill, WorkerExited, WorkersStopped
from fault_contracts.faults import FaultClassified
from fault_contracts.hardware import HardwareChange, HardwareChanged, NodeStandingChanged, is_of_node
from fault_contracts.health import ConditionRaised
from fault_contracts.payload import Payload
from fault_contracts.rank_faults import RanksFaulted
from fault_contracts.recovery import (
    ActionWithheld,
    AttemptOpened,
    CauseLinked,
    GangFormed,
    IncidentClosed,
    IncidentOpened,
    JobEnded,
    NodeFaulted,
    NodeLost,
    RecoveryHeld,
    RecoveryPlanned,
    TrainingResumed,
)
from fault_contracts.recovery_level import RecoveryLevel

MESSAGE_LENGTH_MAX = 100
"""Of an exception's message; the whole of it is in the logs."""


def sentence(event: Payload, *, ranks_per_node: int) -> tuple[str, str] | None:
    """The word that names the event, and the sentence that tells it."""
    match event:
        case GangFormed():
            return "gang", _gang(event, ranks_per_node)
        case WorkerExited():
            return "signal", _exited(event)
        case RanksFaulted():
            return "signal", _faulted(event)
        case ConditionRaised():
            return ("node", f"{event.node_id}: {event.tier}: {_short(event.reason)}") if is_of_node(event) else None
        case HardwareChanged(change=HardwareChange.STRUCK | HardwareChange.QUARANTINED):
            return "ledger", f"{event.change}: {event.device_id} of {event.node_id}: {_short(event.reason.sentence)}"
        case NodeStandingChanged():
            why = f": {_short(event.standing.reasons[0].sentence)}" if event.standing.reasons else ""
            return "standing", f"{event.node_id} is {event.standing.fit}{why}"
        case NodeLost():
            return "signal", f"{event.node_id} is lost: {event.reason.sentence}"
        case IncidentOpened(planned=True):
            return "planned", f"all ranks are told to stop: {event.trigger.sentence}"
        case IncidentOpened():
            return "incident", f"opened, all ranks are told to stop: {event.trigger.sentence}"
        case AttemptOpened():
            return "incident", f"attempt {event.attempt}, all ranks are told to stop again: {event.trigger.sentence}"
        case NodeFaulted():
            return "signal", f"{event.node_id}: {event.reason.sentence}"
        case RecoveryHeld():
            return "waits", _held(event)
        case CauseLinked():
            return "linked", event.reason.sentence
        case ActionWithheld():
            return "withheld", f"{event.action} is not done ({event.withheld_by}): {event.reason.sentence}"
        case WorkersStopped():
            return "stop", f"{event.node_id} stopped its ranks in {event.duration_s:.2f} s{_stuck(event)}"
        case FaultClassified():
            return "verdict", f"{event.attribution}, {event.cause}: {event.reasons[0].sentence}"
        case RecoveryPlanned():
            return "plan", _plan(event)
        case TrainingResumed():
            return "resumed", _resumed(event)
        case IncidentClosed():
            total_s = event.phases.total_s
            return "closed", f"{event.outcome}{'' if total_s is None else f' after {total_s:.2f} s'}"
        case JobEnded():
            return "end", f"job {event.job_id} ended, {event.outcome}: {event.summary or event.reason.sentence}"
        case CommandRefused(code="table_gap"):
            return None  # a node in reserve that does not hold the rank table yet; it gets it whole with its ranks
        case CommandRefused():
            return "refused", f"{event.node_id} refused a command ({event.code}): {event.message}"
        case _:
            return None


def ending(exit_: ExitStatus) -> str:
    """How a process ended, in the words of a shell user."""
    if exit_.signal is not None:
        try:
            name = signal.Signals(exit_.signal).name
        except ValueError:
            name = f"signal {exit_.signal}"
        return name + (" by the out-of-memory killer" if exit_.oom_kill is OomKill.YES else "")
    return "an unknown status" if exit_.exit_code is None else f"exit code {exit_.exit_code}"


def _gang(event: GangFormed, ranks_per_node: int) -> str:
    places = (
        f"{node} has ranks {place * ranks_per_node}-{(place + 1) * ranks_per_node - 1}"
        for place, node in enumerate(event.nodes)
    )
    spares = f"; in reserve: {', '.join(event.spares)}" if event.spares else ""
    return f"formed: {', '.join(places)}{spares}"


def _exited(event: WorkerExited) -> str:
    who = f"rank {event.exit.rank} on {event.node_id}"
    what = f"{who} gave up and its process lives" if event.process_alive else f"{who} ended with {ending(event.exit)}"
    if event.error is None:
        return what
    first_line = event.error.message.partition("\n")[0]
    return f"{what}: {event.error.type}: {_short(first_line)}"


def _faulted(event: RanksFaulted) -> str:
    ranks = ", ".join(str(suspect.rank) for suspect in event.suspects)
    who = f"rank {ranks} on {event.node_id}" if ranks else f"nobody alone on {event.node_id}"
    return f"{who} cannot go on ({event.rule_id}): {_short(event.reason)}"


def _short(text: str) -> str:
    return text if len(text) <= MESSAGE_LENGTH_MAX else text[: MESSAGE_LENGTH_MAX - 1] + "…"


def _stuck(event: WorkersStopped) -> str:
    return f", {len(event.stuck_pids)} do not react to SIGKILL" if event.stuck_pids else ""


def _plan(event: RecoveryPlanned) -> str:
    why = event.reasons[-1].sentence if event.reasons else ""
    if event.level is RecoveryLevel.FAILED:
        return f"no further restart: {why}"
    start = "from the beginning" if event.checkpoint_step is None else f"from step {event.checkpoint_step}"
    if event.checkpoint_stepped_over is not None:
        start += f", not from step {event.checkpoint_stepped_over} again"
    if event.nnodes != event.nnodes_before:
        start += f", with {event.nnodes} nodes instead of {event.nnodes_before}"
    moves = "".join(f", {row.node_id} takes node_rank {row.node_rank}" for row in event.moves)
    in_place = ""
    if event.level is RecoveryLevel.IN_PROCESS:
        new = ", ".join(str(rank) for rank in event.ranks_replaced)
        in_place = f" in place, {f'a new process for rank {new} alone' if new else 'every process goes on'},"
    return f"restart{in_place} {start}{moves}; {event.restarts_left} restarts left ({why})"


def _held(event: RecoveryHeld) -> str:
    until = "" if event.until is None else f", until {event.until:%H:%M:%S} at most"
    return f"for {event.waits_for}{until}: {event.reason.sentence}"


def _resumed(event: TrainingResumed) -> str:
    if event.by_step:
        return f"every rank finished a step again{'' if event.step is None else f', step {event.step}'}"
    return "all ranks run again (this job reports no steps)"
