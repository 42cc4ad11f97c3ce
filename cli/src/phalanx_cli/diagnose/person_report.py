"""A diagnosis for a person: the verdict first, then what to do, why, what speaks against it, and what was read.

Rich colours it on a terminal and not in a pipe. Texts of logs are made printable and are never read as markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from fault_attribution.finding import Finding, Role
from fault_attribution.judgement import Judgement
from fault_attribution.verdict_text import SpokenReason, VerdictText, action_words, culprit_words, verdict_text
from fault_contracts.faults import Attribution
from phalanx_cli.diagnose.evidence_lines import EvidenceIndex, EvidenceRow
from phalanx_cli.diagnose.reading import Reading
from phalanx_cli.diagnose.reading_notes import Oddity, ReadingNotes, Skip
from phalanx_cli.foreign_text import print_lines, printable

EVIDENCE_SHOWN = 4
"""Lines under one reason; JSON has all that the verdict keeps."""
REASONS_SHOWN = 8
ALTERNATIVES_SHOWN = 4
UNRECOGNISED_SHOWN = 5
LINE_CHARS = 240
_COLOURS = {
    Attribution.HARDWARE: "bold red",
    Attribution.DRIVER: "bold magenta",
    Attribution.PLATFORM: "bold yellow",
    Attribution.USER: "bold cyan",
    Attribution.UNKNOWN: "bold",
}


def person_report(reading: Reading, title: str = "") -> RenderableType:
    """All of it. `title` names the input where there are several verdicts."""
    judgement = reading.diagnosis.judgement
    told = verdict_text(judgement)
    parts: list[RenderableType] = []
    if title:
        parts.append(_plain(title, "bold underline"))
    index = EvidenceIndex(reading.diagnosis.findings)
    parts += [*_verdict(judgement, told), *_why(told, index), *_others(told)]
    parts += [*_unrecognised(reading.diagnosis.findings, index), *_read(reading.notes)]
    return Group(*parts)


def person_lines(reading: Reading, title: str = "") -> None:
    """Write it to stdout: in colours and as wide as the terminal, or plain and unwrapped into a pipe."""
    console = Console(markup=False, highlight=False, emoji=False)
    report = person_report(reading, title)
    if console.is_terminal:
        console.print(report)
        return
    with console.capture() as plain:
        console.print(report, soft_wrap=True)
    print_lines(line.rstrip() for line in plain.get().splitlines())


def finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """One line for each finding, for --list-findings."""
    for each in findings:
        who = " ".join(
            part
            for part in (
                each.node,
                "" if each.rank is None else f"rank {each.rank}",
                each.device,
                f"pid {each.process}" if each.process else "",
            )
            if part
        )
        where = f"{each.stream}:{each.number}" if each.number else "derived"
        times = f" ({each.count} times)" if each.count > 1 else ""
        told = f"{where}  {each.kind} [{each.role}]{times} {who}: {each.text.strip()[:LINE_CHARS]}"
        yield printable(" ".join(told.split(" ")))


def _verdict(judgement: Judgement, told: VerdictText) -> Iterator[RenderableType]:
    yield _labelled("Verdict", told.headline, _COLOURS[judgement.attribution])
    culprit = culprit_words(judgement.culprit, judgement.attribution)
    if culprit and judgement.attribution is not Attribution.UNKNOWN:
        yield _labelled("Culprit", culprit, "bold")
    yield _labelled("Do", f"{judgement.action}: {action_words(judgement.action)}", "bold")
    yield Text()
    yield _plain(told.summary)


def _why(told: VerdictText, index: EvidenceIndex) -> Iterator[RenderableType]:
    if told.reasons:
        yield _heading("Why")
        yield from _reasons(told.reasons, "for it", index)
    if told.against:
        yield _heading("What speaks against it")
        yield from _reasons(told.against, "against it", index)


def _reasons(reasons: Sequence[SpokenReason], side: str, index: EvidenceIndex) -> Iterator[RenderableType]:
    for each in reasons[:REASONS_SHOWN]:
        weight = f"[{each.strength} {side}, {each.weight:+.1f}, {printable(each.rule_id)}]"
        yield Text.assemble("  - ", printable(each.sentence), "  ", (weight, "dim"))
        rows = index.rows(each.findings)
        for row in rows[:EVIDENCE_SHOWN]:
            yield _evidence(row)
        if len(rows) > EVIDENCE_SHOWN:
            yield _plain(f"      and {len(rows) - EVIDENCE_SHOWN} more", "dim")
    if len(reasons) > REASONS_SHOWN:
        yield _plain(f"  and {len(reasons) - REASONS_SHOWN} more", "dim")


def _evidence(row: EvidenceRow) -> RenderableType:
    where = f"{row.file}:{row.number}" if row.number else "derived"
    text = row.text if len(row.text) <= LINE_CHARS else row.text[:LINE_CHARS] + "..."
    times = f"  ({row.count} times)" if row.count > 1 else ""
    return Text.assemble(
        "      ", (printable(where), "blue"), "  ", (printable(text.strip()), "reverse"), (times, "dim")
    )


def _others(told: VerdictText) -> Iterator[RenderableType]:
    if told.alternatives:
        yield _heading("Other explanations")
        for each in told.alternatives[:ALTERNATIVES_SHOWN]:
            yield _plain(f"  - {each.attribution}: {each.cause}, {each.confidence:.0%}: {each.why}")
    if told.decide:
        yield _heading("What would change the verdict")
        for text in told.decide:
            yield _plain(f"  - {text}")


def _unrecognised(findings: Sequence[Finding], index: EvidenceIndex) -> Iterator[RenderableType]:
    odd = sorted((each for each in findings if each.role is Role.UNRECOGNISED), key=lambda each: -each.count)
    if not odd:
        return
    yield _heading(f"Error lines that no rule knows ({sum(each.count for each in odd)})")
    for row in index.rows(odd[:UNRECOGNISED_SHOWN]):
        yield _evidence(row)


def _read(notes: ReadingNotes) -> Iterator[RenderableType]:
    yield _heading("What was read")
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(notes.kinds.items(), key=lambda one: -one[1]))
    yield _plain(f"  {_number(notes.files, 'file')}, {_number(notes.lines, 'line')}" + (f": {kinds}" if kinds else ""))
    for line in [*skipped_lines(notes), *odd_lines(notes)]:
        yield _plain(f"  {line}")


def skipped_lines(notes: ReadingNotes) -> list[str]:
    """What was not read, by reason."""
    return [f"skipped {_counted(count, why, notes)}" for why, count in notes.skipped.items()]


def odd_lines(notes: ReadingNotes) -> list[str]:
    """What was read and is odd."""
    return [f"noted {_counted(count, what, notes)}" for what, count in notes.odd.items()]


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _counted(count: int, why: Skip | Oddity, notes: ReadingNotes) -> str:
    names = notes.names.get(why, [])
    return f"{count}: {why}: {', '.join(names)}{', ...' if count > len(names) and len(names) > 1 else ''}"


def _heading(text: str) -> RenderableType:
    return Text(f"\n{text}", "bold")


def _labelled(label: str, text: str, style: str) -> RenderableType:
    return Text.assemble((f"{label:<9}", "dim"), (printable(text), style))


def _plain(text: str, style: str = "") -> Text:
    return Text(printable(text), style)
