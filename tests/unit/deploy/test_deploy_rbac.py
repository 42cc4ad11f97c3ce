"""The operator may what it calls, and nothing else: rules of the chart against the calls in its code."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from recovery_planner.application import kube_ports
from recovery_planner.application.kube_ports import EVENTS, PODS, TRAINING_JOBS, Kind

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "services" / "recovery-planner" / "src" / "recovery_planner"
CALL = re.compile(r"(?:\b|_)api\.(get|list|create|apply|patch|delete|evict|tell)\(\s*([A-Z_]+)?([^\n]*)")
MIRROR = re.compile(r"KubeMirror\([^\n]*?\b([A-Z][A-Z_]+),")
APPLIED = re.compile(r"\(([A-Z_]+), \w+_body\(")
"""Kinds that are applied in a loop over pairs of kind and body."""
Right = tuple[str, str, str]
"""Group, resource, verb."""


def right(kind: Kind, verb: str, subresource: str = "") -> Right:
    return kind.group, f"{kind.plural}/{subresource}" if subresource else kind.plural, verb


def called() -> Iterator[Right]:
    for path in sorted((SOURCES / "application").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        for verb, name, rest in CALL.findall(text):
            if verb == "evict":
                yield right(PODS, "create", "eviction")
            elif verb == "tell":
                yield right(EVENTS, "create")
            elif name:
                found = re.search(r'subresource="(\w+)"', rest)
                yield from of_call(getattr(kube_ports, name), verb, found.group(1) if found else "")
        for name in MIRROR.findall(text):
            yield right(getattr(kube_ports, name), "list")
            yield right(getattr(kube_ports, name), "watch")
        if "api.apply(kind" in text:
            for name in APPLIED.findall(text):
                yield from of_call(getattr(kube_ports, name), "apply", "")


def of_call(kind: Kind, verb: str, subresource: str) -> Iterator[Right]:
    if verb == "apply":
        yield right(kind, "patch", subresource)
        if not subresource:  # what is applied and is not there is created
            yield right(kind, "create")
    else:
        yield right(kind, verb, subresource)


def granted(name: str) -> Iterator[Right]:
    text = (ROOT / "deploy" / "kubernetes" / name / "phalanx.yaml").read_text(encoding="utf-8")
    bodies: list[dict[str, Any]] = [each for each in yaml.safe_load_all(text) if each]
    for body in bodies:
        if body["kind"] in ("Role", "ClusterRole"):
            for rule in body["rules"]:
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        yield from ((group, resource, verb) for verb in rule["verbs"])


@pytest.mark.parametrize("name", ["default", "ha"])
def test_the_operator_may_what_it_calls_and_nothing_else(name: str) -> None:
    # Its pods block the deletion of their job until they are gone; the server asks for this right then.
    wanted = {*called(), right(TRAINING_JOBS, "update", "finalizers")}
    assert set(granted(name)) == wanted
    assert not [each for each in wanted if "*" in each or "secrets" in each]
