"""Everything that an identity may do on a NATS server: its messages, and what JetStream needs for them.

JetStream's own API is a way around permissions if it is open: a consumer of somebody else can be read or deleted, its
messages acknowledged away, a stream's configuration can republish anything. So each role gets the requests that it
makes, by name, and nothing else. Only the planner makes and changes streams; the others wait for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fault_contracts.node_actions import OrderNodeAction
from fault_contracts.permissions import READERS, Holder, Role, subjects_of
from fault_contracts.registry import MESSAGES, STREAMS, Bucket, MessageSpec, Stream, spec_of
from fault_contracts.subjects import ROOT, Kind, encode_token
from service_kit.identity import inbox_prefix

_API = "$JS.API"

DURABLES: dict[Role, tuple[str, ...]] = {
    Role.HEALTH_INGEST: tuple(
        f"health-ingest-{name}" for name in ("exits", "rank-faults", "signals", "audit", "ledger", "nodes")
    ),
    Role.FAULT_CLASSIFIER: ("fault-classifier",),
    Role.RECOVERY_PLANNER: ("recovery-planner", "recovery-planner-nodes"),
    Role.OPERATOR: ("operator",),
    Role.CONSOLE: ("console",),
    # `phalanx demo` on a bus of others (docs/compose.md): it watches its job, one consumer a stream.
    Role.CLI: tuple(f"demo-{str(spec.name).lower()}" for spec in STREAMS),
}
"""Names of the durable consumers of each role: no other may read, change or acknowledge them."""

WRITES: dict[Role, tuple[Bucket, ...]] = {
    Role.HEALTH_INGEST: (Bucket.CONDITIONS, Bucket.QUARANTINE, Bucket.NODES),
    Role.FAULT_CLASSIFIER: (Bucket.EVIDENCE,),
    Role.RECOVERY_PLANNER: (Bucket.GANGS, Bucket.CHECKPOINTS, Bucket.REMEDIES),
}
READS: dict[Role, tuple[Bucket, ...]] = {
    Role.RECOVERY_PLANNER: (Bucket.NODES,),
    Role.OPERATOR: tuple(Bucket),
    Role.CONSOLE: tuple(Bucket),
    Role.CLI: tuple(Bucket),
}
AUDITOR = Role.HEALTH_INGEST
"""Looks at everything on the bus, see service_kit.audit."""
KEEPER = Role.RECOVERY_PLANNER
"""Makes the streams. One that may change a stream can have it republish what it likes."""
RESPONSE_S = 60
"""How long a question may be answered, once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Allow-lists of one identity; what is on none is denied."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def access_of(holder: Holder, cluster: str) -> Access:
    """Messages, questions, streams, buckets and reply subjects of an identity."""
    own = subjects_of(holder, cluster)
    publish = {*own.publish, *_requests(holder, cluster)}
    subscribe = {*own.subscribe, f"{inbox_prefix(holder.name)}.>"}
    if holder.role is AUDITOR:
        subscribe |= {f"{ROOT}.{kind}.>" for kind in Kind if kind is not Kind.ASK}
    return Access(publish=tuple(sorted(publish)), subscribe=tuple(sorted(subscribe)))


def _requests(holder: Holder, cluster: str) -> Iterator[str]:
    role, scope = holder.role, encode_token(cluster)
    for durable in DURABLES.get(role, ()):
        yield from _of_durable(f"{encode_token(durable)}-{scope}")
    for bucket in dict.fromkeys((*WRITES.get(role, ()), *READS.get(role, ()))):
        yield from _of_bucket(bucket, scope)
    for bucket in WRITES.get(role, ()):
        yield f"$KV.{bucket}.{scope}.*"
    match role:
        case Role.HOST:
            yield from _gets(Stream.CONTROL, spec_of(OrderNodeAction).pattern(cluster, holder.node or None))
            # `phalanx validate` looks up the standing of its own node.
            key = encode_token(holder.node) if holder.node else "*"
            yield from _gets(f"KV_{Bucket.NODES}", f"$KV.{Bucket.NODES}.{scope}.{key}")
        case Role.LAUNCHER:
            for spec in gang_commands():
                yield from _gets(Stream.CONTROL, spec.pattern(cluster, holder.job or None))
        case Role.RECOVERY_PLANNER:
            yield f"{_API}.DIRECT.GET.{Stream.CONTROL}"
            yield f"{_API}.DIRECT.GET.{Stream.CONTROL}.>"
        case _ if role in READERS:
            # Reading is what they are for; of which cluster, no permission can tell: a get names that in its body.
            yield f"{_API}.DIRECT.GET.>"
        case _:
            pass
    if role in DURABLES or role in WRITES:
        yield f"{_API}.STREAM.INFO.*"
    if role is KEEPER:
        for name in (*(str(spec.name) for spec in STREAMS), *(f"KV_{bucket}" for bucket in Bucket)):
            yield f"{_API}.STREAM.CREATE.{name}"
            yield f"{_API}.STREAM.UPDATE.{name}"


def gang_commands() -> tuple[MessageSpec, ...]:
    """Commands that an agent of a job obeys."""
    return tuple(spec for spec in MESSAGES if spec.kind is Kind.CMD and spec.key == "job_id")


def _of_durable(name: str) -> Iterator[str]:
    for verb in ("INFO", "CREATE", "RESET", "MSG.NEXT"):
        yield f"{_API}.CONSUMER.{verb}.*.{name}"
    yield f"$JS.ACK.*.{name}.>"
    yield f"$JS.ACK.*.*.*.{name}.>"  # of a server that names its domain and account as well


def _of_bucket(bucket: Bucket, scope: str) -> Iterator[str]:
    stream = f"KV_{bucket}"
    yield from _gets(stream, f"$KV.{bucket}.{scope}.*")
    # Its keys are listed by a consumer that lives for a moment, under a name that the server makes up.
    yield f"{_API}.CONSUMER.CREATE.{stream}"
    yield f"{_API}.CONSUMER.MSG.NEXT.{stream}.*"
    yield f"{_API}.CONSUMER.DELETE.{stream}.*"


def _gets(stream: str, subject: str) -> Iterator[str]:
    yield f"{_API}.DIRECT.GET.{stream}.{subject}"
