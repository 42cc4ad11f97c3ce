"""The shipped rules: nothing is wrong with them, and every test that they carry holds, with all of them in force."""

import pytest

from fault_attribution.checking.rule_lint import lint
from fault_attribution.checking.rule_tests import run_tests
from fault_attribution.loading.rule_files import RuleSet, load_rules, shipped_folder

FOLDER = shipped_folder()


@pytest.fixture(scope="module")
def rules() -> RuleSet:
    return load_rules()


def test_nothing_is_wrong_with_them(rules: RuleSet) -> None:
    assert list(map(str, lint(rules))) == []


@pytest.mark.parametrize("part", ["signatures", "causes"])
def test_their_tests_hold(rules: RuleSet, part: str) -> None:
    files = [str(path) for path in sorted((FOLDER / part).glob("*.yaml"))]
    run = run_tests(rules, files)
    assert run.ran > len(files)
    assert list(map(str, run.failed)) == []


def test_every_rule_was_tested(rules: RuleSet) -> None:
    files = {str(path) for path in FOLDER.glob("*/*.yaml")}
    assert {each.file for each in rules.signatures} | {each.file for each in rules.causes.rules} == files
