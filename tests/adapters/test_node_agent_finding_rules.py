"""Real signatures on real output, a site's own over them, and a bad file that changes nothing."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fault_attribution.loading.rule_files import load_signatures
from fault_attribution.matching.signature_matcher import SignatureMatcher
from node_agent.adapters import finding_rules
from node_agent.adapters.finding_rules import HITS_MAX, SignatureReader
from node_agent.domain.log_rule import LogStream
from service_kit.clock import SystemClock

OOM = (
    b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB\n"
)


def kinds(data: bytes) -> list[str]:
    reader = SignatureReader(SignatureMatcher(load_signatures()))
    return [found.kind for found in reader.read(data, LogStream.STDERR)]


def test_known_errors_are_found_and_healthy_lines_are_not() -> None:
    assert "cuda_oom" in kinds(b"step 1 loss 2.3\n" + OOM + b"step 2 loss 2.2\n")
    assert kinds(b"loading the model\nstep 1 of 10\n" * 50) == []


def test_what_no_signature_knows_is_told_as_such() -> None:
    assert "unrecognised" in kinds(b"FATAL: the flux compensator is out of flux\n")


def test_source_that_a_traceback_quotes_says_nothing() -> None:
    quoted = b'  File "/home/alice/train.py", line 6, in main\n    raise RuntimeError("CUDA out of memory. Tried to")\n'
    assert "cuda_oom" not in kinds(quoted)


def test_a_block_of_errors_is_looked_at_so_far_and_no_further() -> None:
    assert kinds(OOM * (3 * HITS_MAX)).count("cuda_oom") == HITS_MAX


class Node:
    def __init__(self) -> None:
        self.readers: list[SignatureReader] = []
        self.said: list[str] = []
        self.changed = asyncio.Event()

    def use(self, reader: SignatureReader) -> None:
        self.readers.append(reader)
        self.changed.set()

    def say(self, line: str) -> None:
        self.said.append(line)
        self.changed.set()

    async def until(self, *, readers: int, said: int = 0) -> None:
        while len(self.readers) < readers or len(self.said) < said:
            self.changed.clear()
            await self.changed.wait()


SITE = """signatures:
  - id: site.flux
    find: flux_lost
    role: cause
    pattern: 'flux compensator'
    meaning: The flux is gone.
    source: the site itself
    tests: {match: ['the flux compensator is out of flux'], miss: ['flux']}
"""


@pytest.mark.asyncio
async def test_a_sites_own_signatures_are_taken_up_when_they_change_and_a_bad_file_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding_rules, "LOOK_S", 0.01)
    folder = tmp_path / "site" / "signatures"
    folder.mkdir(parents=True)
    node = Node()
    async with AsyncExitStack() as stack:
        task = asyncio.create_task(finding_rules._follow((tmp_path / "site",), node, SystemClock(), node))  # type: ignore[arg-type]
        stack.callback(task.cancel)
        async with asyncio.timeout(60):
            await node.until(readers=1)
            (folder / "own.yaml").write_text(SITE)
            await node.until(readers=2)
            (folder / "own.yaml").write_text(SITE + "  - id: broken\n")
            await node.until(readers=2, said=1)
    found = [each.kind for each in node.readers[1].read(b"the flux compensator is gone\n", LogStream.STDOUT)]
    assert found == ["flux_lost"]
    assert "own.yaml:" in node.said[0]
    assert len(node.readers) == 2
