"""A signature that matched a line, and the finding that this is."""

from __future__ import annotations

import re
from typing import NamedTuple

from fault_attribution.evidence_line import Source
from fault_attribution.finding import CAPTURE_MAX, TEXT_MAX, Finding, Role
from fault_attribution.matching.pattern import SpanFinder, Spans
from fault_attribution.signature import RuleState, Signature

OBSERVED = "observed:"
"""Begins the kind of what a signature found that is only observed: no term can name it, so no verdict rests on it."""
LEAD_CHARS = 80
"""What a finding shows in front of a match far behind in a long line."""
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class LineFacts(NamedTuple):
    """What is known of a line beside its text; see EvidenceLine."""

    source: Source = Source.UNKNOWN
    node: str = ""
    rank: int | None = None
    at_s: float | None = None


class CompiledSignature(NamedTuple):
    """A signature ready to run.

    Attributes:
        run: finds its pattern in bytes.
        groups: name and number of each named group.
        beats: bits of the signatures that it overrides; 0 for one that is only observed.
        number: its bit.
    """

    signature: Signature
    run: SpanFinder
    groups: tuple[tuple[str, int], ...]
    beats: int
    number: int


class Hit(NamedTuple):
    """Where a signature matched; `spans` are places in the line as it was looked at."""

    compiled: CompiledSignature
    spans: Spans

    def caught(self, line: bytes) -> tuple[bytes | None, ...]:
        """What each named group caught; equal ones are the same finding again."""
        spans = self.spans
        return tuple(
            [line[spans[number][0] : spans[number][1]] if spans[number][0] >= 0 else None
             for _, number in self.compiled.groups]
        )  # fmt: skip


def to_finding(hit: Hit, line: bytes, facts: LineFacts, stream: str, number: int) -> Finding:
    """The finding that a hit means."""
    signature = hit.compiled.signature
    captures = {
        name: caught.decode(errors="replace")[:CAPTURE_MAX]
        for (name, _), caught in zip(hit.compiled.groups, hit.caught(line), strict=True)
        if caught is not None
    }
    captures.update(signature.sets)
    kind = _PLACEHOLDER.sub(lambda name: captures.get(name[1], "").lower(), signature.kind)
    observed = signature.state is RuleState.OBSERVE
    rank = facts.rank
    if rank is None and captures.get("rank", "").isdigit() and len(captures["rank"]) < 10:
        rank = int(captures["rank"])
    return Finding(
        finding_id=f"{stream or facts.source}:{number}:{signature.signature_id}",
        kind=f"{OBSERVED}{kind}" if observed else kind,
        role=Role.CONTEXT if observed else signature.role,
        source=facts.source,
        node=facts.node or captures.get("node", ""),
        rank=rank,
        device=captures.get("device", ""),
        process=captures.get("pid", ""),
        captures=captures,
        text=shown(line, hit.spans[0][0]),
        rule_id=signature.signature_id,
        at_s=facts.at_s,
        stream=stream,
        number=number,
    )


def shown(line: bytes, at: int) -> str:
    """What of a line a person is shown: its beginning, or what is around a match far behind."""
    if len(line) <= TEXT_MAX:
        return line.decode(errors="replace")
    if at <= TEXT_MAX - LEAD_CHARS:
        return line[: 4 * TEXT_MAX].decode(errors="replace")[:TEXT_MAX]
    return ("…" + line[at - LEAD_CHARS : at + 4 * TEXT_MAX].decode(errors="replace"))[:TEXT_MAX]
