"""Every message once: model, subject, sender, readers, stream; and every stream and bucket once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from fault_contracts import (
    agent,
    commands,
    dead_letter,
    faults,
    findings,
    hardware,
    health,
    inventory,
    lone_agent,
    measures,
    node_actions,
    preemption,
    rank_faults,
    recovery,
    remediation,
    step_times,
)
from fault_contracts.payload import Payload
from fault_contracts.subjects import Kind, Subject, pattern

_DAY_S = 86_400.0


class Stream(StrEnum):
    """Names of the JetStream streams."""

    HEALTH = "HEALTH"
    AGENTS = "AGENTS"
    FAULTS = "FAULTS"
    CONTROL = "CONTROL"
    JOURNAL = "JOURNAL"
    DLQ = "DLQ"


class Bucket(StrEnum):
    """Names of the key-value buckets, one per aggregate."""

    GANGS = "gangs"
    CONDITIONS = "conditions"
    CHECKPOINTS = "checkpoints"
    QUARANTINE = "quarantine"
    NODES = "nodes"
    EVIDENCE = "evidence"
    REMEDIES = "remedies"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec:
    """How a stream is kept.

    Attributes:
        age_s_max: messages older than this are dropped.
        bytes_max: the oldest go when the stream is larger.
        duplicate_window_s: a message id seen within it is dropped by the server. Longer than
            ack_wait x max_deliver of every consumer (service_kit.jetstream.consumer), so that no redelivery can double.
        republish: accepted commands appear under `phx.go.>`; agents listen there.
        atomic: allows atomic batches (nats-server 2.12).
    """

    name: Stream
    subjects: tuple[str, ...]
    age_s_max: float
    bytes_max: int
    duplicate_window_s: float = 600.0
    republish: tuple[str, str] | None = None
    atomic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSpec:
    """One message type. `key` names the payload field that is the subject's last token.

    `also_senders`: others that say the same of what they see themselves.
    """

    model: type[Payload]
    kind: Kind
    context: str
    name: str
    version: int
    key: str
    sender: str
    readers: tuple[str, ...]
    stream: Stream | None
    also_senders: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        """CloudEvents type: the subject without root and scope."""
        return f"{self.kind}.{self.context}.{self.name}.v{self.version}"

    def subject(self, cluster: str, key: str) -> Subject:
        """The subject that a message of this type is published on."""
        return Subject(
            kind=self.kind, context=self.context, name=self.name, version=self.version, cluster=cluster, key=key
        )

    def pattern(self, cluster: str, key: str | None = None, *, kind: Kind | None = None) -> str:
        """Subscription pattern over all keys, or one."""
        return pattern(kind or self.kind, self.context, self.name, self.version, cluster, key)


STREAMS: tuple[StreamSpec, ...] = (
    StreamSpec(name=Stream.HEALTH, subjects=("phx.evt.health.>",), age_s_max=14 * _DAY_S, bytes_max=2 << 30),
    StreamSpec(name=Stream.AGENTS, subjects=("phx.evt.agent.>",), age_s_max=14 * _DAY_S, bytes_max=2 << 30),
    StreamSpec(name=Stream.FAULTS, subjects=("phx.evt.fault.>",), age_s_max=90 * _DAY_S, bytes_max=1 << 30),
    StreamSpec(
        name=Stream.CONTROL,
        subjects=("phx.cmd.>", "phx.evt.leader.>"),
        age_s_max=90 * _DAY_S,
        bytes_max=1 << 30,
        republish=("phx.cmd.>", "phx.go.>"),
        atomic=True,
    ),
    StreamSpec(name=Stream.JOURNAL, subjects=("phx.evt.recovery.>",), age_s_max=365 * _DAY_S, bytes_max=4 << 30),
    StreamSpec(name=Stream.DLQ, subjects=("phx.dlq.>",), age_s_max=30 * _DAY_S, bytes_max=1 << 30),
)

_AGENT, _INGEST, _CLASSIFIER, _PLANNER = "node-agent", "health-ingest", "fault-classifier", "recovery-planner"
_CONDITIONS = (_CLASSIFIER, _PLANNER, _AGENT, _INGEST)
"""The agent shows the person which of its ranks is slow; ingest itself keeps the standing of nodes by them."""


def _evt(
    model: type[Payload], context: str, name: str, key: str, sender: str, readers: Sequence[str], stream: Stream | None
) -> MessageSpec:
    return MessageSpec(
        model=model,
        kind=Kind.EVT,
        context=context,
        name=name,
        version=1,
        key=key,
        sender=sender,
        readers=tuple(readers),
        stream=stream,
    )


def _from_agent(model: type[Payload], name: str, *readers: str, stored: bool = True) -> MessageSpec:
    return _evt(model, "agent", name, "node_id", _AGENT, readers, Stream.AGENTS if stored else None)


def _health(model: type[Payload], name: str, sender: str, *readers: str) -> MessageSpec:
    return _evt(model, "health", name, "node_id", sender, readers, Stream.HEALTH)


def _journal(model: type[Payload], name: str, *readers: str, key: str = "job_id") -> MessageSpec:
    return _evt(model, "recovery", name, key, _PLANNER, readers or ("console", "cli"), Stream.JOURNAL)


def _command(model: type[Payload], name: str) -> MessageSpec:
    return MessageSpec(
        model=model,
        kind=Kind.CMD,
        context="gang",
        name=name,
        version=1,
        key="job_id",
        sender=_PLANNER,
        readers=(_AGENT,),
        stream=Stream.CONTROL,
    )


MESSAGES: tuple[MessageSpec, ...] = (
    _from_agent(agent.AgentReported, "reported", _PLANNER),
    # Core NATS only, and outside `phx.evt.agent.>` so that the stream does not keep it.
    _evt(agent.AgentHeartbeat, "beat", "agent_heartbeat", "node_id", _AGENT, (_PLANNER,), None),
    _from_agent(agent.AgentLeft, "left", _PLANNER),
    _from_agent(agent.WorkerExited, "worker_exited", _INGEST, _PLANNER),
    _from_agent(rank_faults.RanksFaulted, "ranks_faulted", _INGEST, _PLANNER),
    _from_agent(findings.FindingsReported, "findings_reported", _CLASSIFIER),
    # Core NATS only, as the heartbeat, between the agents of one job.
    _evt(rank_faults.StallSeen, "stall", "stall_seen", "job_id", _AGENT, (_AGENT,), None),
    _from_agent(agent.WorkersStopped, "workers_stopped", _PLANNER),
    _from_agent(agent.WorkersStarted, "workers_started", _PLANNER),
    _from_agent(agent.WorkersCompleted, "workers_completed", _PLANNER),
    _from_agent(agent.CommandRefused, "command_refused", _PLANNER),
    _from_agent(agent.StepReported, "step_reported", _PLANNER),
    _from_agent(agent.CheckpointReported, "checkpoint_reported", _PLANNER),
    _from_agent(agent.RankLabelsReported, "rank_labels_reported", _PLANNER),
    _from_agent(preemption.PreemptionNoticed, "preemption_noticed", _PLANNER),
    _from_agent(lone_agent.AgentActedAlone, "acted_alone", _PLANNER),
    # Core NATS only: an old window says nothing about now.
    _evt(step_times.StepTimesReported, "pace", "step_times", "node_id", _AGENT, (_INGEST,), None),
    _evt(measures.MeasuresReported, "measured", "devices", "node_id", _AGENT, (_INGEST,), None),
    # health-ingest: what it finds by comparing nodes, and what other systems told it over HTTP.
    replace(
        _health(health.SignalObserved, "signal_observed", _AGENT, _INGEST),
        also_senders=(_INGEST,),
    ),
    _health(health.SignalsObserved, "signals_observed", _AGENT, _INGEST),
    _health(inventory.InventoryReported, "inventory_reported", _AGENT, _INGEST),
    _health(node_actions.NodeActionReported, "node_action_reported", _AGENT, _INGEST, _PLANNER, "cli"),
    _health(health.ConditionRaised, "condition_raised", _INGEST, *_CONDITIONS),
    _health(health.ConditionCleared, "condition_cleared", _INGEST, *_CONDITIONS),
    _health(hardware.HardwareChanged, "hardware_changed", _INGEST, _INGEST, "cli"),
    _health(hardware.NodeStandingChanged, "node_standing", _INGEST, _PLANNER),
    _evt(faults.FaultClassified, "fault", "classified", "job_id", _CLASSIFIER, (_PLANNER, _INGEST), Stream.FAULTS),
    _journal(recovery.GangFormed, "gang_formed", _CLASSIFIER, _INGEST, "console", "cli"),
    _journal(recovery.NodeLost, "node_lost", _CLASSIFIER),
    _journal(recovery.NodeFaulted, "node_faulted", _CLASSIFIER),
    _journal(recovery.IncidentOpened, "incident_opened", _CLASSIFIER),
    _journal(recovery.AttemptOpened, "attempt_opened"),
    _journal(recovery.RecoveryHeld, "held"),
    _journal(recovery.CauseLinked, "cause_linked"),
    _journal(recovery.RecoveryPlanned, "planned"),
    _journal(recovery.TrainingResumed, "training_resumed"),
    _journal(recovery.ActionWithheld, "action_withheld"),
    _journal(recovery.IncidentClosed, "incident_closed", _CLASSIFIER),
    _journal(recovery.JobEnded, "job_ended", _CLASSIFIER, _INGEST, "console", "cli"),
    _journal(remediation.NodeTended, "node_tended", key="node_id"),
    _journal(remediation.BreakerMoved, "breaker_moved", key="breaker"),
    _command(commands.StopWorkers, "stop_workers"),
    _command(commands.StartWorkers, "start_workers"),
    _command(commands.EndJob, "end_job"),
    _command(preemption.RequestCheckpoint, "request_checkpoint"),
    MessageSpec(
        model=node_actions.OrderNodeAction,
        kind=Kind.CMD,
        context="node",
        name="act",
        version=1,
        key="node_id",
        sender="cli",
        also_senders=(_PLANNER,),
        readers=(_AGENT,),
        stream=Stream.CONTROL,
    ),
    _evt(commands.LeaderEpoch, "leader", "epoch", "role", _PLANNER, (_PLANNER,), Stream.CONTROL),
    MessageSpec(
        model=dead_letter.DeadLettered,
        kind=Kind.DLQ,
        context="any",
        name="dead_lettered",
        version=1,
        key="consumer",
        sender="any",
        readers=("cli", "console"),
        stream=Stream.DLQ,
    ),
)

_BY_MODEL = {spec.model: spec for spec in MESSAGES}
_BY_TYPE = {spec.type: spec for spec in MESSAGES}
assert len(_BY_MODEL) == len(_BY_TYPE) == len(MESSAGES), "a message is registered twice"

DURABLY_READ: frozenset[type[Payload]] = frozenset(
    {
        *(spec.model for spec in MESSAGES if spec.stream is Stream.AGENTS),
        health.SignalObserved,
        health.SignalsObserved,
        node_actions.NodeActionReported,
        inventory.InventoryReported,
        health.ConditionRaised,
        health.ConditionCleared,
        hardware.HardwareChanged,
        hardware.NodeStandingChanged,
        faults.FaultClassified,
        recovery.NodeLost,
        recovery.NodeFaulted,
        recovery.IncidentOpened,
        recovery.IncidentClosed,
        recovery.GangFormed,
        recovery.JobEnded,
    }
)
"""What some service takes from its stream with a durable consumer, which dead-letters what it cannot decode. Everything
else that is stored is decoded by the auditor (service_kit.audit) and by nobody before it is wanted."""


def spec_of(model: type[Payload]) -> MessageSpec:
    """The registration of a payload model.

    Raises:
        KeyError: the model is not registered.
    """
    return _BY_MODEL[model]


def spec_of_type(type_: str) -> MessageSpec | None:
    """The registration of a CloudEvents type, or None when it is unknown here."""
    return _BY_TYPE.get(type_)


def stream_spec(stream: Stream) -> StreamSpec:
    """The registration of a stream."""
    return next(spec for spec in STREAMS if spec.name == stream)
