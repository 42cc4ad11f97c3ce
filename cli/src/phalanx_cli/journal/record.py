"""The journal of one job as runs and incidents. Nothing is invented: what is missing is named. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TypeVar

from fault_contracts.faults import FaultClassified
from fault_contracts.payload import Payload
from fault_contracts.recovery import (
    AttemptOpened,
    GangFormed,
    IncidentClosed,
    IncidentOpened,
    JobEnded,
    JournalEntry,
    RecoveryPlanned,
    TrainingResumed,
)

P = TypeVar("P", bound=Payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message as the stream keeps it. `at`: when it was published."""

    payload: Payload
    message_id: str
    at: datetime
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A message of the job that could not be read."""

    sequence: int
    subject: str
    problem: str


@dataclass(slots=True, kw_only=True)
class IncidentTale:
    """All that the journal has of one incident.

    Attributes:
        verdicts: by the judge, on the generations that broke in it; FAULTS keeps them less long than the journal.
        holes: entries that are missing after one of its own, so that they may be its own.
    """

    incident_id: str
    entries: list[Entry] = field(default_factory=list)
    verdicts: list[FaultClassified] = field(default_factory=list)
    holes: list[str] = field(default_factory=list)

    def all(self, model: type[P]) -> list[P]:
        """Its entries of one kind, oldest first."""
        return [entry.payload for entry in self.entries if isinstance(entry.payload, model)]

    def last(self, model: type[P]) -> P | None:
        """Its newest entry of one kind."""
        found = self.all(model)
        return found[-1] if found else None

    @property
    def opened(self) -> IncidentOpened | None:
        """None: its beginning is not in the record."""
        return self.last(IncidentOpened)

    @property
    def closed(self) -> IncidentClosed | None:
        """None: it goes on, or its end is not in the record."""
        return self.last(IncidentClosed)

    @property
    def begun_at(self) -> datetime:
        """When the fault was seen, as far as is known."""
        opened = self.opened
        return self.entries[0].at if opened is None else min(opened.fault_observed_at, opened.opened_at)

    @property
    def versions(self) -> set[int]:
        """Generations that broke in it."""
        first = {each.topology_version for each in self.all(IncidentOpened)}
        return first | {each.topology_version for each in self.all(AttemptOpened)}


@dataclass(slots=True, kw_only=True)
class RunTale:
    """One run of the job: from its gang to its end. A job_id may be used again after that.

    Attributes:
        others: entries that belong to no incident.
        holes: sentences: what is missing in the numbers of its entries.
        entries_newest: the largest number; 0: they are not numbered.
    """

    formed: GangFormed | None = None
    incidents: list[IncidentTale] = field(default_factory=list)
    others: list[Entry] = field(default_factory=list)
    ended: JobEnded | None = None
    holes: list[str] = field(default_factory=list)
    entries_newest: int = 0

    @property
    def begun_at(self) -> datetime | None:
        """When its gang was formed; None: that is not in the record."""
        return None if self.formed is None else self.formed.formed_at

    def incident(self, incident_id: str) -> IncidentTale:
        """The tale of an incident, begun if need be."""
        for tale in reversed(self.incidents):
            if tale.incident_id == incident_id:
                return tale
        self.incidents.append(IncidentTale(incident_id=incident_id))
        return self.incidents[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the journal has of a job, oldest run first."""

    runs: tuple[RunTale, ...] = ()
    unread: tuple[Unread, ...] = ()


def read_record(entries: Sequence[Entry], faults: Iterable[FaultClassified], unread: Iterable[Unread] = ()) -> Record:
    """Put the entries of one job together.

    They come in the order of the stream, which is nearly that of their numbers: what was decided at once is published
    side by side.
    """
    runs = [_run(part) for part in _runs(entries)]
    told = list(faults)
    for run in runs:
        for tale in run.incidents:
            tale.verdicts = _verdicts_of(tale, told)
    return Record(runs=tuple(runs), unread=tuple(unread))


def missing_at_end(record: Record, entries_known: int) -> str:
    """The job's record knows how many entries its newest run has; those that the stream does not have are named."""
    newest = record.runs[-1].entries_newest if record.runs else 0
    if entries_known <= newest:
        return ""
    return f"{_numbers(newest + 1, entries_known)} not in the journal (yet)"


def _number(entry: Entry) -> int:
    return entry.payload.entry if isinstance(entry.payload, JournalEntry) else 0


def _runs(entries: Sequence[Entry]) -> list[list[Entry]]:
    """A number that comes again, or after the job's end one before all others, begins a new run.

    One that fills a gap does not: the job's end may have been stored before what was decided with it.
    """
    runs: list[list[Entry]] = []
    seen: set[int] = set()
    over = False
    for entry in entries:
        number = _number(entry)
        again = number in seen if number else isinstance(entry.payload, GangFormed) and bool(runs)
        if not runs or again or (over and 0 < number < min(seen, default=0)):
            runs.append([])
            seen, over = set(), False
        runs[-1].append(entry)
        if number:
            seen.add(number)
        over = over or isinstance(entry.payload, JobEnded)
    return runs


def _run(entries: Sequence[Entry]) -> RunTale:
    run = RunTale()
    numbered = sorted(number for entry in entries if (number := _number(entry)))
    if numbered:
        run.entries_newest = numbered[-1]
        run.holes = _holes(numbered)
    # By number where there are any: the order in which it was decided.
    for entry in sorted(entries, key=lambda entry: (_number(entry) or 0, entry.sequence)) if numbered else entries:
        incident_id = getattr(entry.payload, "incident_id", "")
        match entry.payload:
            case GangFormed():
                run.formed = run.formed or entry.payload
            case JobEnded():
                run.ended = entry.payload
            case _:
                pass
        if incident_id:
            run.incident(incident_id).entries.append(entry)
        else:
            run.others.append(entry)
    _share_holes(run)
    return run


def _share_holes(run: RunTale) -> None:
    """A hole after an entry of an incident is told with the incident, unless that was over."""
    there = {_number(entry) for tale in run.incidents for entry in tale.entries}
    there |= {_number(entry) for entry in run.others}
    for tale in run.incidents:
        for entry in tale.entries:
            number = _number(entry)
            after = min((other for other in there if other > number), default=0)
            if number and after > number + 1 and not isinstance(entry.payload, IncidentClosed):
                tale.holes.append(f"{_numbers(number + 1, after - 1)} missing")


def _holes(numbered: Sequence[int]) -> list[str]:
    holes = (
        [] if numbered[0] == 1 else [f"{_numbers(1, numbered[0] - 1)} missing: the journal does not reach back so far"]
    )
    for before, after in pairwise(numbered):
        if after > before + 1:
            holes.append(f"{_numbers(before + 1, after - 1)} missing")
    return holes


def _numbers(first: int, last: int) -> str:
    return f"entry {first} is" if first == last else f"entries {first} to {last} are"


def _verdicts_of(tale: IncidentTale, faults: Iterable[FaultClassified]) -> list[FaultClassified]:
    versions = tale.versions
    acted_on = {plan.fault_id for plan in tale.all(RecoveryPlanned)}
    return [each for each in faults if each.topology_version in versions or each.fault_id in acted_on]


def stands_now(tale: IncidentTale) -> str:
    """Where an incident that is not closed has come to."""
    newest = tale.entries[-1].payload
    match newest:
        case TrainingResumed():
            return "training again"
        case RecoveryPlanned():
            return "starting again"
        case IncidentOpened() | AttemptOpened():
            return "stopping, or waiting for a verdict"
        case _:
            return "going on"
