"""Mistakes in rules are found with file, line and a reason that helps; sound rules of a site pass."""

from pathlib import Path

import pytest
from rule_folder import CAUSE, SIGNATURE, site

from fault_attribution.checking.kind_names import KindNames
from fault_attribution.checking.rule_lint import lint
from fault_attribution.checking.rule_tests import run_tests
from fault_attribution.loading.rule_files import RuleSet, load_rules
from service_kit.yaml_fields import PolicyRefused

EMPTY_SIGNATURES = "signatures: []\n"


def alone(folder: Path) -> RuleSet:
    """The rules of a folder without the shipped ones, which take a second to read."""
    return load_rules([folder], shipped=site(folder.parent / "shipped", EMPTY_SIGNATURES, "causes: []\n"))


def problems(tmp_path: Path, signatures: str = SIGNATURE, causes: str = CAUSE) -> list[str]:
    rules = alone(site(tmp_path / "site", signatures, causes))
    return [str(each).removeprefix(f"{tmp_path}/site/") for each in lint(rules)]


def test_sound_rules_of_a_site_have_no_problem_and_their_tests_hold_over_the_shipped_ones(tmp_path: Path) -> None:
    assert problems(tmp_path) == []
    folder = tmp_path / "site"
    run = run_tests(load_rules([folder]), [str(path) for path in folder.glob("*/*.yaml")])
    assert (run.ran, run.failed) == (5, [])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("fan tray (?P<n>\\d+) is dead", "fan (?=x)", "the pattern is not accepted at character 5"),
        ("fan tray (?P<n>\\d+) is dead", "(?:fan .{0,100}){9}", "too large"),
        ("fan tray (?P<n>\\d+) is dead", "(?P<n>\\d+)", "has no fixed text"),
        ("find: site_fan", "find: site_{x}", "find uses {x}, which no group catches"),
        ("find: site_fan", "find: Site fan", "is no slug"),
        ("role: cause", "role: cause\n    overrides: [a.b]", "overrides a.b, which is no other signature"),
    ],
)
def test_mistakes_of_signatures(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in SIGNATURE
    found = problems(tmp_path, SIGNATURE.replace(old, new), "causes: []\n")
    assert len(found) == 1, found
    assert found[0].startswith("signatures/site.yaml:2: site.fan: ")
    assert said in found[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("see: site_fan", "see: site_fann & !site_fan", "nothing finds the kind site_fann; did you mean"),
        ("see: site_fan", "see: sitefan_*", "nothing finds the kind sitefan_*"),
        ("cause: site_fan", "cause: Site-Fan", "is no slug"),
        ("tray {n} of", "tray {n!r} of", "say has {n...}"),
    ],
)
def test_mistakes_of_causes(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in CAUSE
    found = problems(tmp_path, causes=CAUSE.replace(old, new))
    assert len(found) == 1, found
    assert found[0].startswith("causes/site.yaml:2: hardware.site_fan: ")
    assert said in found[0]


def test_twins_are_found(tmp_path: Path) -> None:
    signatures = SIGNATURE + SIGNATURE.split("\n", 1)[1].replace("site.fan", "site.twin")
    causes = CAUSE + CAUSE.split("\n", 1)[1].replace("hardware.site_fan", "hardware.site_twin")
    found = problems(tmp_path, signatures, causes)
    assert ["site.twin: has the pattern and kind of site.fan" in found[0], "says the same as" in found[1]] == [True] * 2


def test_known_kinds_are_those_of_signatures_derivations_and_live_sources() -> None:
    names = KindNames(load_rules().signatures)
    assert all(map(names.knows, ("xid_79", "xid_*", "sxid_12028", "missing_rank", "oom_kill", "unrecognised", "*")))
    assert all(map(names.knows, ("traceback_frame", "nvlink_link_down", "gpu_*", "mce_fatal", "foreign_disk_space")))
    assert not any(map(names.knows, ("xid", "mising_rank", "kuda_oom", "fan_*")))


def test_a_failing_test_of_a_rule_says_what_came_instead(tmp_path: Path) -> None:
    signatures = SIGNATURE.replace("['fan tray 3 is fine']", "['fan tray 3 is dead']").replace('{n: "4"}', '{n: "5"}')
    causes = CAUSE.replace("score: 6", "score: 0.1").replace("cause: site_fan", "cause: site_fan2")
    rules = alone(site(tmp_path / "site", signatures, causes))
    failed = [str(each) for each in run_tests(rules, [str(path) for path in tmp_path.glob("site/*/*.yaml")]).failed]
    assert len(failed) == 3
    assert "captures n='4', not '5'" in failed[0]
    assert "matches 'fan tray 3 is dead', which it must not" in failed[1]
    assert failed[2].startswith(f"{tmp_path}/site/causes/site.yaml:13: hardware.site_fan: the verdict is ")


def test_a_rule_that_is_the_verdict_for_what_it_must_not_be_is_told(tmp_path: Path) -> None:
    causes = CAUSE.replace("tray 3 is fine", "tray 3 is dead")
    rules = alone(site(tmp_path / "site", causes=causes))
    failed = [str(each) for each in run_tests(rules, [str(tmp_path / "site" / "causes" / "site.yaml")]).failed]
    assert len(failed) == 1
    assert "is the verdict" in failed[0]


def test_an_observed_rule_is_tested_too_and_gives_no_verdict(tmp_path: Path) -> None:
    causes = CAUSE.replace("action: replace_node\n", "action: replace_node\n    state: observe\n", 1)
    file = [str(tmp_path / "site" / "causes" / "site.yaml")]
    assert run_tests(alone(site(tmp_path / "site", causes=causes)), file).failed == []
    never = causes.replace("see: site_fan", "see: site_fan & site_fan@elsewhere")
    failed = run_tests(alone(site(tmp_path / "site", causes=never)), file).failed
    assert ["does not even hold" in str(each) for each in failed] == [True]


BOMB = "signatures: &a [" + "[" * 40 + "]" * 40 + "]\nx: *a\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("signatures: [", "is not YAML"),
        (BOMB, "aliases are not used"),
        ("signatures: " + "[" * 50_000, "nest"),
        ("signatures:\n  - {id: a.b, fnd: x}\n", "tests is missing"),
        (SIGNATURE.replace("find: site_fan", "find: site_fan\n    colour: red"), "unknown field colour"),
        ("# " + "x" * (2 << 20), "is larger than"),
        ("just a text", "must be a mapping"),
        ("", "must be a mapping"),
        ("\x00\x01", "is not YAML"),
        (SIGNATURE.replace("role: cause", "role: [cause]"), "must be a plain value"),
        (SIGNATURE.replace("'fan tray 3 is dead'", "{a: b}"), "must be a plain value"),
    ],
)
def test_files_that_cannot_be_used_are_refused_with_their_place(tmp_path: Path, text: str, said: str) -> None:
    folder = site(tmp_path / "site", text)
    with pytest.raises(PolicyRefused, match=said) as refused:
        alone(folder)
    assert str(folder / "signatures" / "site.yaml") in str(refused.value)


def test_a_missing_folder_and_too_many_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyRefused, match="is no folder of rules"):
        load_rules([tmp_path / "nowhere"], shipped=site(tmp_path / "site"))
    folder = tmp_path / "site"
    for n in range(200):
        (folder / "signatures" / f"{n}.yaml").write_text(EMPTY_SIGNATURES)
    with pytest.raises(PolicyRefused, match="more than 200 files"):
        alone(folder)


def test_an_overlay_switches_a_shipped_rule_off(tmp_path: Path) -> None:
    base = site(tmp_path / "base")
    over = site(tmp_path / "over", SIGNATURE.replace("role: cause", "role: cause\n    state: off"), "causes: []\n")
    rules = load_rules([over], shipped=base)
    assert [(each.signature_id, str(each.state)) for each in rules.signatures] == [("site.fan", "off")]
