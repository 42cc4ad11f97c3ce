"""The texts that come with a death, through the signatures: its exception and the last lines of its stderr.

An agent reads all output of its ranks by the same signatures and tells what it found. This reads what every death
brings along, so that a verdict needs no second message, and none at all where an agent's reading is switched off.
"""

from __future__ import annotations

from collections.abc import Callable

from fault_attribution.evidence_line import EvidenceLine, Source
from fault_attribution.finding import Role
from fault_attribution.matching.signature_matcher import SignatureMatcher
from fault_classifier.domain.evidence import Exit
from fault_classifier.domain.log_row import LogRow
from fault_contracts.health import ConditionRaised

LINES_MAX = 24
"""Of the last lines; what explains a death stands at the end."""
LINE_CHARS_MAX = 2_000
TOLD = frozenset({Role.CAUSE, Role.SYMPTOM, Role.VICTIM, Role.CONTEXT})
ORDINAL_BASE = 1_000_000
"""Behind everything that the agent's own reading may have found in the stream: these lines are its end."""


class TextReader:
    """Reads with the signatures that are in force."""

    def __init__(self, matcher: Callable[[], SignatureMatcher | None]) -> None:
        self._matcher = matcher

    def rows(self, raised: ConditionRaised, exit_: Exit) -> tuple[LogRow, ...]:
        """What signatures find in the words of a death."""
        worker, matcher = raised.worker, self._matcher()
        if worker is None or matcher is None:
            return ()
        lines = list(worker.stderr_tail[-LINES_MAX:])
        if worker.error is not None and worker.restart_asked is None:
            # The traceback's own last line, as the interpreter prints it.
            lines.append(f"{worker.error.type}: {worker.error.message}")
        found: dict[tuple[str, str], LogRow] = {}
        for number, text in enumerate(lines):
            if number and 'File "' in lines[number - 1] and '", line ' in lines[number - 1]:
                continue  # source that a traceback quotes: it says what would be raised, not that it was
            for row in _rows(matcher, exit_, text[:LINE_CHARS_MAX], ORDINAL_BASE + number):
                found.setdefault((row.signature_id, row.kind), row)
        return tuple(found.values())


def _rows(matcher: SignatureMatcher, exit_: Exit, text: str, ordinal: int) -> list[LogRow]:
    line = EvidenceLine(
        text=text.splitlines()[0] if text.strip() else "",
        source=Source.WORKER_STDERR,
        node=exit_.node_id,
        rank=exit_.rank,
        stream="stderr",
        number=ordinal,
    )
    return [
        LogRow(
            kind=each.kind,
            role=str(each.role),
            signature_id=each.rule_id,
            node_id=exit_.node_id,
            rank=exit_.rank,
            stream="stderr",
            ordinal=ordinal,
            process=str(exit_.status.pid),
            device=each.device,
            text=each.text,
            captures=dict(each.captures),
        )
        for each in matcher.findings(line)
        if each.role in TOLD
    ]
