"""Lines to findings: all signatures in one linear-time pass, through RE2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fault_attribution.evidence_line import EvidenceLine, Source
from fault_attribution.finding import Finding
from fault_attribution.matching.digit_blind import FOLDED, MEMO_LINE_BYTES_MAX, MEMO_LINES_MAX, is_digit_blind
from fault_attribution.matching.error_look import FRAME, LITERALS, LOOKS, counts_nothing
from fault_attribution.matching.hit import CompiledSignature, Hit, LineFacts, to_finding
from fault_attribution.matching.pattern import (
    LINE_BYTES_MAX,
    PatternRefused,
    compile_pattern,
    span_finder_on_demand,
    valid_utf8,
)
from fault_attribution.matching.pattern_syntax import in_re2_syntax, required_literals
from fault_attribution.matching.prefilter import LineSpan
from fault_attribution.matching.stream_pass import StreamPasses
from fault_attribution.signature import RuleState, Signature

LEARN_LINES = 2_000
"""Between two looks at which patterns are hot in small blocks."""


class SignatureRefused(ValueError):
    """A signature whose pattern cannot be used; the message says where it is written."""


class SignatureMatcher:
    """All signatures that are not off, ready to run. One is enough for any number of streams."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        used = [each for each in signatures if each.state is not RuleState.OFF]
        bits = {each.signature_id: 1 << n for n, each in enumerate(used)}
        self._compiled = [_compile(each, n, bits) for n, each in enumerate((*used, LOOKS, FRAME))]
        self._looks, self._frame = self._compiled[-2:]
        self._own_bits = (1 << len(used)) - 1
        self._literals = [required_literals(in_re2_syntax(each.pattern)) for each in used]
        self._literals += [LITERALS, required_literals(FRAME.pattern)]
        self.passes = StreamPasses([each.signature.pattern for each in self._compiled], self._literals)
        self._prefilter = self.passes.all
        self._numbers = {each.signature.signature_id: each.number for each in self._compiled}
        self._digit_blind = sum(1 << n for n, each in enumerate(used) if is_digit_blind(each.pattern))
        self._memo: dict[tuple[bytes, int], tuple[Hit, ...]] = {}
        self._tried: dict[int, int] = {}
        self._tried_lines = 0
        self._masks = {source: self._mask_of(source) for source in Source}

    def findings(self, line: EvidenceLine) -> list[Finding]:
        """What a line says; empty for most lines."""
        facts = facts_of(line)
        text = bytes_of(line)
        return [
            to_finding(hit, text, facts, line.stream, line.number)
            for hit in self.hits(text, self.bits(text), line.source)
        ]

    def lines(self, data: bytes) -> Iterator[LineSpan]:
        """Of a block of whole lines: those that may concern a signature, with the bits of the signatures.

        For readers of many small blocks; a StreamScan does more with large ones.
        """
        for span in self.passes.best(0).lines(data):
            self._tried[span[2]] = self._tried.get(span[2], 0) + 1
            yield span
        self._tried_lines += data.count(b"\n")
        if self._tried_lines >= LEARN_LINES:
            self.passes.learn(self._tried, self._tried_lines)
            self._tried, self._tried_lines = {}, 0

    def bits(self, line: bytes) -> int:
        """Of a single line: the bits of the signatures that may match."""
        return next((bits for _, _, bits in self._prefilter.lines(line)), 0)

    def compiled(self, number: int) -> CompiledSignature:
        """The signature of a bit."""
        return self._compiled[number]

    def hits(self, line: bytes, bits: int, source: Source) -> list[Hit]:
        """Which of the signatures behind bits match a line, without those that another one overrides.

        Args:
            line: valid UTF-8, without its line end, at most LINE_BYTES_MAX.
            bits: as the prefilter gives them.
            source: signatures for other sources are not tried; all are when it is unknown.
        """
        bits &= self._masks[source]
        if not bits:
            return []
        blind = bits & self._digit_blind
        if blind and len(line) <= MEMO_LINE_BYTES_MAX:
            found = [*self._remembered(line, blind), *self._run(line, bits & ~blind)]
            if blind != bits:
                found.sort(key=lambda hit: hit.compiled.number)
        else:
            found = self._run(line, bits)
        beaten = 0
        for hit in found:
            beaten |= hit.compiled.beats
        if beaten:
            return [hit for hit in found if not beaten >> hit.compiled.number & 1]
        return found

    def _remembered(self, line: bytes, bits: int) -> tuple[Hit, ...]:
        """Of patterns that take all digits alike: as for an earlier line that was the same but for its digits."""
        key = (line.translate(FOLDED), bits)
        known = self._memo.get(key)
        if known is None:
            if len(self._memo) >= MEMO_LINES_MAX:
                self._memo = {}
            known = self._memo[key] = tuple(self._run(line, bits))
        return known

    def _run(self, line: bytes, bits: int) -> list[Hit]:
        found: list[Hit] = []
        for number in self._prefilter.patterns(bits) if bits else ():
            compiled = self._compiled[number]
            spans = compiled.run(line, 0)
            if spans is not None:
                found.append(Hit(compiled, spans))
        return found

    def says(self, signature_id: str, line: EvidenceLine) -> Finding | None:
        """What one signature says of a line, whatever its sources are and whichever others override it."""
        number = self._numbers.get(signature_id)
        text = bytes_of(line)
        if number is None or not self.bits(text) >> number & 1:
            return None
        compiled = self._compiled[number]
        spans = compiled.run(text, 0)
        return (
            None if spans is None else to_finding(Hit(compiled, spans), text, facts_of(line), line.stream, line.number)
        )

    def unrecognised(self, line: bytes, bits: int) -> Hit | None:
        """The line as one that looks like an error; for lines without hits."""
        if not bits >> self._looks.number & 1 or (spans := self._looks.run(line, 0)) is None or counts_nothing(line):
            return None
        return Hit(self._looks, spans)

    def frame(self, line: bytes, bits: int) -> Hit | None:
        """The line as a frame of a Python traceback."""
        if not bits >> self._frame.number & 1 or (spans := self._frame.run(line, 0)) is None:
            return None
        return Hit(self._frame, spans)

    def _mask_of(self, source: Source) -> int:
        if source is Source.UNKNOWN:
            return self._own_bits
        return sum(
            1 << each.number
            for each in self._compiled[:-2]
            if not each.signature.sources or source in each.signature.sources
        )


