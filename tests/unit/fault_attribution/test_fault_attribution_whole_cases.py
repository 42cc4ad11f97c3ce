"""Whole cases of tests/data, of devices and of the platform around a job, read forwards and backwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fault_attribution.engine import Engine
from fault_attribution.loading.cause_yaml import parse_test_line
from fault_attribution.loading.rule_files import load_rules

_DATA = Path(__file__).parents[2] / "data"
_CASES = [
    case
    for name in ("device_cases.yaml", "platform_cases.yaml")
    for case in yaml.safe_load((_DATA / name).read_text())["cases"]
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(load_rules())


@pytest.mark.parametrize("case", _CASES, ids=lambda case: str(case["name"]))
def test_case(case: dict[str, Any], engine: Engine) -> None:
    lines = [line for text in case["lines"] if (line := parse_test_line(text)) is not None]
    assert len(lines) == len(case["lines"]), "a line of the case is not of the test form"
    forward, backward = engine.diagnose(lines).judgement, engine.diagnose(lines[::-1]).judgement
    heard = (forward.cause, [(one.rule.rule_id, one.score) for one in forward.hypotheses])
    assert str(forward.attribution) in case["attribution"], heard
    assert str(forward.action) in case["action"], heard
    assert (forward.attribution, forward.action) == (backward.attribution, backward.action), "the order decided"
