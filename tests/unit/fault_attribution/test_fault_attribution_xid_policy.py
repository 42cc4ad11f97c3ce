"""A bare Xid or SXid line: the verdict offline against what the live policy of health-ingest does with the same code.

Where the two differ on purpose, the difference stands here with its reason.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
import yaml

from fault_attribution.engine import Engine
from fault_attribution.evidence_line import EvidenceLine, Source
from fault_attribution.judgement import Judgement
from fault_attribution.loading.rule_files import load_rules
from fault_contracts.faults import Action, Attribution

_POLICIES = files("health_ingest") / "policies"
_XIDS: list[dict[str, Any]] = yaml.safe_load((_POLICIES / "xid.yaml").read_text())["xids"]
_SXIDS: list[dict[str, Any]] = yaml.safe_load((_POLICIES / "sxid.yaml").read_text())["sxids"]
_NODE_ACTIONS = {Action.RESET_GPU, Action.REBOOT_NODE, Action.REPLACE_NODE}
_ACTED_ON = {"failure", "problem"}

DIFFERENT: dict[int, str] = {
    109: "live: origin unknown and a reset; a verdict on the line alone names the driver, weakly, with the same action",
    54: "live: a platform problem; a connector that is badly seated is hardware in the words of attribution",
    151: "confidential computing: live restarts the machine; the line alone gives no verdict here",
    155: "a link that was taken down on purpose: live resets; the line alone gives no verdict here",
    163: "power smoothing: shown live and never acted on; no verdict here",
    171: "names the place of an error of Xid 48: live waits for that line, here the memory is blamed at once",
    172: "as 171",
    173: "known from a header only; no verdict here",
    61: "live: recorded; here the driver is suspected, weakly",
}
"""Codes whose verdict differs from the policy on purpose."""
_RECORDED_AND_ACTED_ON = {61}
_NAMED = {
    45: "live names nobody; a verdict says that a process ended, which is the job's matter, and that nothing is to do"
}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(load_rules())


def _judged(engine: Engine, text: str) -> Judgement:
    return engine.diagnose([EvidenceLine(text=text, source=Source.KMSG, node="n1", stream="k", number=1)]).judgement


@pytest.mark.parametrize("row", [row for row in _XIDS if row["weight"] in _ACTED_ON], ids=lambda row: str(row["code"]))
def test_what_live_acts_on_is_judged_alike(row: dict[str, Any], engine: Engine) -> None:
    judged = _judged(engine, f"NVRM: Xid (PCI:0000:3b:00): {row['code']}, pid=77, name=python3, ")
    if row["code"] in DIFFERENT:
        assert (str(judged.attribution), str(judged.action)) != (row["origin"], row["action"]), "explain no agreement"
    else:
        assert (str(judged.attribution), str(judged.action)) == (row["origin"], row["action"])


@pytest.mark.parametrize("row", [row for row in _XIDS if row["weight"] == "record"], ids=lambda row: str(row["code"]))
def test_what_live_only_records_costs_no_node(row: dict[str, Any], engine: Engine) -> None:
    judged = _judged(engine, f"NVRM: Xid (PCI:0000:3b:00): {row['code']}, pid=77, name=python3, ")
    assert row["code"] in _RECORDED_AND_ACTED_ON or judged.action not in _NODE_ACTIONS
    assert judged.attribution in (Attribution.UNKNOWN, Attribution(row["origin"])) or row["code"] in _NAMED


@pytest.mark.parametrize("row", _SXIDS, ids=lambda row: str(row["code"]))
def test_sxids(row: dict[str, Any], engine: Engine) -> None:
    word = "Fatal" if row["weight"] == "failure" else "Non-fatal"
    judged = _judged(engine, f"nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): {row['code']}, {word}, Link 30 text")
    if row["weight"] == "failure":
        assert (str(judged.attribution), str(judged.action)) == (row["origin"], row["action"])
    else:
        assert judged.action is Action.WAIT_OR_IGNORE
