"""Lines to findings: every signature on every line, through RE2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import re2  # type: ignore[import-untyped]

from fault_attribution.evidence_line import EvidenceLine, Source
from fault_attribution.finding import CAPTURE_MAX, TEXT_MAX, Finding
from fault_attribution.signature import RuleState, Signature

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class SignatureRefused(ValueError):
    """A signature whose pattern cannot be used; the message says where it is written."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    signature: Signature
    pattern: Any


class SignatureMatcher:
    """All active signatures, ready to run."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self._compiled = [_compile(each) for each in signatures if each.state is not RuleState.OFF]

    def findings(self, line: EvidenceLine) -> list[Finding]:
        """What a line says; empty for most lines."""
        found: list[tuple[Signature, Finding]] = []
        for each in self._compiled:
            signature = each.signature
            if signature.sources and line.source is not Source.UNKNOWN and line.source not in signature.sources:
                continue
            matched = each.pattern.search(line.text)
            if matched is not None:
                found.append((signature, to_finding(signature, line, matched.groupdict())))
        overridden = {name for signature, _ in found for name in signature.overrides}
        return [finding for signature, finding in found if signature.signature_id not in overridden]

    def read(self, lines: Iterable[EvidenceLine]) -> Iterator[Finding]:
        """Findings of many lines, in their order."""
        for line in lines:
            yield from self.findings(line)


def to_finding(signature: Signature, line: EvidenceLine, groups: dict[str, str | None]) -> Finding:
    """The finding of a signature that matched."""
    captures = {name: value[:CAPTURE_MAX] for name, value in groups.items() if value is not None}
    captures.update(signature.sets)
    kind = _PLACEHOLDER.sub(lambda name: captures.get(name[1], "").lower(), signature.kind)
    rank = line.rank
    if rank is None and captures.get("rank", "").isdigit():
        rank = int(captures["rank"])
    return Finding(
        finding_id=f"{line.stream or line.source}:{line.number}:{signature.signature_id}",
        kind=kind,
        role=signature.role,
        source=line.source,
        node=line.node or captures.get("node", ""),
        rank=rank,
        device=captures.get("device", ""),
        process=captures.get("pid", ""),
        captures=captures,
        text=line.text[:TEXT_MAX],
        rule_id=signature.signature_id,
        at_s=line.at_s,
        stream=line.stream,
        number=line.number,
    )


def _compile(signature: Signature) -> _Compiled:
    options = re2.Options()
    options.log_errors = False
    try:
        return _Compiled(signature, re2.compile(signature.pattern, options))
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else error
        raise SignatureRefused(
            f"{signature.file}:{signature.line}: {signature.signature_id}: the pattern is not accepted: {reason}"
        ) from error
