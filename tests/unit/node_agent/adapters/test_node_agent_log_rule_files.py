"""Rule files on disk: several as one, changed, broken and gone while the job runs."""

import os
from pathlib import Path

from node_agent.adapters import log_rules_yaml
from node_agent.adapters.log_rule_files import FILES_MAX, LogRuleFiles, rule_files_problem


def rules(*names: str, pattern: str = "error code") -> str:
    return "rules:\n" + "".join(
        f"  - {{name: {name}, kind: fault, mode: search, logPattern: '{pattern}'}}\n" for name in names
    )


def write(path: Path, text: str) -> Path:
    """Replace in one step, as editors and config maps do."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, path)
    return path


def test_several_files_are_one_list_and_a_name_is_used_once(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one.yaml", rules("a", "b")), write(tmp_path / "two.yaml", rules("b", "c"))
    file = LogRuleFiles([one, two, one]).load()
    assert [rule.name for rule in file.rules] == ["a", "b", "c"]
    assert [str(entry) for entry in file.refused] == [f"{two}: b: the name is already used in {one}"]


def test_limits_count_over_all_files(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{n}.yaml", rules(*(f"r{n}-{k}" for k in range(15)), pattern=r"\d+")) for n in range(2)]
    file = LogRuleFiles(paths).load()
    assert len(file.rules) == log_rules_yaml.EVERY_LINE_RULES_MAX
    assert len(file.refused) == 30 - log_rules_yaml.EVERY_LINE_RULES_MAX


def test_only_a_change_is_read_again(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one.yaml", rules("a")), write(tmp_path / "two.yaml", rules("b"))
    source = LogRuleFiles([one, two])
    assert len(source.load().rules) == 2
    assert source.reload() is None
    write(two, rules("b", "c"))
    file = source.reload()
    assert file is not None
    assert [rule.name for rule in file.rules] == ["a", "b", "c"]


def test_a_file_that_is_gone_or_broken_is_an_error_until_it_is_mended(tmp_path: Path) -> None:
    one = write(tmp_path / "one.yaml", rules("a"))
    source = LogRuleFiles([one])
    source.load()
    one.unlink()
    gone = source.reload()
    assert gone is not None
    assert "cannot be read: No such file" in str(gone.error)
    assert source.reload() is None, "told once"
    write(one, "rules: [")
    broken = source.reload()
    assert broken is not None
    assert "is not YAML" in str(broken.error)
    write(one, rules("a", "z"))
    mended = source.reload()
    assert mended is not None
    assert (mended.error, len(mended.rules)) == (None, 2)


def test_what_can_never_be_used_is_known_before_the_job_starts(tmp_path: Path) -> None:
    good = write(tmp_path / "good.yaml", rules("a") + "  - {name: b, kind: fault, logPattern: '('}\n")
    assert rule_files_problem([]) == ""
    assert rule_files_problem([good]) == "", "one bad rule does not stop a job"
    missing = tmp_path / "missing.yaml"
    assert rule_files_problem([good, missing]) == f"--log-rules: {missing}: cannot be read: No such file or directory"
    assert "is a directory" in rule_files_problem([tmp_path]).lower() or "regular" in rule_files_problem([tmp_path])
    assert "has no rules" in rule_files_problem([write(tmp_path / "x.yaml", "a: b\n")])
    assert f"at most {FILES_MAX}" in rule_files_problem([good] * (FILES_MAX + 1))
