"""A small rule set of its own, so that these tests do not change their mind with the shipped rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

from typer.testing import CliRunner, Result

from fault_attribution.engine import Engine
from fault_attribution.finding import Finding
from fault_attribution.loading import rule_files
from fault_attribution.loading.rule_files import load_rules
from phalanx_cli.commands.app import app
from phalanx_cli.diagnose.evidence_reader import Choice, EvidenceReader
from phalanx_cli.diagnose.reading_notes import ReadingNotes

SIGNATURES = """\
signatures:
  - id: rig.xid
    find: 'rig_xid_{code}'
    role: cause
    pattern: 'Xid \\(PCI:(?P<device>[0-9a-f:]+)\\): (?P<code>\\d+)'
    meaning: an Xid
    source: rig
    tests: {match: ['Xid (PCI:0000:01:00): 79'], miss: ['Xid 79']}
  - id: rig.boom
    find: rig_boom
    role: cause
    pattern: 'RigError: boom'
    meaning: the program broke
    source: rig
    tests: {match: ['RigError: boom'], miss: ['boom']}
  - id: rig.evicted
    find: rig_evicted
    role: cause
    pattern: '\\bEvicted\\b'
    meaning: evicted
    source: rig
    tests: {match: ['Evicted'], miss: ['evict']}
  - id: rig.step
    find: rig_step
    role: progress
    pattern: 'rigstep (?P<step>\\d+)'
    meaning: a step
    source: rig
    tests: {match: ['rigstep 5'], miss: ['rigstep']}
  - id: rig.pending
    find: rig_pending
    role: cause
    pattern: 'GPU (?P<device>\\S+): .*remapped_rows\\.pending=Yes'
    meaning: a row waits
    source: rig
    tests: {match: ['GPU 0: remapped_rows.pending=Yes'], miss: ['remapped_rows.pending=Yes']}
"""
CAUSES = """\
causes:
  - id: user.rig_boom
    attribution: user
    cause: rig_boom
    action: dont_retry_notify_user
    when: [{see: rig_boom, score: 6, say: 'rank {rank} on {node} raised it: {text}'}]
    less: [{see: rig_evicted, score: 0.5, say: 'something was evicted'}]
    meaning: the program broke
    advice: mend it
    decide: the first traceback
    near_miss: none
    source: rig
    holds: [{lines: ['worker-stderr n1 3 @0 | RigError: boom'], action: dont_retry_notify_user}]
    misses: [{lines: ['worker-stderr n1 3 @0 | rigstep 5']}]
  - id: hardware.rig_xid
    attribution: hardware
    cause: rig_xid
    action: replace_node
    when: [{see: rig_xid_79, score: 9, say: 'GPU {device} is lost'}]
    meaning: a GPU is lost
    advice: replace it
    decide: the kernel log
    near_miss: none
    source: rig
    holds: [{lines: ['kmsg n1 @0 | Xid (PCI:0000:01:00): 79'], action: replace_node}]
    misses: [{lines: ['kmsg n1 @0 | Xid (PCI:0000:01:00): 13']}]
"""
BOOM = "RigError: boom"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus."


def rig_rules(folder: Path) -> Path:
    """The rule set as a folder."""
    rules = folder / "rig-rules"
    for name, text in (("signatures", SIGNATURES), ("causes", CAUSES)):
        (rules / name).mkdir(parents=True)
        (rules / name / "rig.yaml").write_text(text)
    return rules


def rig_findings(folder: Path, *paths: Path | str, choice: Choice | None = None) -> tuple[list[Finding], ReadingNotes]:
    """What the rig's rules alone find in files, and the notes of the reading."""
    engine = Engine(load_rules(shipped=rig_rules(folder)))
    notes = ReadingNotes()
    reader = EvidenceReader(engine.matcher, notes, choice or Choice(year=2026))
    reader.read([str(path) for path in paths])
    return [each for each in reader.findings() if each.kind.startswith("rig_")], notes


def rig_diagnose(folder: Path, *arguments: object, stdin: bytes | None = None) -> Result:
    """The command with the rig's rules alone; the shipped ones take a second to compile."""
    rules = folder / "rig-rules" if (folder / "rig-rules").is_dir() else rig_rules(folder)
    with mock.patch.object(rule_files, "shipped_folder", return_value=rules):
        return CliRunner().invoke(app, ["diagnose", *map(str, arguments)], input=stdin)


def rig_json(folder: Path, *arguments: object, stdin: bytes | None = None) -> dict[str, Any]:
    """Its verdict as data."""
    result = rig_diagnose(folder, "--format", "json", *arguments, stdin=stdin)
    report: dict[str, Any] = json.loads(result.stdout)
    return report
