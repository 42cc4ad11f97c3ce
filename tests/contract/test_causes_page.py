"""docs/causes.md and docs/findings.md say what the rules say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

from fault_attribution.loading.rule_files import load_rules

ROOT = Path(__file__).resolve().parents[2]


def tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def causes_page() -> str:
    return str(tool("write_causes").causes_page())


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "causes.md").read_text(encoding="utf-8") == causes_page(), "run tools/write_causes.py"


def test_every_rule_can_be_looked_up() -> None:
    page = causes_page()
    for rule in load_rules().causes.rules:
        section = re.search(rf"^## {rule.cause}$(.*?)(?=^## |\Z)", page, flags=re.M | re.S)
        assert section is not None, rule.cause
        assert rule.rule_id in section[1]
        assert rule.meaning in section[1]


def test_every_kind_can_be_looked_up() -> None:
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    assert page == tool("write_findings").findings_page(), "run tools/write_findings.py"
    for signature in load_rules().signatures:
        assert f"| `{signature.kind}` | {signature.role} |" in page
        assert f"`{signature.signature_id}` |" in page
