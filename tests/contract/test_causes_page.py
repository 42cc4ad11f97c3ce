"""docs/causes.md says what the rulebook says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from fault_classifier.domain.rulebook import RULEBOOK

ROOT = Path(__file__).resolve().parents[2]


def causes_page() -> str:
    spec = importlib.util.spec_from_file_location("write_causes", ROOT / "tools" / "write_causes.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return str(tool.causes_page())


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "causes.md").read_text(encoding="utf-8") == causes_page(), "run tools/write_causes.py"


@pytest.mark.parametrize("rule", RULEBOOK, ids=lambda rule: rule.rule_id)
def test_every_rule_can_be_looked_up(rule) -> None:
    section = re.search(rf"^## {rule.cause}$(.*?)(?=^## |\Z)", causes_page(), flags=re.M | re.S)
    assert section is not None
    assert rule.rule_id in section[1]
    assert rule.meaning in section[1]


def test_rule_ids_begin_with_whose_fault_it_is() -> None:
    assert [rule.rule_id for rule in RULEBOOK if not rule.rule_id.startswith(f"{rule.attribution}.")] == []
