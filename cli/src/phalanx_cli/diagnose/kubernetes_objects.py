"""Kubernetes objects as lines: events, and the conditions and container states of pods, nodes and jobs.

Each becomes what `kubectl get events` and `kubectl describe` would show in one line, so that one set of signatures
reads objects, tables and descriptions alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import yaml

from fault_attribution.evidence_line import EvidenceLine, Source
from phalanx_cli.diagnose.yaml_nodes import DocumentRefused, documents, items_at, line_of, text_at

OBJECTS_MAX = 100_000
_TIMES = ("lastTimestamp", "eventTime", "firstTimestamp", "deprecatedLastTimestamp")


def object_lines(data: bytes, stream: str) -> Iterator[EvidenceLine]:
    """Lines of all objects, lists opened.

    Raises:
        DocumentRefused: not YAML or JSON.
    """
    count = 0
    for root in documents(data):
        listed = list(items_at(root, "items")) or [root]
        for each in listed:
            count += 1
            if count > OBJECTS_MAX:
                raise DocumentRefused(f"more than {OBJECTS_MAX} objects")
            yield from _object(each, stream)


def _object(one: yaml.Node, stream: str) -> Iterator[EvidenceLine]:
    if text_at(one, "reason") and (text_at(one, "message") or text_at(one, "note")):
        yield _event(one, stream)
        return
    name = text_at(one, "metadata", "name")
    kind = (text_at(one, "kind") or "object").lower()
    node = name if kind == "node" else text_at(one, "spec", "nodeName")
    if phase := text_at(one, "status", "phase"):
        reason = text_at(one, "status", "reason")
        message = text_at(one, "status", "message")
        told = f"{kind} {name} Status: {phase}" + (f" Reason: {reason}" if reason else "")
        yield _line(told + (f" Message: {message}" if message else ""), one, node, None, stream)
    for condition in items_at(one, "status", "conditions"):
        told = f"{kind} {name} condition {text_at(condition, 'type')}={text_at(condition, 'status')}"
        if reason := text_at(condition, "reason"):
            told += f" reason={reason}"
        if message := text_at(condition, "message"):
            told += f": {message}"
        yield _line(told, condition, node, _time(text_at(condition, "lastTransitionTime")), stream)
    for list_name in ("initContainerStatuses", "containerStatuses"):
        for container in items_at(one, "status", list_name):
            yield from _container(container, kind, name, node, stream)


def _container(container: yaml.Node, kind: str, name: str, node: str, stream: str) -> Iterator[EvidenceLine]:
    for state in ("state", "lastState"):
        if code := text_at(container, state, "terminated", "exitCode"):
            reason = text_at(container, state, "terminated", "reason") or "-"
            told = f"{kind} {name} container {text_at(container, 'name')} terminated: exitCode={code} reason={reason}"
            if message := text_at(container, state, "terminated", "message"):
                told += f": {message}"
            at_s = _time(text_at(container, state, "terminated", "finishedAt"))
            yield _line(told, container, node, at_s, stream, Source.EXIT)
        if reason := text_at(container, state, "waiting", "reason"):
            told = f"{kind} {name} container {text_at(container, 'name')} waiting: {reason}"
            if message := text_at(container, state, "waiting", "message"):
                told += f": {message}"
            yield _line(told, container, node, None, stream)


def _event(one: yaml.Node, stream: str) -> EvidenceLine:
    about = "involvedObject" if text_at(one, "involvedObject", "kind") else "regarding"
    kind, name = text_at(one, about, "kind").lower(), text_at(one, about, "name")
    node = name if kind == "node" else text_at(one, "source", "host") or text_at(one, "deprecatedSource", "host")
    message = text_at(one, "message") or text_at(one, "note")
    told = f"{text_at(one, 'type') or 'Normal'} {text_at(one, 'reason')} {kind}/{name} {message}"
    times = (text_at(one, each) for each in _TIMES)
    return _line(told, one, node, _time(next((time for time in times if time), "")), stream)


def _line(
    text: str, node_of: yaml.Node, node: str, at_s: float | None, stream: str, source: Source = Source.K8S
) -> EvidenceLine:
    return EvidenceLine(
        text=" ".join(text.split()), source=source, node=node, at_s=at_s, stream=stream, number=line_of(node_of)
    )


def _time(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC).timestamp() if text else None
    except (ValueError, OverflowError):  # not a time
        return None
