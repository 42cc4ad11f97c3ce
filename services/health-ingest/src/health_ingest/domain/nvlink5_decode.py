"""Decodes the words of Xids 144 to 150 (NVLink 5): which row of the table a line has, for the driver that wrote it.

intrInfo changed its layout with driver R575 (v1 before, v2 from it on). Where the driver is not known the rows of both
layouts are shown, and nothing is decided by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from health_ingest.domain.ruling import Weight
from health_ingest.domain.xid_rows import Judgement, Nvlink5Rule

V2_SINCE = 575
"""Branch of the driver; NVIDIA's Xid catalog, sheet of NVLink 5 errors (NVSentinel#748: decoding needs the version)."""
_GRAVITY = {Weight.RECORD: 0, Weight.PROBLEM: 1, Weight.FAILURE: 2}


class Layout(StrEnum):
    """Of intrInfo."""

    V1 = "v1"
    V2 = "v2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A row that a line has, and what it says of it."""

    rule: Nvlink5Rule
    judgement: Judgement
    layout: Layout


def layout_of(driver_version: str) -> Layout | None:
    """None: the version is not known."""
    branch = driver_version.partition(".")[0]
    if not (branch.isascii() and branch.isdigit()):
        return None
    return Layout.V2 if int(branch) >= V2_SINCE else Layout.V1


def decode(code: int, attributes: Mapping[str, str], rules: Sequence[Nvlink5Rule], layout: Layout) -> Decoded | None:
    """The gravest row of the line, or None: it has none, or its words cannot be read."""
    words = _word(attributes.get("intr_info", "")), _word(attributes.get("error_status", ""))
    if words[0] is None or words[1] is None:
        return None
    found = list(_rows(code, attributes.get("unit", ""), words[0], words[1], rules, layout))
    return max(found, key=lambda decoded: _GRAVITY[decoded.judgement.weight], default=None)


def _rows(
    code: int, unit: str, intr_info: int, status: int, rules: Sequence[Nvlink5Rule], layout: Layout
) -> Iterator[Decoded]:
    for rule in rules:
        if rule.code != code or not _is_unit(unit, rule) or not _has_status(status, rule):
            continue
        narrow = rule.alternative_v1 if layout is Layout.V1 else rule.alternative_v2
        wide = rule.v1 if layout is Layout.V1 else rule.v2
        if rule.alternative is not None and narrow is not None and narrow.matches(intr_info):
            yield Decoded(rule=rule, judgement=rule.alternative, layout=layout)
        elif wide.matches(intr_info):
            yield Decoded(rule=rule, judgement=rule.judgement, layout=layout)


def _is_unit(unit: str, rule: Nvlink5Rule) -> bool:
    """A unit is called differently in the two layouts; the table's `MSE Degraded` is unit MSE in a bad state."""
    return any(unit in (name, name.partition(" ")[0]) for name in rule.units)


def _has_status(status: int, rule: Nvlink5Rule) -> bool:
    if not rule.statuses:
        return True
    return any(status & value for value in rule.statuses) if rule.one_bit else status in rule.statuses


def _word(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None
