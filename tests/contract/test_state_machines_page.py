"""docs/state-machines.md shows what the transition tables say."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_state_machines", ROOT / "tools" / "draw_state_machines.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(tool: ModuleType) -> None:
    shown = (ROOT / "docs" / "state-machines.md").read_text(encoding="utf-8")
    assert shown == tool.page(), "run tools/draw_state_machines.py"


def test_every_move_is_drawn_once(tool: ModuleType) -> None:
    page = tool.page()
    for machine in tool.MACHINES:
        section = page.partition(f"## {machine.title}")[2].partition("\n## ")[0]
        drawn = [
            (before, trigger, after)
            for line in section.splitlines()
            if ": " in line and " --> " in line
            for before, after in [line.strip().partition(": ")[0].split(" --> ")]
            for trigger in line.partition(": ")[2].split(", ")
        ]
        assert sorted(drawn) == sorted((str(b), str(t), str(a)) for (b, t), a in machine.table.items())


def test_every_state_can_be_reached(tool: ModuleType) -> None:
    for machine in tool.MACHINES:
        reached, edge = {machine.initial}, [machine.initial]
        while edge:
            state = edge.pop()
            for (before, _), after in machine.table.items():
                if before is state and after not in reached:
                    reached.add(after)
                    edge.append(after)
        assert reached == set(type(machine.initial)), machine.title
