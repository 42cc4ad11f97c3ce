"""All inputs to findings: each is recognised, read as what it is, and what its name and its lines tell is joined."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fault_attribution.evidence_line import EvidenceLine, Source
from fault_attribution.finding import Finding
from fault_attribution.matching.signature_matcher import SignatureMatcher
from fault_attribution.matching.stream_scan import StreamScan, read_lines
from phalanx_cli.diagnose import translations
from phalanx_cli.diagnose.archives import DAMAGED, TooLarge
from phalanx_cli.diagnose.byte_source import HEAD_BYTES, ByteSource
from phalanx_cli.diagnose.encodings import UTF8, chunks, encoding_of
from phalanx_cli.diagnose.error_file import error_file_lines
from phalanx_cli.diagnose.incident_file import incident_lines
from phalanx_cli.diagnose.input_files import sources
from phalanx_cli.diagnose.kubernetes_objects import object_lines
from phalanx_cli.diagnose.launch_report import LaunchReport
from phalanx_cli.diagnose.line_facts import LineReader, Origin
from phalanx_cli.diagnose.path_hints import PathHints, path_hints
from phalanx_cli.diagnose.reading_notes import Oddity, ReadingNotes, Skip
from phalanx_cli.diagnose.recognition import InputKind, Recognised, recognise
from phalanx_cli.diagnose.stream_facts import StreamFacts
from phalanx_cli.diagnose.yaml_nodes import DocumentRefused, read_whole

DOCUMENTS = frozenset({InputKind.INCIDENT, InputKind.ERROR_FILE, InputKind.KUBERNETES_OBJECTS})
_LINE_BY_LINE: dict[InputKind, Callable[[bytes], bytes]] = {
    InputKind.JOURNAL_JSON: translations.journal_line,
    InputKind.CONTAINER_JSON: translations.container_line,
}
_WHOLE_STREAM: dict[InputKind, Callable[[Iterable[bytes]], Iterator[bytes]]] = {
    InputKind.NVSMI_QUERY: translations.nvsmi_query,
    InputKind.NVSMI_TABLE: translations.nvsmi_table,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a person said about the inputs, over what they look like.

    Attributes:
        year: of stamps without one.
    """

    year: int
    source: Source | None = None
    node: str = ""
    rank: int | None = None

    def origin(self, hints: PathHints, source: Source, kind: InputKind) -> Origin:
        """What is known of a stream before its first line."""
        fixed = {"source"} if self.source is not None else set()
        fixed |= {"node"} if self.node else set()
        fixed |= {"rank"} if self.rank is not None else set()
        return Origin(
            source=self.source if self.source is not None else source,
            node=self.node or hints.node,
            rank=self.rank if self.rank is not None else hints.rank,
            local_rank=hints.local_rank,
            fixed=frozenset(fixed),
            task_labels=kind is InputKind.SRUN,
        )


