"""Bodies of other systems' webhooks, validated, → what each item says. Fields that we do not need are let pass.

Shapes: Alertmanager webhook version 4 (Prometheus docs, Alerting, Configuration, webhook_config); CloudEvents 1.0.2
JSON format 3 and 4 (structured and batch); NVSentinel's HealthEvent as its event-exporter writes it; conditions as in
Kubernetes' NodeStatus and node-problem-detector; maintenance: see maintenance_bodies.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from health_ingest.application.take_foreign import ITEMS_MAX
from health_ingest.domain.foreign import Told

FIELDS_MAX = 200
DEPTH_MAX = 4
VALUE_MAX = 512

Short = Annotated[str, Field(min_length=1, max_length=256)]
Words = Annotated[str, Field(max_length=8_192)]
Labels = Annotated[dict[Annotated[str, Field(max_length=256)], Words], Field(max_length=128)]


class Body(BaseModel):
    """Frozen, and open for fields that later versions add."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Alert(Body):
    """One alert of a notification."""

    status: Literal["firing", "resolved"]
    labels: Labels
    annotations: Labels = Field(default_factory=dict)
    starts_at: AwareDatetime = Field(alias="startsAt")
    fingerprint: Annotated[str, Field(max_length=64)] = ""
    """Of all labels; since Alertmanager 0.21."""


class AlertmanagerBody(Body):
    """A notification, webhook version 4."""

    version: Literal["4"]
    alerts: tuple[Alert, ...] = Field(max_length=ITEMS_MAX)

    def told(self) -> Iterator[Told]:
        """One item an alert."""
        for alert in self.alerts:
            thread = (alert.fingerprint,) if alert.fingerprint else _sorted(alert.labels)
            yield Told(
                source="alertmanager",
                name=alert.labels.get("alertname", ""),
                state=alert.status,
                fields=flat({"labels": alert.labels}),
                detail=alert.annotations.get("summary") or alert.annotations.get("description", ""),
                thread=thread,
                said=(alert.status, alert.starts_at.isoformat()),
            )


class HealthEvent(Body):
    """NVSentinel's HealthEvent, in its JSON names."""

    agent: Words = ""
    component_class: Words = Field(default="", alias="componentClass")
    check_name: Short = Field(alias="checkName")
    is_fatal: bool = Field(default=False, alias="isFatal")
    is_healthy: bool = Field(alias="isHealthy")
    message: Words = ""
    recommended_action: str | int = Field(default="", alias="recommendedAction")
    error_code: tuple[Annotated[str, Field(max_length=64)], ...] = Field(default=(), alias="errorCode", max_length=64)
    entities: tuple[Entity, ...] = Field(default=(), alias="entitiesImpacted", max_length=256)
    generated_at: AwareDatetime = Field(alias="generatedTimestamp")
    node_name: Short = Field(alias="nodeName")
    strategy: str = Field(default="", alias="processingStrategy", max_length=64)

    def told(self) -> Iterator[Told]:
        """One item an error code; one, when there is none."""
        entities = {entity.kind: entity.value for entity in self.entities}
        for code in self.error_code or ("",):
            fields = {
                "nodeName": self.node_name,
                "errorCode": code,
                "entities": entities,
                "processingStrategy": self.strategy,
                "agent": self.agent,
                "isFatal": str(self.is_fatal).lower(),
                "recommendedAction": str(self.recommended_action),
                "generatedTimestamp": self.generated_at.isoformat(),
            }
            yield Told(
                source="nvsentinel",
                name=self.check_name,
                state="healthy" if self.is_healthy else "unhealthy",
                fields=flat(fields),
                detail=self.message,
                thread=(self.node_name, self.check_name, code, *_sorted(entities)),
                said=(str(self.is_healthy), self.generated_at.isoformat()),
            )


class Entity(Body):
    """What a HealthEvent is about."""

    kind: Short = Field(alias="entityType")
    value: Short = Field(alias="entityValue")


