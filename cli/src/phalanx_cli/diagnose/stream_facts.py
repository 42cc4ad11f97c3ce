"""What can only be said when all inputs are read: whose local ranks are global ones, and which times can be compared.

Times of different beginnings (since boot, since the start of an incident, of the day) are never mixed, and a stream
whose clock was set back has none: no time is better than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from fault_attribution.finding import Finding
from phalanx_cli.diagnose.launch_report import ReportBlock
from phalanx_cli.diagnose.line_facts import LineReader
from phalanx_cli.diagnose.path_hints import PathHints
from phalanx_cli.diagnose.reading_notes import Oddity, ReadingNotes

_GPU = re.compile(r"GPU (?P<device>\S{1,64}): ")
TIME_OF_DAY = "time of day"


@dataclass(slots=True)
class StreamFacts:
    """Facts of the streams of one reading."""

    notes: ReadingNotes
    _scales: dict[str, str] = field(default_factory=dict)
    _untimed: set[str] = field(default_factory=set)
    _launches: dict[str, str] = field(default_factory=dict)
    """Stream to the launch that its local ranks are of."""
    _offsets: dict[str, int] = field(default_factory=dict)
    _blocks: dict[str, tuple[ReportBlock, ...]] = field(default_factory=dict)
    _readings: set[str] = field(default_factory=set)
    _ranked: dict[tuple[object, ...], str] = field(default_factory=dict)

    def offsets(self, stream: str) -> None:
        """A stream with times since the beginning of its incident."""
        self._scales[stream] = f"since the beginning of {stream}"

    def readings(self, stream: str) -> None:
        """A report of nvidia-smi, whose lines were each given the GPU that they are about."""
        self._readings.add(stream)

    def stream(self, name: str, reader: LineReader, hints: PathHints, blocks: Sequence[ReportBlock] = ()) -> None:
        """A stream that was read line by line, with the blocks of torchrun's report in it."""
        if blocks:
            self._blocks[name] = tuple(blocks)
        if reader.clock_back:
            self._untimed.add(name)
            self.notes.note(Oddity.CLOCK_BACK, name)
        if reader.time_of_day:
            self._scales[name] = TIME_OF_DAY
        elif reader.since_boot:
            self._scales[name] = f"since the boot of {reader.origin.node or name}"
        launch = self.local(name, hints)
        if reader.rank_offset is not None:
            self._offsets.setdefault(launch, reader.rank_offset)
        elif blocks and len({block.host for block in blocks}) == 1:
            self._offsets.setdefault(launch, blocks[0].rank - blocks[0].local_rank)

    def local(self, name: str, hints: PathHints) -> str:
        """Remember whose local ranks a stream has, and tell a second stream of the same rank."""
        launch = hints.launch or name
        self._launches[name] = launch
        if hints.rank is not None or hints.local_rank is not None:
            file = name.replace("!", "/").rsplit("/", 1)[-1]
            attempt = next((part for part in name.split("/") if part.startswith("attempt_")), "")
            key = (hints.launch, attempt, hints.node, hints.rank, hints.local_rank, hints.source, _ending(file))
            if key in self._ranked:
                self.notes.note(Oddity.SAME_RANK, f"{self._ranked[key]} and {name}")
            else:
                self._ranked[key] = name
        return launch

    def joined(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings with global ranks where they are known, and with comparable times only."""
        found = list(findings)
        local = {self._launches.get(each.stream, each.stream) for each in found if (each.rank or 0) < 0}
        unknown = {launch for launch in local if launch not in self._offsets} if len(local) > 1 else set()
        if unknown:
            self.notes.note(Oddity.LOCAL_RANKS, ", ".join(sorted(unknown)[:3]), len(unknown))
        kept_scale = self._scale_to_keep(found)
        return [self._one(each, unknown, kept_scale) for each in found]

    def _scale_to_keep(self, found: list[Finding]) -> str:
        scales = {self._scales.get(each.stream, "") for each in found if each.at_s is not None} - {""}
        if len(scales) <= 1:
            return next(iter(scales), "")
        kept = TIME_OF_DAY if TIME_OF_DAY in scales else ""
        others = sorted({name for name, scale in self._scales.items() if scale in scales and scale != kept})
        self.notes.note(Oddity.TWO_SCALES, ", ".join(others[:3]), len(others))
        return kept

    def _one(self, one: Finding, unknown: set[str], kept_scale: str) -> Finding:
        rank, node, at_s = one.rank, one.node, one.at_s
        if rank is not None and rank < 0:
            launch = self._launches.get(one.stream, one.stream)
            local = -1 - rank
            if launch in unknown:
                told = one.captures.get("rank", "")
                rank = int(told) if told.isdigit() and len(told) < 10 else None
                # Which of several launches it was is all that tells the machines apart.
                node = node or launch.rsplit("/", 1)[-1]
            else:
                rank = local + self._offsets.get(launch, 0)
        if rank is None and (block := self._block_of(one)) is not None:
            rank, node = block.rank, node or block.host
        if at_s is not None and (one.stream in self._untimed or self._scales.get(one.stream, kept_scale) != kept_scale):
            at_s = None
        device = one.device
        if not device and one.stream in self._readings and (gpu := _GPU.match(one.text)) is not None:
            device = gpu["device"]
        if (rank, node, at_s, device) == (one.rank, one.node, one.at_s, one.device):
            return one
        return replace(one, rank=rank, node=node, at_s=at_s, device=device)

    def _block_of(self, one: Finding) -> ReportBlock | None:
        blocks = self._blocks.get(one.stream, ())
        return next((block for block in blocks if block.first <= one.number <= block.last), None)


def _ending(file: str) -> str:
    """stdout.log, error.json and stacks.log of one rank are three things, not one thing thrice."""
    return "".join(char for char in file.lower() if not char.isdigit())
