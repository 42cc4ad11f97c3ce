"""The bench of the judge measures what it says: every event is judged, every broken job gets a verdict."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from fault_attribution.loading.rule_files import load_rules

TOOL = Path(__file__).resolve().parents[3] / "tools" / "bench_classifier.py"


def bench():
    spec = importlib.util.spec_from_file_location("bench_classifier", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_classifier"] = module
    spec.loader.exec_module(module)
    return module


def test_loads_are_judged_whole() -> None:
    tool, book = bench(), load_rules().causes
    storm = tool.run(tool.storm(24), book)
    assert storm.events == 24 * 5 + 2
    assert len(storm.first_ms) == 1
    jobs = tool.run(tool.jobs(5), book)
    assert (jobs.events, len(jobs.first_ms)) == (5 * 14, 5)
    assert jobs.verdicts >= 5
    lines = tool.run(tool.lines(10), book)
    assert (lines.events, lines.verdicts) == (40, 0)