def facts_of(line: EvidenceLine) -> LineFacts:
    """What is known of a line beside its text."""
    return LineFacts(line.source, line.node, line.rank, line.at_s)


def bytes_of(line: EvidenceLine) -> bytes:
    """Its text as patterns see it: one line, cut to what is looked at."""
    text = line.text[:LINE_BYTES_MAX].encode(errors="replace")[:LINE_BYTES_MAX]
    return valid_utf8(text.replace(b"\n", b" "))


def check_patterns(signatures: Iterable[Signature]) -> Iterator[str]:
    """What is wrong with patterns, each with its file and line."""
    for each in signatures:
        try:
            _compile(each, 0, {})
        except SignatureRefused as error:
            yield str(error)


def _compile(signature: Signature, number: int, bits: dict[str, int]) -> CompiledSignature:
    try:
        compiled = compile_pattern(signature.pattern)
    except PatternRefused as error:
        raise SignatureRefused(f"{signature.file}:{signature.line}: {signature.signature_id}: {error}") from error
    beats = 0
    if signature.state is RuleState.ACTIVE:
        for name in signature.overrides:
            beats |= bits.get(name, 0)
    groups = tuple(sorted(compiled.groupindex.items(), key=lambda item: int(item[1])))
    return CompiledSignature(signature, span_finder_on_demand(signature.pattern), groups, beats, number)