class EvidenceReader:
    """Reads inputs one after the other and keeps what they say."""

    def __init__(self, matcher: SignatureMatcher, notes: ReadingNotes, choice: Choice) -> None:
        self._matcher = matcher
        self._notes = notes
        self._choice = choice
        self._facts = StreamFacts(notes)
        self._contents: set[tuple[object, ...]] = set()
        self._findings: list[Finding] = []

    def read(self, paths: list[str]) -> None:
        """Everything below the PATHs; what cannot be read is noted."""
        for source in sources(paths, self._notes):
            try:
                self._one(source)
            except TooLarge as error:
                self._notes.skip(Skip.BOMB, source.name, str(error))
            except DAMAGED as error:
                self._notes.skip(Skip.TRUNCATED, source.name, str(error))

    def findings(self) -> list[Finding]:
        """Of all inputs so far, with ranks and times that fit together."""
        return self._facts.joined(self._findings)

    def _one(self, source: ByteSource) -> None:
        head = source.head()
        if not head:
            self._notes.skip(Skip.EMPTY, source.name)
            return
        encoding = encoding_of(head)
        if encoding is None:
            self._notes.skip(Skip.BINARY, source.name)
            return
        hints = path_hints(source.place)
        if self._is_copy(source, head, hints):
            self._notes.skip(Skip.SAME_CONTENT, source.name)
            return
        text = head.decode(encoding or "utf-8", errors="replace").removeprefix("\ufeff")
        if encoding != UTF8 or "\ufffd" in text[: HEAD_BYTES // 2]:
            self._notes.note(Oddity.DECODED, source.name)
        of_rank = hints.rank is not None or hints.local_rank is not None
        seen = recognise(text, hints.source, of_rank=of_rank)
        self._notes.recognised(seen.kind)
        self._notes.files += 1
        origin = self._choice.origin(hints, seen.source, seen.kind)
        if seen.kind in DOCUMENTS:
            self._document(source, encoding, seen, origin, hints)
        else:
            self._stream(source.name, chunks(source, encoding), seen.kind, origin, hints)

    def _document(self, source: ByteSource, encoding: str, seen: Recognised, origin: Origin, hints: PathHints) -> None:
        held = read_whole(source, encoding)
        if held.too_large:
            self._notes.skip(Skip.MALFORMED, source.name, "too large for a document")
            self._stream(source.name, held.parts(), InputKind.PLAIN, origin, hints)
            return
        data = held.data
        try:
            lines = list(self._document_lines(data, seen.kind, source.name, origin))
        except DocumentRefused as error:
            self._notes.skip(Skip.MALFORMED, source.name, str(error))
            self._stream(source.name, [data], InputKind.PLAIN, origin, hints)
            return
        self._notes.lines += len(lines)
        if seen.kind is InputKind.INCIDENT:
            self._facts.offsets(source.name)
        self._facts.local(source.name, hints)
        self._findings += read_lines(self._matcher, [self._chosen(line) for line in lines])

    def _document_lines(self, data: bytes, kind: InputKind, name: str, origin: Origin) -> Iterator[EvidenceLine]:
        if kind is InputKind.INCIDENT:
            return incident_lines(data, name)
        if kind is InputKind.ERROR_FILE:
            return error_file_lines(data, name, origin)
        return object_lines(data, name)

    def _chosen(self, line: EvidenceLine) -> EvidenceLine:
        choice = self._choice
        if choice.source is None and not choice.node and choice.rank is None:
            return line
        return EvidenceLine(
            text=line.text,
            source=line.source if choice.source is None else choice.source,
            node=choice.node or line.node,
            rank=line.rank if choice.rank is None else choice.rank,
            at_s=line.at_s,
            stream=line.stream,
            number=line.number,
        )

    def _stream(self, name: str, parts: Iterable[bytes], kind: InputKind, origin: Origin, hints: PathHints) -> None:
        reader = LineReader(origin=origin, year=self._choice.year)
        scan = StreamScan(self._matcher, stream=name, facts=origin.facts(), read=reader)
        report = LaunchReport()
        try:
            for part in _translated(parts, kind):
                scan.feed(part)
                report.feed(part)
        finally:  # a truncated archive and Ctrl-C leave what was read before
            self._findings += scan.end()
            self._notes.lines += scan.lines
            if scan.cut_lines:
                self._notes.note(Oddity.LONG_LINE, name, scan.cut_lines)
            if scan.dropped:
                self._notes.note(Oddity.TOO_MANY_FINDINGS, name, scan.dropped)
            self._facts.stream(name, reader, hints, report.blocks)
            if kind in _WHOLE_STREAM:
                self._facts.readings(name)

    def _is_copy(self, source: ByteSource, head: bytes, hints: PathHints) -> bool:
        """The same text twice under one name. Ranks that died of one error may well have equal logs."""
        if len(head) >= HEAD_BYTES:
            return False  # only its beginning is known; two attempts often begin alike
        place = source.place.replace("!", "/").split("/")
        key = (hashlib.sha256(head).digest(), place[-1], hints.rank, hints.local_rank, hints.node, hints.launch, tuple(
            part for part in place if part.startswith("attempt_")
        ))  # fmt: skip
        if key in self._contents:
            return True
        self._contents.add(key)
        return False


def _translated(parts: Iterable[bytes], kind: InputKind) -> Iterator[bytes]:
    if kind in _LINE_BY_LINE:
        rewrite = _LINE_BY_LINE[kind]
        for line in translations.lines_of(parts):
            yield rewrite(line) + b"\n"
    elif kind in _WHOLE_STREAM:
        for line in _WHOLE_STREAM[kind](translations.lines_of(parts)):
            yield line + b"\n"
    else:
        yield from parts
