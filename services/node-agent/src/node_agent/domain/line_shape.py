"""A shape of line: a text that the line must have, a pattern, and what is made of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.kernel_finding import KernelFinding


@dataclass(frozen=True, slots=True)
class LineShape:
    """The pattern is anchored at the line's beginning and only run where the needle is in the line."""

    needle: str
    pattern: re.Pattern[str]
    reader: Callable[[re.Match[str]], KernelFinding | None]


def read_shapes(line: str, shapes: Sequence[LineShape]) -> KernelFinding | None:
    """The finding of the first shape that the line has."""
    for shape in shapes:
        if shape.needle in line and (found := shape.pattern.match(line)) is not None:
            return shape.reader(found)
    return None


def host_finding(
    check: str, sentence: str, *, device: str = "", location: str = "", pid: str = "", **more: str
) -> KernelFinding:
    """A finding about the machine; empty attributes are left out."""
    attributes = {name: value for name, value in more.items() if value}
    if pid:
        attributes["pid"] = pid
    return KernelFinding(
        component=Component.HOST, device=device, check=check, health=Health.BAD, sentence=sentence,
        attributes=attributes, pid=int(pid) if pid else None, location=location,
    )  # fmt: skip
