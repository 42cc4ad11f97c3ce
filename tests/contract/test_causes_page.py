"""docs/causes.md says what the cause rules say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from fault_attribution.loading.rule_files import load_rules

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


def test_every_rule_can_be_looked_up() -> None:
    page = causes_page()
    for rule in load_rules().causes.rules:
        section = re.search(rf"^## {rule.cause}$(.*?)(?=^## |\Z)", page, flags=re.M | re.S)
        assert section is not None, rule.cause
        assert rule.rule_id in section[1]
        assert rule.meaning in section[1]
