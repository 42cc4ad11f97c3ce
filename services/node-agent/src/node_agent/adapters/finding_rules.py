"""The signatures that an agent reads output by: shipped ones and a site's own, loaded beside the start."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from fault_attribution.evidence_line import Source
from fault_attribution.loading.folder_look import look_at
from fault_attribution.matching.hit import LineFacts, to_finding
from fault_attribution.matching.pattern import valid_utf8
from fault_attribution.matching.signature_matcher import SignatureMatcher, SignatureRefused
from node_agent.adapters.stack_files import StackFiles
from node_agent.adapters.worker_processes import ProcessWorkers
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.look_at_survivors import SurvivorLook
from node_agent.application.outgoing import Outgoing
from node_agent.application.output_tap import OutputTap
from node_agent.application.read_findings import FindingReader
from node_agent.domain.finding_fold import Found
from node_agent.domain.log_rule import LogStream
from service_kit.ports import Clock
from service_kit.yaml_fields import PolicyRefused

LOOK_S = 5.0
"""Between two looks at a site's folders."""
HITS_MAX = 200
"""Lines with findings in one block that are looked at; a block of a thousand errors says no more than that."""
_SOURCES = {LogStream.STDOUT: Source.WORKER_STDOUT, LogStream.STDERR: Source.WORKER_STDERR}


class SignatureReader:
    """application.read_findings.LineReader on RE2."""

    def __init__(self, matcher: SignatureMatcher) -> None:
        self._matcher = matcher

    def read(self, data: bytes, stream: LogStream) -> Iterator[Found]:
        """See the port."""
        matcher, source = self._matcher, _SOURCES[stream]
        facts, hits_left = LineFacts(source), HITS_MAX
        for start, end, bits in matcher.lines(data):
            if _quotes_source(data, start):
                continue
            line = valid_utf8(data[start:end])
            hits = matcher.hits(line, bits, source)
            if not hits and (looks := matcher.unrecognised(line, bits)) is not None:
                hits = [looks]
            for hit in hits:
                found = to_finding(hit, line, facts, stream.value, 0)
                yield Found(
                    kind=found.kind,
                    role=str(found.role),
                    signature_id=found.rule_id,
                    text=found.text,
                    device=found.device,
                    captures=dict(found.captures),
                )
            hits_left -= bool(hits)
            if not hits_left:
                return


def _quotes_source(data: bytes, start: int) -> bool:
    """Whether a line is source that a traceback quotes behind its frame: `raise ...` raises nothing there."""
    previous = data[data.rfind(b"\n", 0, max(0, start - 1)) + 1 : start]
    return b'File "' in previous and b'", line ' in previous


class ReadingOptions(Protocol):
    """What the settings say about it."""

    @property
    def read_output(self) -> bool:
        """Whether output is read at all."""
        ...

    @property
    def overlays(self) -> tuple[Path, ...]:
        """A site's own folders of rules."""
        ...


def find_in_output(
    options: ReadingOptions,
    life: AgentLife,
    processes: ProcessWorkers,
    outgoing: Outgoing,
    clock: Clock,
    announcer: Announcer,
    stack: AsyncExitStack,
) -> list[OutputTap]:
    """A reader of output that begins as soon as its signatures are loaded; ends with the stack. None when unwanted."""
    if not options.read_output:
        return []
    reader = FindingReader(life, outgoing, clock, announcer)
    life.watches.append(reader)
    stacks = StackFiles(files_of=processes.files_of, signal=processes.signal)
    life.watches.append(SurvivorLook(life, stacks, reader))
    loading = asyncio.create_task(_follow(options.overlays, reader, clock, announcer))
    stack.callback(loading.cancel)
    stack.callback(reader.close)
    return [reader]


async def _follow(overlays: tuple[Path, ...], reader: FindingReader, clock: Clock, announcer: Announcer) -> None:
    """Load, and load again when a file of the site changes. What cannot be used leaves the old ones in force."""
    seen = look_at(overlays)
    await _load(overlays, reader, announcer)
    while overlays:
        await clock.sleep(LOOK_S)
        now = await asyncio.to_thread(look_at, overlays)
        if now != seen:
            seen = now
            await _load(overlays, reader, announcer)


async def _load(overlays: tuple[Path, ...], reader: FindingReader, announcer: Announcer) -> None:
    try:
        matcher = await asyncio.to_thread(_matcher, overlays)
    except (PolicyRefused, SignatureRefused) as error:
        announcer.say(f"signatures are not taken up: {error}")
        return
    reader.use(SignatureReader(matcher))


def _matcher(overlays: tuple[Path, ...]) -> SignatureMatcher:
    # Imported here: reading YAML is wanted once, and not by an agent that is told not to read output.
    from fault_attribution.loading.rule_files import load_signatures

    lean = [replace(each, matches=(), misses=(), meaning="", origin="") for each in load_signatures(overlays)]
    matcher = SignatureMatcher(lean)
    _give_back_memory()
    return matcher


def _give_back_memory() -> None:
    """Hand back what reading the files took: an agent is idle for weeks beside somebody's training (measured: 3 MB)."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl does not
    if trim is not None:
        trim(0)