class NvsentinelBody(Body):
    """One event, or several in `events`."""

    events: tuple[HealthEvent, ...] = Field(max_length=ITEMS_MAX)

    @model_validator(mode="before")
    @classmethod
    def _one_or_many(cls, raw: Any) -> Any:
        return {"events": [raw]} if isinstance(raw, dict) and "events" not in raw else raw

    def told(self) -> Iterator[Told]:
        """All of them."""
        for event in self.events:
            yield from event.told()


class CloudEvent(Body):
    """One event in structured JSON. Data in base64 is not read."""

    specversion: Literal["1.0"]
    id: Short
    source: Annotated[str, Field(min_length=1, max_length=1_024)]
    type: Short
    subject: Annotated[str, Field(max_length=1_024)] = ""
    data: Any = None

    def told(self) -> Iterator[Told]:
        """One item; what NVSentinel exports says as much as its event does.

        Raises:
            ValidationError: NVSentinel's event is none.
        """
        if self.type.startswith("com.nvidia.nvsentinel.") and isinstance(self.data, dict):
            yield from HealthEvent.model_validate(self.data.get("healthEvent")).told()
            return
        data = self.data if isinstance(self.data, dict) else {}
        state = str(data.get("health", "bad"))
        named = (str(data.get(name, "")) for name in ("node_id", "check", "gpu_uuid"))
        yield Told(
            source="cloudevents",
            name=self.type,
            state=state,
            fields=flat({"subject": self.subject, "source": self.source, "data": data}),
            detail=str(data.get("detail", ""))[:8_192],
            thread=(self.source, self.type, self.subject, *named),
            # Source and id together are one event (CloudEvents 1.0.2, id).
            said=(self.source, self.id),
        )


class CloudEventsBody(Body):
    """One, or a batch."""

    events: tuple[CloudEvent, ...] = Field(max_length=ITEMS_MAX)

    @model_validator(mode="before")
    @classmethod
    def _one_or_many(cls, raw: Any) -> Any:
        return {"events": raw if isinstance(raw, list) else [raw]}

    def told(self) -> Iterator[Told]:
        """All of them."""
        for event in self.events:
            yield from event.told()


class NodeCondition(Body):
    """One condition of a node."""

    type: Short
    status: Literal["True", "False", "Unknown"]
    reason: Words = ""
    message: Words = ""
    changed_at: AwareDatetime | None = Field(default=None, alias="lastTransitionTime")


class NodeConditionsBody(Body):
    """Conditions of one node."""

    node_name: Short = Field(alias="nodeName")
    conditions: tuple[NodeCondition, ...] = Field(max_length=ITEMS_MAX)

    def told(self) -> Iterator[Told]:
        """One item a condition."""
        for each in self.conditions:
            changed = "" if each.changed_at is None else each.changed_at.isoformat()
            yield Told(
                source="node-problem-detector",
                name=each.type,
                state=each.status,
                fields=flat({"nodeName": self.node_name, "type": each.type, "reason": each.reason}),
                detail=each.message or each.reason,
                thread=(self.node_name, each.type),
                said=(each.status, each.reason, changed),
            )


def flat(tree: Mapping[str, Any]) -> dict[str, str]:
    """`{"a": {"b": 1}}` as `{"a.b": "1"}`: strings, numbers and booleans, bounded; lists are left out."""
    found: dict[str, str] = {}
    _flatten(tree, "", found, DEPTH_MAX)
    return found


def _flatten(tree: Mapping[str, Any], before: str, found: dict[str, str], depth: int) -> None:
    for name, value in tree.items():
        if len(found) >= FIELDS_MAX:
            return
        if isinstance(value, Mapping):
            if depth > 1:
                _flatten(value, f"{before}{name}.", found, depth - 1)
        elif isinstance(value, str | bool | int | float):
            found[f"{before}{name}"] = str(value)[:VALUE_MAX]


def _sorted(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in sorted(labels.items()))


HealthEvent.model_rebuild()
ALERTMANAGER = TypeAdapter(AlertmanagerBody)
CLOUDEVENTS = TypeAdapter(CloudEventsBody)
NVSENTINEL = TypeAdapter(NvsentinelBody)
NODE_CONDITIONS = TypeAdapter(NodeConditionsBody)
