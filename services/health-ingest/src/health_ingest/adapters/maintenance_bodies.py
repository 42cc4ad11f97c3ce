"""Clouds' maintenance and spot notices, each in the cloud's own words, in one small envelope that says which cloud.

aws:   events of `ec2 describe-instance-status` or of the instance metadata (`events/maintenance/scheduled`), and whole
       EventBridge events of detail-type `EC2 Spot Instance Interruption Warning` and
       `EC2 Instance Rebalance Recommendation` (Amazon EC2 User Guide).
gcp:   a key of the metadata server (`maintenance-event`, `preempted`) and its value (Compute Engine docs).
azure: events of the metadata service's Scheduled Events, one item a resource; Azure never says that one is over, so
       `Completed` and `Canceled` are words of ours for whoever forwards them (Azure docs, Scheduled Events).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, model_validator

from health_ingest.adapters.foreign_bodies import Body, Short, Words, flat
from health_ingest.application.take_foreign import ITEMS_MAX
from health_ingest.domain.foreign import Told

SOURCE = "maintenance"
_DETAIL_TYPES = {
    "EC2 Spot Instance Interruption Warning": "aws/spot-interruption",
    "EC2 Instance Rebalance Recommendation": "aws/rebalance-recommendation",
}


class AwsEvent(Body):
    """A scheduled event, or an EventBridge event that was brought into the same form."""

    event_id: Short
    code: Short
    state: Words = ""
    description: Words = ""
    instance_id: Words = ""
    not_before: Annotated[str, Field(max_length=64)] = ""

    @model_validator(mode="before")
    @classmethod
    def _one_form(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        if "detail-type" in raw:
            told = raw.get("detail")
            detail = told if isinstance(told, dict) else {}
            kind = _DETAIL_TYPES.get(str(raw["detail-type"]), str(raw["detail-type"]))
            return {
                "event_id": raw.get("id"),
                "code": kind.removeprefix("aws/"),
                "state": "active",
                "instance_id": detail.get("instance-id", ""),
                "description": str(detail.get("instance-action", "")),
            }
        return {
            "event_id": raw.get("EventId") or raw.get("InstanceEventId"),
            "code": raw.get("Code"),
            "state": raw.get("State", ""),
            "description": raw.get("Description", ""),
            "instance_id": raw.get("InstanceId", ""),
            "not_before": raw.get("NotBefore", ""),
        }

    @property
    def said_state(self) -> str:
        """The state; where it is not told, the description begins with it: `[Completed]`, `[Canceled]`."""
        if self.state:
            return self.state.lower()
        begins = self.description.lower()
        return next((state for state in ("completed", "canceled") if begins.startswith(f"[{state}]")), "active")


class AwsBody(Body):
    """Of one instance, or of several that the events name."""

    cloud: Literal["aws"]
    node_id: Words = ""
    events: tuple[AwsEvent, ...] = Field(max_length=ITEMS_MAX)

    def told(self) -> Iterator[Told]:
        """One item an event."""
        for event in self.events:
            fields = {
                "node_id": self.node_id,
                "instance_id": event.instance_id,
                "not_before": event.not_before,
                "event_id": event.event_id,
            }
            yield Told(
                source=SOURCE,
                name=f"aws/{event.code}",
                state=event.said_state,
                fields=flat(fields),
                detail=event.description,
                thread=("aws", event.event_id, event.instance_id),
                said=(event.said_state,),
            )


class GcpEvent(Body):
    """One key of the metadata server."""

    key: Literal["maintenance-event", "preempted"]
    value: Short
    seen_at: Annotated[str, Field(max_length=64)] = ""
    """When it changed, as the forwarder says: without it a second notice of the same kind is taken for a copy of the
    first for as long as the bus remembers ids (ten minutes)."""


class GcpBody(Body):
    """Of one VM."""

    cloud: Literal["gcp"]
    node_id: Short
    events: tuple[GcpEvent, ...] = Field(max_length=ITEMS_MAX)

    def told(self) -> Iterator[Told]:
        """One item a key."""
        for event in self.events:
            yield Told(
                source=SOURCE,
                name=f"gcp/{event.key}",
                state=event.value,
                fields={"node_id": self.node_id},
                detail=f"{event.key} = {event.value}",
                thread=("gcp", self.node_id, event.key),
                said=(event.value, event.seen_at),
            )


class AzureEvent(Body):
    """A scheduled event."""

    event_id: Short = Field(alias="EventId")
    event_type: Short = Field(alias="EventType")
    resources: tuple[Short, ...] = Field(default=(), alias="Resources", max_length=ITEMS_MAX)
    status: Short = Field(alias="EventStatus")
    not_before: Annotated[str, Field(max_length=64)] = Field(default="", alias="NotBefore")
    description: Words = Field(default="", alias="Description")


class AzureBody(Body):
    """The document of the metadata service; `node_id` when it is about one VM whose name differs from ours."""

    cloud: Literal["azure"]
    node_id: Words = ""
    events: tuple[AzureEvent, ...] = Field(alias="Events", max_length=ITEMS_MAX)

    def told(self) -> Iterator[Told]:
        """One item a VM."""
        for event in self.events:
            for resource in event.resources or ("",):
                fields = {"node_id": self.node_id, "resource": resource, "not_before": event.not_before}
                yield Told(
                    source=SOURCE,
                    name=f"azure/{event.event_type}",
                    state=event.status.lower(),
                    fields=flat(fields),
                    detail=event.description,
                    thread=("azure", event.event_id, resource),
                    said=(event.status,),
                )


MAINTENANCE: TypeAdapter[AwsBody | GcpBody | AzureBody] = TypeAdapter(
    Annotated[AwsBody | GcpBody | AzureBody, Field(discriminator="cloud")]
)
