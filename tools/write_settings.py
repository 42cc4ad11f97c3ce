"""Writes docs/settings.md from the settings classes, so that meaning, unit and default are said once, in the code."""

from __future__ import annotations

import re
import sys
from enum import Enum
from pathlib import Path

from pydantic.fields import FieldInfo

from fault_classifier.settings import FaultClassifierSettings
from health_ingest.settings import HealthIngestSettings
from node_agent.settings import AgentSettings, HostSettings
from recovery_planner.settings import OperatorSettings, PlannerSettings
from service_kit.settings import BusSettings

TARGET = Path(__file__).resolve().parent.parent / "docs" / "settings.md"

HEAD = """# Settings

Environment variables, read once at the start; a bad one ends the process with exit code 78 and names the field. The
flags of `phalanx run` are in [cli.md](cli.md). Written by `tools/write_settings.py`; do not edit.
"""

CLASSES: tuple[tuple[str, type[BusSettings]], ...] = (
    ("Every process on the bus", BusSettings),
    ("node-agent, launcher role", AgentSettings),
    ("node-agent, host role", HostSettings),
    ("health-ingest", HealthIngestSettings),
    ("fault-classifier", FaultClassifierSettings),
    ("recovery-planner", PlannerSettings),
    ("phalanx-operator", OperatorSettings),
)


def settings_page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(_section(title, settings) for title, settings in CLASSES)])


def _section(title: str, settings: type[BusSettings]) -> str:
    inherited = set() if settings is BusSettings else set(BusSettings.model_fields)
    rows = [_row(name, field) for name, field in settings.model_fields.items() if name not in inherited]
    return "\n".join([f"## {title}\n", "| variable | meaning | default |", "|---|---|---|", *rows, ""])


def _row(name: str, field: FieldInfo) -> str:
    told = re.fullmatch(r"\[(\w+)\]\s*(.*)", field.description or "", flags=re.DOTALL)
    if told is None:
        raise SystemExit(f"write_settings: the docstring of {name} does not begin with its variable in brackets")
    meaning = " ".join(told.group(2).split()).replace("|", r"\|")
    return f"| `{told.group(1)}` | {meaning} | {_shown(field.get_default(call_default_factory=True))} |"


def _shown(default: object) -> str:
    if isinstance(default, Enum):
        default = default.value
    return "" if default is None or default in ("", {}) else f"`{default}`"


if __name__ == "__main__":
    TARGET.write_text(settings_page(), encoding="utf-8")
    sys.stdout.write(f"wrote {TARGET.relative_to(TARGET.parent.parent)}\n")
