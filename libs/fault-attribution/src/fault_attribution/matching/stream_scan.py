"""Findings of streams, in bounded memory: bytes as they come, or lines that somebody else has cut.

A file of any size, a line of 100 MB, NULs, no newline at all: what is held is one unfinished line of at most
LINE_BYTES_MAX and a bounded number of findings. Of a longer line the first LINE_BYTES_MAX are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fault_attribution.evidence_line import EvidenceLine
from fault_attribution.finding import Finding, Role
from fault_attribution.matching.finding_fold import FindingFold
from fault_attribution.matching.hit import Hit, LineFacts
from fault_attribution.matching.pattern import LINE_BYTES_MAX, valid_utf8
from fault_attribution.matching.sampling import LAST_LINES_MAX, Sampling
from fault_attribution.matching.signature_matcher import SignatureMatcher, bytes_of, facts_of

FRAME_LINES_MAX = 12
"""An exception's line comes this soon behind its innermost frame: source line, carets, and lines of other ranks."""
FRAMES_MAX = 1_024
"""Ranks whose last frame is remembered in one stream."""
FIRST_PART_BYTES = 32 * 1024
PART_BYTES = 256 * 1024
"""A block is looked at in parts, small ones at first: what is learned from one makes the next quicker."""
STREAMS_MAX = 4_096
"""Of one call of read_lines; lines of further ones share a fold."""

FactsReader = Callable[[bytes, LineFacts], LineFacts]
"""Reads rank, node, time from a line itself (`[rank3]: ...`), given what is known of its stream."""


class LineScan:
    """What signatures find on the lines of one stream that may concern them."""

    def __init__(self, matcher: SignatureMatcher, stream: str) -> None:
        self._matcher = matcher
        self._fold = FindingFold(stream)
        self._frames: dict[tuple[str, int | None], tuple[Hit, bytes, LineFacts, int]] = {}
        self._writers: dict[int, set[tuple[str, int | None]]] = {}
        """Who writes the lines of each sampled signature."""
        self.sampling = Sampling(matcher)

    @property
    def dropped(self) -> int:
        """Findings that had no room."""
        return self._fold.dropped

    def findings(self) -> list[Finding]:
        """Of what was read so far, in the order of the stream."""
        return self._fold.findings()

    def take(self, line: bytes, bits: int, facts: LineFacts, number: int, read: FactsReader | None = None) -> None:
        """Look at a line; `read` is called only when something was found on it."""
        matcher = self._matcher
        hits = matcher.hits(line, bits, facts.source)
        if hits:
            if read is not None:
                told = read(line, facts)
                if told.source is not facts.source:
                    hits = matcher.hits(line, bits, told.source)
                facts = told
            for hit in hits:
                self._fold.add(hit, line, facts, number)
            if self._frames and any(_may_be_raised(hit) for hit in hits):
                self._blame_frame(facts, number)
            return
        looks = matcher.unrecognised(line, bits)
        if looks is not None and self.sampling.bits and matcher.hits(line, matcher.bits(line), facts.source):
            return
        frame = None if looks is not None else matcher.frame(line, bits)
        if looks is None and frame is None:
            return
        facts = facts if read is None else read(line, facts)
        if looks is not None:
            self._fold.add_unrecognised(looks, line, facts, number)
            if self._frames:
                self._blame_frame(facts, number)
        elif frame is not None and len(self._frames) < FRAMES_MAX:
            self._frames[facts.node, facts.rank] = (frame, line, facts, number)

    def sample(self, text: bytes, data: bytes, number: int, facts: LineFacts, read: FactsReader | None) -> None:
        """Look at the last lines of a block for signatures that are sampled; `number` is that of the line behind it."""
        matcher = self._matcher
        open_bits = [self.sampling.bits]
        seen: dict[int, tuple[set[tuple[str, int | None]], list[int]]] = {}
        at = len(data)
        for start, line, bits in self.sampling.last_lines(text, open_bits):
            number -= data.count(b"\n", start, at)
            at = start
            told = facts if read is None else read(line, facts)
            for hit in matcher.hits(line, bits, told.source):
                sampled = hit.compiled.number
                known = self._writers.setdefault(sampled, self._fold.writers(sampled))
                missing, left = seen.setdefault(sampled, (set(known), [LAST_LINES_MAX + 4 * len(known)]))
                writer = (told.node, told.rank)
                if writer in missing or writer not in known:
                    self._fold.add(hit, line, told, number)
                    known.add(writer)
                    missing.discard(writer)
                left[0] -= 1
                if not missing or not left[0]:
                    open_bits[0] &= ~(1 << sampled)

    def grow_sampling(self) -> None:
        """At the end of a block: sample what matches all the time."""
        self.sampling.grow(self._fold.matches)

    def _blame_frame(self, facts: LineFacts, number: int) -> None:
        """The frame in front of an error is where it came from."""
        kept = self._frames.pop((facts.node, facts.rank), None)
        if kept is not None and number - kept[3] <= FRAME_LINES_MAX:
            self._fold.add(*kept)


