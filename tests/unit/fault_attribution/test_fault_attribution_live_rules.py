"""The rules about what agents see: each holds for its own tests, and the terms name kinds that somebody makes."""

from __future__ import annotations

import pytest

from fault_attribution.engine import Engine
from fault_attribution.live_kinds import LIVE_KINDS
from fault_attribution.loading.cause_yaml import parse_test_fact, read_causes
from fault_attribution.loading.rule_files import load_rules, shipped_folder
from service_kit.yaml_fields import PolicyRefused

LIVE = [rule for name in ("live", "live_devices") for rule in read_causes(shipped_folder() / "causes" / f"{name}.yaml")]
ENGINE = Engine(load_rules())


@pytest.mark.parametrize("rule", LIVE, ids=lambda rule: rule.rule_id)
def test_a_rule_gives_the_verdict_for_its_own_and_for_nothing_else(rule) -> None:
    for test in rule.holds:
        judged = ENGINE.diagnose(test.lines, test.facts).judgement
        assert (judged.attribution, judged.cause) == (rule.attribution, rule.cause), test.line
        assert test.action in (None, judged.action), test.line
    for test in rule.misses:
        judged = ENGINE.diagnose(test.lines, test.facts).judgement
        assert (judged.attribution, judged.cause) != (rule.attribution, rule.cause), test.line


def test_terms_name_declared_kinds_only() -> None:
    named = {kind for rule in LIVE for weight in (*rule.when, *rule.more, *rule.less) for kind in weight.see.kinds}
    assert named - LIVE_KINDS.keys() - {"*", "cuda_*"} == set()


def test_a_fact_of_a_test_is_read_with_all_its_parts() -> None:
    fact = parse_test_fact("device_fault node-1 3 #GPU-1 [origin=hardware, family=nic] | it broke: [x] | y")
    assert fact is not None
    assert (fact.kind, fact.node, fact.rank, fact.device) == ("device_fault", "node-1", 3, "GPU-1")
    assert fact.captures == {"origin": "hardware", "family": "nic"}
    assert fact.text == "it broke: [x] | y"
    assert parse_test_fact("no bar at all") is None
    assert parse_test_fact("kind [broken] | text") is None


def test_a_test_without_evidence_is_refused_with_its_line(tmp_path) -> None:
    text = (shipped_folder() / "causes" / "live.yaml").read_text()
    bad = text.replace("facts:", "facts: []\n        nothing:", 1)
    path = tmp_path / "bad.yaml"
    path.write_text(bad)
    with pytest.raises(PolicyRefused, match=r"bad\.yaml:\d+"):
        read_causes(path)
