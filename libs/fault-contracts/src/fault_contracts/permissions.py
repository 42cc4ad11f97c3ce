"""Who may say, hear, ask and answer what: the subjects of each identity, from the registry of messages and questions.

Allow-lists. A node's identity speaks as its node and hears what is meant for it; a launcher may be bound to one job.
What the bus itself needs besides (streams, buckets, reply subjects) is service_kit.bus_access.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from fault_contracts.asks import ASKS
from fault_contracts.dead_letter import DeadLettered
from fault_contracts.health import SignalObserved, SignalsObserved
from fault_contracts.inventory import InventoryReported
from fault_contracts.measures import MeasuresReported
from fault_contracts.node_actions import NodeActionReported, OrderNodeAction
from fault_contracts.payload import Payload
from fault_contracts.registry import MESSAGES, MessageSpec
from fault_contracts.subjects import ROOT, Kind, encode_token

NODE_AGENT = "node-agent"
_NAME = re.compile(r"[a-z0-9=_-]{1,512}")


class Role(StrEnum):
    """What an identity is for. The names of services are those of the registry."""

    HEALTH_INGEST = "health-ingest"
    FAULT_CLASSIFIER = "fault-classifier"
    RECOVERY_PLANNER = "recovery-planner"
    OPERATOR = "operator"
    """Of Kubernetes; it reads, and asks the planner to tend nodes."""
    CONSOLE = "console"
    CLI = "cli"
    """A person: reads all, asks, and orders actions of nodes."""
    HOST = "host"
    """The agent of a machine."""
    LAUNCHER = "launcher"
    """The agent of a job on a machine; runs as the job's user, whose code can read its key."""


NODE_ROLES = frozenset({Role.HOST, Role.LAUNCHER})
SERVICE_ROLES = tuple(role for role in Role if role not in NODE_ROLES)
READERS = frozenset({Role.OPERATOR, Role.CONSOLE, Role.CLI})
"""Read everything of their cluster."""

HOST_MESSAGES: frozenset[type[Payload]] = frozenset(
    {
        SignalObserved,
        SignalsObserved,
        InventoryReported,
        MeasuresReported,
        NodeActionReported,
        OrderNodeAction,
    }
)
"""What of the node agent's messages belongs to the host role."""
BOTH_MESSAGES: frozenset[type[Payload]] = frozenset({SignalObserved})
"""A launcher finds signals too, in the output of its ranks."""
_HOST_ASKS, _HOST_ANSWERS = frozenset({"host_health", "hardware"}), frozenset({"host_health"})
_LAUNCHER_ASKS, _LAUNCHER_ANSWERS = frozenset({"admission", "planner"}), frozenset({"ping"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Whose identity it is.

    Attributes:
        node: of host and launcher; empty is every node: one identity that machines share, see docs/security.md.
        job: of a launcher; empty is every job.
    """

    role: Role
    node: str = ""
    job: str = ""

    def __post_init__(self) -> None:
        if self.node and self.role not in NODE_ROLES:
            raise ValueError(f"{self.role} belongs to no node")
        if self.job and self.role is not Role.LAUNCHER:
            raise ValueError(f"{self.role} belongs to no job")

    @property
    def name(self) -> str:
        """Name of the identity: of its file, and of its reply subjects. Injective: `=j` is no encoded byte."""
        if self.role not in NODE_ROLES:
            return str(self.role)
        of_node = f"{self.role}-{encode_token(self.node)}" if self.node else f"{self.role}=every-node"
        return f"{of_node}=job-{encode_token(self.job)}" if self.job else of_node


def is_identity_name(name: str) -> bool:
    """Whether it can be the name of an identity; one subject token."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """What may be published and subscribed to; patterns of NATS."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def subjects_of(holder: Holder, cluster: str) -> Subjects:
    """Messages and questions of one identity. Replies are not listed: they may answer what was asked, once."""
    return Subjects(
        publish=tuple(sorted({*_said(holder, cluster), *_asked(holder, cluster)})),
        subscribe=tuple(sorted({*_heard(holder, cluster), *_answered(holder, cluster)})),
    )


def signers_of(spec: MessageSpec) -> tuple[Role, ...]:
    """Whose signature a command may carry."""
    return tuple(Role(sender) for sender in (spec.sender, *spec.also_senders))


def _said(holder: Holder, cluster: str) -> Iterator[str]:
    for spec in MESSAGES:
        if spec.model is DeadLettered:
            # A node's agents have a consumer name each; the letters of the others are none of their business.
            own = {Role.HOST: f"{NODE_AGENT}-host", Role.LAUNCHER: NODE_AGENT}.get(holder.role)
            if holder.role not in (Role.CONSOLE, Role.CLI):
                yield spec.pattern(cluster, own)
        elif _takes_part(holder.role, spec, (spec.sender, *spec.also_senders)):
            yield spec.pattern(cluster, _key(holder, spec.key))


def _heard(holder: Holder, cluster: str) -> Iterator[str]:
    if holder.role in READERS:
        for kind in (Kind.EVT, Kind.GO, Kind.DLQ):
            yield f"{ROOT}.{kind}.*.*.*.{encode_token(cluster)}.*"
        return
    for spec in MESSAGES:
        if _takes_part(holder.role, spec, spec.readers):
            # Commands are heard where the stream republishes them, never on their own subject.
            yield spec.pattern(cluster, _key(holder, spec.key), kind=Kind.GO if spec.kind is Kind.CMD else None)


def _asked(holder: Holder, cluster: str) -> Iterator[str]:
    own = {Role.HOST: _HOST_ASKS, Role.LAUNCHER: _LAUNCHER_ASKS}.get(holder.role)
    for ask in ASKS:
        if (NODE_AGENT in ask.askers and ask.what in own) if own is not None else (holder.role in ask.askers):
            yield ask.pattern(cluster, _key(holder, ask.key) if own is not None else None)


def _answered(holder: Holder, cluster: str) -> Iterator[str]:
    own = {Role.HOST: _HOST_ANSWERS, Role.LAUNCHER: _LAUNCHER_ANSWERS}.get(holder.role)
    for ask in ASKS:
        if (ask.answerer == NODE_AGENT and ask.what in own) if own is not None else (ask.answerer == holder.role):
            yield ask.pattern(cluster, _key(holder, ask.key) if own is not None else None)


def _takes_part(role: Role, spec: MessageSpec, parties: tuple[str, ...]) -> bool:
    if role not in NODE_ROLES:
        return role in parties
    if NODE_AGENT not in parties:
        return False
    if role is Role.HOST:
        return spec.model in HOST_MESSAGES
    return spec.model not in HOST_MESSAGES or spec.model in BOTH_MESSAGES


def _key(holder: Holder, key: str) -> str | None:
    """The last token that a node's identity is bound to; None: any."""
    if key == "node_id":
        return holder.node or None
    if key == "job_id":
        return holder.job or None
    return None
