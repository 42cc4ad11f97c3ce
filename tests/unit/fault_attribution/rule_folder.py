"""Folders of rules for tests: a signature and a cause as YAML."""

from pathlib import Path

SIGNATURE = """signatures:
  - id: site.fan
    find: site_fan
    role: cause
    pattern: 'fan tray (?P<n>\\d+) is dead'
    meaning: A fan tray is dead.
    source: our chassis firmware
    tests:
      match: ['fan tray 3 is dead']
      captures: [{line: 'fan tray 4 is dead', gives: {n: "4"}}]
      miss: ['fan tray 3 is fine']
"""
CAUSE = """causes:
  - id: hardware.site_fan
    attribution: hardware
    cause: site_fan
    action: replace_node
    when:
      - {see: site_fan, score: 6, say: "tray {n} of {node}"}
    meaning: A fan tray is dead.
    advice: Replace it.
    decide: A look at it.
    near_miss: A slow fan.
    source: our chassis firmware
    holds: [{lines: ['kmsg n1 | fan tray 3 is dead'], action: replace_node}]
    misses: [{lines: ['kmsg n1 | fan tray 3 is fine']}]
"""


def site(folder: Path, signatures: str = SIGNATURE, causes: str = CAUSE) -> Path:
    """An overlay folder."""
    for name, text in (("signatures", signatures), ("causes", causes)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "site.yaml").write_text(text, encoding="utf-8")
    return folder
