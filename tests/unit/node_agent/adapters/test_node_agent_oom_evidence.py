"""OOM kill or kill -9: what the two witnesses of the kernel say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from node_agent.adapters import oom_evidence
from node_agent.adapters.oom_evidence import OomEvidence
from node_agent.application.ports import OomKill


def test_counter_tells_yes_and_no(tmp_path: Path) -> None:
    counter = tmp_path / "memory.events"
    counter.write_text("oom 0\noom_kill 2\noom_group_kill 0\n")
    evidence = OomEvidence(counter_file=counter, kmsg=tmp_path / "none")
    assert evidence.judge(10).oom_kill is OomKill.NO
    counter.write_text("oom 1\noom_kill 3\n")
    verdict = evidence.judge(11)
    assert verdict.oom_kill is OomKill.YES
    assert "2 to 3" in verdict.evidence
    assert evidence.judge(12).oom_kill is OomKill.NO
    counter.write_text("oom_kill 9\n")
    evidence.refresh()
    assert evidence.judge(13).oom_kill is OomKill.NO


def test_no_witness_is_unknown(tmp_path: Path) -> None:
    evidence = OomEvidence(counter_file=tmp_path / "none", kmsg=tmp_path / "none")
    assert evidence.judge(1).oom_kill is OomKill.UNKNOWN


def test_kernel_log_names_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "kmsg"
    log.write_text("3,1,1,-;Out of memory: Killed process 7 (old)\n")
    evidence = OomEvidence(counter_file=tmp_path / "none", kmsg=log)
    with log.open("a") as file:
        file.write("3,2,2,-;Memory cgroup out of memory: Killed process 4711 (python) total-vm:1kB\n")
    # A file at its end reads as empty, where the kernel's log would block; both end the look.
    assert evidence.judge(4711).oom_kill is OomKill.YES
    assert evidence.judge(7).oom_kill in (OomKill.NO, OomKill.UNKNOWN)
    monkeypatch.setattr(oom_evidence, "pids_are_the_kernels", lambda: False)
    assert evidence.judge(8).oom_kill is OomKill.UNKNOWN
    evidence.close()


def test_closes_what_it_opened() -> None:
    before = len(os.listdir("/proc/self/fd"))
    OomEvidence().close()
    assert len(os.listdir("/proc/self/fd")) == before
