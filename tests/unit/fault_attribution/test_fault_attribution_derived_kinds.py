"""The list of derived kinds is what the derivations yield: no kind without a word, no word without a kind."""

import ast
from pathlib import Path

import fault_attribution.derive
from fault_attribution.derive.derived_kinds import DERIVED_KINDS
from fault_attribution.engine import Engine
from fault_attribution.loading.rule_files import load_rules


def test_what_is_derived_is_listed() -> None:
    rules = load_rules()
    engine = Engine(rules)
    unlisted = {
        (found.rule_id, found.kind)
        for rule in rules.causes.rules
        for test in (*rule.holds, *rule.misses)
        for found in engine.diagnose(test.lines, test.facts).findings
        if found.rule_id.startswith("derive") and found.kind not in DERIVED_KINDS
    }
    assert unlisted == set()


def test_what_is_listed_is_a_word_of_a_derivation() -> None:
    folder = Path(fault_attribution.derive.__file__).parent
    words = {
        node.value
        for path in folder.glob("*.py")
        if path.name != "derived_kinds.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert DERIVED_KINDS.keys() - words == set()