class StreamScan:
    """One stream, fed in pieces that may end anywhere."""

    def __init__(
        self,
        matcher: SignatureMatcher,
        *,
        stream: str,
        facts: LineFacts | None = None,
        read: FactsReader | None = None,
    ) -> None:
        self._matcher = matcher
        self._scan = LineScan(matcher, stream)
        self._facts = facts or LineFacts()
        self._read = read
        self._rest = b""
        self._number = 1
        self._part = FIRST_PART_BYTES
        self.cut_lines = 0
        """Lines of which only the first LINE_BYTES_MAX were looked at."""
        self._in_tail = False
        """Inside the part of a line that is not looked at."""

    @property
    def lines(self) -> int:
        """Line ends so far."""
        return self._number - 1

    @property
    def dropped(self) -> int:
        """Findings that had no room."""
        return self._scan.dropped

    def feed(self, data: bytes) -> None:
        """Look at what came. Pieces of 64 KiB to 4 MiB are read fastest."""
        # A carriage return ends a piece of text too: progress bars rewrite theirs, and an error is printed behind them.
        # It does not count as a line: editors and people number by newlines.
        text = data.replace(b"\r", b"\n") if b"\r" in data else data
        begin = 0
        if self._rest or self._in_tail:
            begin = text.find(b"\n") + 1
            if begin == 0:
                self._hold(text)
                return
            self._hold(text[: begin - 1])
            self._finish_line()
            self._number += data.count(b"\n", 0, begin)
        last = text.rfind(b"\n") + 1
        if last > begin:
            whole = (text, data) if begin == 0 and last == len(text) else (text[begin:last], data[begin:last])
            self._look(*whole)
        self._hold(text[last:])

    def end(self) -> list[Finding]:
        """Look at a last line without a newline, and give all findings."""
        if self._rest:
            self._finish_line()
        return self._scan.findings()

    def findings(self) -> list[Finding]:
        """Of the whole lines so far."""
        return self._scan.findings()

    def _hold(self, text: bytes) -> None:
        """Keep what fits of an unfinished line."""
        if self._in_tail or not text:
            return
        self._rest += text[: LINE_BYTES_MAX + 1 - len(self._rest)]
        if len(self._rest) > LINE_BYTES_MAX:
            self._in_tail = True

    def _finish_line(self) -> None:
        line = self._rest[:LINE_BYTES_MAX]
        self.cut_lines += self._in_tail
        self._rest = b""
        self._in_tail = False
        if bits := self._matcher.bits(line):
            self._scan.take(valid_utf8(line), bits, self._facts, self._number, self._read)

    def _look(self, text: bytes, data: bytes) -> None:
        """Whole lines; `data` is the same with its carriage returns, for the numbers of lines."""
        begin, size = 0, len(text)
        while begin < size:
            end = size if size - begin <= self._part else text.find(b"\n", begin + self._part) + 1 or size
            self._look_at_part(text[begin:end], data[begin:end])
            self._part = min(2 * self._part, PART_BYTES)
            begin = end

    def _look_at_part(self, text: bytes, data: bytes) -> None:
        take, facts, read = self._scan.take, self._facts, self._read
        passes, sampling = self._matcher.passes, self._scan.sampling
        tried: dict[int, int] = {}
        number, at = self._number, 0
        for start, end, bits in passes.best(sampling.bits).lines(text):
            tried[bits] = tried.get(bits, 0) + 1
            number += data.count(b"\n", at, start)
            at = start
            take(valid_utf8(text[start:end]), bits, facts, number, read)
            if end - start == LINE_BYTES_MAX and text[end : end + 1] != b"\n":
                self.cut_lines += 1
        self._number = number + data.count(b"\n", at)
        if sampling.bits:
            self._scan.sample(text, data, self._number, facts, read)
        passes.learn(tried, data.count(b"\n"))
        self._scan.grow_sampling()


def read_lines(matcher: SignatureMatcher, lines: Iterable[EvidenceLine]) -> list[Finding]:
    """Findings of lines that somebody else has cut, each stream folded by itself."""
    scans: dict[str, LineScan] = {}
    for line in lines:
        text = bytes_of(line)
        if bits := matcher.bits(text):
            name = line.stream if line.stream in scans or len(scans) < STREAMS_MAX else ""
            scan = scans.get(name)
            if scan is None:
                scan = scans[name] = LineScan(matcher, name)
            scan.take(text, bits, facts_of(line), line.number)
    return [finding for scan in scans.values() for finding in scan.findings()]


def _may_be_raised(hit: Hit) -> bool:
    return hit.compiled.signature.role in (Role.CAUSE, Role.SYMPTOM, Role.VICTIM)
