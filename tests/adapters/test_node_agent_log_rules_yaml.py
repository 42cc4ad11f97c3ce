"""Rule files: HyperPod's run as they are, ours say more, and what is wrong is refused with its line."""

import os
import time
from pathlib import Path

import pytest
import yaml

from node_agent.adapters.log_rules_yaml import FILE_BYTES_MAX, RULES_MAX, YamlRuleFile, parse_rules
from node_agent.application.log_ports import RuleFile
from node_agent.domain.log_rule import (
    ExpectedFrom,
    LogStream,
    MatchMode,
    MetricCondition,
    NonFinite,
    Operator,
    RankSelector,
    RuleAction,
    RuleKind,
)

HYPERPOD = r"""
apiVersion: sagemaker.amazonaws.com/v1
kind: HyperPodPyTorchJob
spec:
  nprocPerNode: "8"
  runPolicy:
    jobMaxRetryCount: 50
    logMonitoringConfiguration:
      - name: "JobStart"
        logPattern: ".*Experiment configuration.*"
        expectedStartCutOffInSeconds: 120
      - name: "JobHangingDetection"
        logPattern: ".*\\[Epoch 0 Batch \\d+.*'training_loss_step': (\\d+(\\.\\d+)?).*"
        expectedRecurringFrequencyInSeconds: 300
        expectedStartCutOffInSeconds: 600
      - name: "LowThroughputDetection"
        logPattern: ".*throughput: (\\d+(?:\\.\\d+)?) samples/sec.*"
        metricThreshold: 80
        operator: "lteq"
        metricEvaluationDataPoints: 25
      - name: "GPU Error"
        logPattern: ".*RuntimeError.*out of memory.*"
        faultOnMatch: true
  replicaSpecs: []
"""


def read(text: str) -> RuleFile:
    return parse_rules(text.encode(), "rules.yaml")


def refusals(text: str) -> list[tuple[int, str]]:
    file = read(text)
    assert file.error is None
    return [(each.line, each.reason) for each in file.refused]


def ours(*fields: str) -> str:
    """A file of ours with one rule; the rule begins in line 2."""
    return "rules:\n  - " + "\n    ".join(fields) + "\n"


# --------------------------------------------------------------------------------------------- HyperPod's files


def test_a_whole_hyperpod_manifest_is_read_unchanged() -> None:
    file = read(HYPERPOD)
    assert (file.error, file.refused, file.notices) == (None, (), ())
    start, hanging, slow, fault = file.rules
    assert [each.name for each in file.rules] == [
        "JobStart",
        "JobHangingDetection",
        "LowThroughputDetection",
        "GPU Error",
    ]
    assert [each.kind for each in file.rules] == [RuleKind.HANG, RuleKind.HANG, RuleKind.METRIC, RuleKind.FAULT]
    assert {each.action for each in file.rules} == {RuleAction.FAULT}
    assert {each.mode for each in file.rules} == {MatchMode.MATCH}
    assert (start.start_cut_off_s, start.recurring_s) == (120.0, None)
    assert (hanging.start_cut_off_s, hanging.recurring_s) == (600.0, 300.0)
    assert slow.metric == MetricCondition(operator=Operator.LTEQ, threshold=80.0, data_points=25)
    assert fault.fault_on_match


@pytest.mark.parametrize(
    "wrapped",
    [
        "- {name: a, logPattern: b, faultOnMatch: true}",
        "logMonitoringConfiguration:\n- {name: a, logPattern: b, faultOnMatch: true}",
        "runPolicy:\n  logMonitoringConfiguration:\n  - {name: a, logPattern: b, faultOnMatch: true}",
        "kind: Service\n---\nspec: {runPolicy: {logMonitoringConfiguration: [{name: a, logPattern: b}]}}",
    ],
)
def test_any_excerpt_of_a_manifest_is_understood(wrapped: str) -> None:
    assert [each.name for each in read(wrapped).rules] == ["a"]


def test_hyperpod_s_leniencies() -> None:
    file = read(
        "- {name: text, logPattern: 'x (.*)', metricThreshold: '2.5', operator: gt, stopPattern: null}\n"
        "- {name: half, logPattern: 'x', metricThreshold: 2}\n"
        "- {name: idle, logPattern: 'xyz', colour: blue}\n"
        "- {name: none, logPattern: 'xyz', metricThreshold: 2, operator: gt}\n"
    )
    assert [each.name for each in file.rules] == ["text", "half", "idle", "none"]
    assert file.rules[0].metric == MetricCondition(operator=Operator.GT, threshold=2.5)
    assert file.rules[1].metric is None
    said = [f"{each.rule}: {each.reason}" for each in file.notices]
    assert "half: metricThreshold and operator go together; the metric is not judged" in said
    assert "idle: unknown field colour" in said
    assert "none: logPattern captures no metric; put its number in parentheses" in said


# ---------------------------------------------------------------------------------------------------- our files


def test_everything_that_ours_adds() -> None:
    file = read(
        ours(
            "name: rate",
            "description: falls behind itself",
            r"logPattern: 'throughput (\S+)'",
            "kind: metric",
            "action: fault",
            "mode: search",
            "streams: stderr",
            "ranks: [0, '8-15']",
            "localRanks: 0-3, 7",
            "expectedStartCutOffInSeconds: 60",
            "expectedFrom: each",
            "stopPattern: bye",
            "relativeThreshold: 0.8",
            "relativeWindowPoints: 20",
            "operator: lt",
            "nonFinite: [nan, .inf]",
            "metricEvaluationDataPoints: 5",
            "cooldownInSeconds: 1.5",
        )
    )
    assert (file.error, file.refused, file.notices) == (None, (), ())
    (rule,) = file.rules
    assert (rule.kind, rule.action, rule.mode) == (RuleKind.METRIC, RuleAction.FAULT, MatchMode.SEARCH)
    assert rule.streams == {LogStream.STDERR}
    assert rule.selector == RankSelector(ranks=(range(1), range(8, 16)), local_ranks=(range(4), range(7, 8)))
    assert (rule.start_cut_off_s, rule.expected_from, rule.cooldown_s) == (60.0, ExpectedFrom.EACH, 1.5)
    assert rule.metric == MetricCondition(
        operator=Operator.LT,
        relative_to_median=0.8,
        window_points=20,
        points_min=10,
        non_finite=frozenset(NonFinite),
        data_points=5,
    )


def test_our_rules_do_nothing_but_alert_unless_they_say_more() -> None:
    (rule,) = read(ours("name: a", "logPattern: abc", "kind: fault")).rules
    assert (rule.action, rule.fault_on_match, rule.streams) == (RuleAction.ALERT, True, frozenset(LogStream))


@pytest.mark.parametrize(
    ("fields", "line", "said"),
    [
        (["logPattern: abc", "kind: fault"], 2, "name is missing"),
        (["name: a", "kind: fault"], 2, "logPattern is missing"),
        (["name: a", "logPattern: abc"], 2, "kind is missing, and nothing in the rule tells it"),
        (
            ["name: a", "logPattern: abc", "kind: fautl"],
            4,
            "kind must be one of metric, hang, fault, checkpoint, progress",
        ),
        (["name: a", "logPattern: abc", "kind: fault", "colour: blue"], 5, "unknown field colour"),
        (["name: a", "logPattern: abc", "kind: fault", "kind: hang"], 5, "kind is given twice"),
        (["name: 5", "logPattern: abc", "kind: fault"], 2, "name must be text, not 5; quote it"),
        (["name: a", "logPattern: [abc]", "kind: fault"], 3, "logPattern must be text"),
        (["name: a", "logPattern: {x: y}", "kind: fault"], 3, "a plain value"),
        (["name: a", "logPattern: abc", "faultOnMatch: 'false'"], 4, "faultOnMatch must be true or false, not 'false'"),
        (["name: a", "logPattern: abc", "kind: hang"], 4, "a hang rule needs"),
        (["name: a", "logPattern: abc", "expectedStartCutOffInSeconds: soon"], 4, "must be a number, not 'soon'"),
        (["name: a", "logPattern: abc", "expectedStartCutOffInSeconds: true"], 4, "must be a number, not True"),
        (["name: a", "logPattern: abc", "expectedStartCutOffInSeconds: 0"], 2, "must be greater than 0"),
        (["name: a", "logPattern: abc", "expectedStartCutOffInSeconds: .inf"], 4, "must be a finite number"),
        (["name: a", "logPattern: abc", f"expectedStartCutOffInSeconds: 1{'0' * 400}"], 4, "must be a finite number"),
        (["name: a", "logPattern: (abc)", "metricThreshold: 1", "operator: over"], 5, "operator must be one of gt, lt"),
        (["name: a", "logPattern: (abc)", "metricThreshold: 1"], 2, "go together"),
        (["name: a", "logPattern: abc", "metricThreshold: 1", "operator: gt"], 3, "captures no metric"),
        (["name: a", "logPattern: (abc)", "nonFinite: [nil]"], 4, "nonFinite must be one of nan, inf"),
        (["name: a", "logPattern: (abc)", "nonFinite: nan", "metricEvaluationDataPoints: 1.5"], 5, "a whole number"),
        (["name: a", "logPattern: abc", "kind: progress"], 3, "captures no step"),
        (["name: a", "logPattern: '(?P<path>abc)'", "kind: checkpoint"], 3, "captures no step"),
        (["name: a", "logPattern: '(abc)'", "kind: checkpoint", "checkpointKind: both"], 5, "model or data"),
        (["name: a", "logPattern: 'a(b'", "kind: fault"], 3, "missing )"),
        (
            ["name: a", "logPattern: abc", "stopPattern: '(?!x)'", "kind: fault"],
            4,
            "stopPattern: the pattern is not accepted",
        ),
        (["name: a", "logPattern: abc", "kind: fault", "ranks: 7-0"], 5, "ends before it begins"),
        (["name: a", "logPattern: abc", "kind: fault", "ranks: -1"], 5, "ranges like 0-7"),
        (["name: a", "logPattern: abc", "kind: fault", "ranks: []"], 5, "1 to 256"),
        (["name: a", "logPattern: abc", "kind: fault", "streams: [stdin]"], 5, "streams must be one of stdout, stderr"),
        (["name: a", "logPattern: !!python/object:os.system abc", "kind: fault"], 3, "logPattern cannot be read"),
        (
            ["name: a", "logPattern: abc", "kind: fault", "cooldownInSeconds: !!int x"],
            5,
            "cooldownInSeconds cannot be read",
        ),
        (["name: a", "logPattern: abc", "kind: fault", "? [x]\n    : y"], 5, "a field's name must be a word"),
    ],
)
def test_a_bad_rule_is_refused_with_its_line_and_the_others_stay(fields: list[str], line: int, said: str) -> None:
    text = ours(*fields) + "  - {name: good, logPattern: abc, kind: fault}\n"
    assert [each.name for each in read(text).rules] == ["good"]
    found = refusals(text)
    assert [(at, reason) for at, reason in found if said in reason], found
    assert found[0][0] == line, found


def test_a_name_is_used_once() -> None:
    text = "rules:\n" + "".join(f"- {{name: {name}, logPattern: abc, kind: fault}}\n" for name in "aba")
    assert [each.name for each in read(text).rules] == ["a", "b"]
    assert refusals(text) == [(4, "the name is already used in line 2")]


def test_a_refusal_reads_like_a_compiler_s() -> None:
    (refused,) = read(ours("name: spike", "logPattern: 'a(b'", "kind: fault")).refused
    assert str(refused) == "rules.yaml:3: spike: logPattern: the pattern is not accepted: missing ): a(b"


# -------------------------------------------------------------------------------------------------- hostile files


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "has no rules"),
        (b"rules: 5", "the rules must be a list"),
        (b"{a: b}", "has no rules"),
        (b"\x00", "is not YAML"),
        (b"rules: [\xff]", "is not UTF-8 (byte 8)"),
        (b"rules:\n  - {name: a\n  b", "is not YAML"),
        (b"rules: *nothing", "is not YAML"),
        (b"[" * 50_000, "rules.yaml:1: is nested more than 50 deep"),
        (b"rules:\n- [" + b"a, " * 80_000 + b"]", "rules.yaml:2: has more than 20000 values"),
        (b"x" * (FILE_BYTES_MAX + 1), "is larger than"),
    ],
)
def test_a_file_that_is_no_rule_file_is_refused_whole(data: bytes, said: str) -> None:
    file = parse_rules(data, "rules.yaml")
    assert file.error is not None
    assert said in str(file.error)
    assert file.rules == ()


def test_a_yaml_bomb_is_not_expanded() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"] + [
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)
    ]
    text = "\n".join([*levels, "rules:", "- {name: a, logPattern: *a11, kind: fault}", "- *a11"])
    began_s = time.process_time()
    found = refusals(text)
    assert time.process_time() - began_s < 2.0
    assert "plain value" in found[0][1]
    assert found[1][1] == "a rule must be a mapping of fields"


def test_a_list_that_holds_itself_is_refused() -> None:
    assert read("rules: &r\n- *r\n").refused[0].reason == "a rule must be a mapping of fields"


def test_too_many_rules_are_cut_and_too_many_complaints_too() -> None:
    many = "rules:\n" + "".join(f"- {{name: r{n}, logPattern: abc, kind: fault}}\n" for n in range(RULES_MAX + 3))
    assert len(read(many).rules) == RULES_MAX
    assert refusals(many)[0][1] == f"there are more than {RULES_MAX} rules"
    noise = "rules:\n" + "- x\n" * 5_000
    assert len(read(noise).refused) == 100


def test_patterns_without_fixed_text_are_noticed_and_counted() -> None:
    text = "rules:\n" + "".join(f"- {{name: r{n}, logPattern: '\\d+', kind: fault}}\n" for n in range(21))
    file = read(text)
    assert len(file.rules) == 20
    assert "tried on every line" in file.notices[0].reason
    assert "at most 20" in file.refused[0].reason


# ------------------------------------------------------------------------------------------------------- reload


def write(path: Path, text: str) -> None:
    """As an editor does: a new file in the place of the old one."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def test_a_file_is_read_again_when_it_changed_and_only_then(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    write(path, ours("name: a", "logPattern: abc", "kind: fault"))
    source = YamlRuleFile(path)
    assert [each.name for each in source.load().rules] == ["a"]
    assert source.reload() is None
    write(path, ours("name: b", "logPattern: abc", "kind: fault"))
    changed = source.reload()
    assert changed is not None
    assert [each.name for each in changed.rules] == ["b"]
    assert source.reload() is None
    assert [each.name for each in source.load().rules] == ["b"], "load always reads"


def test_a_broken_or_missing_file_is_told_once_and_read_when_it_is_back(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    source = YamlRuleFile(path)
    missing = source.load()
    assert missing.error is not None
    assert str(missing.error) == f"{path}: cannot be read: No such file or directory"
    assert source.reload() is None
    write(path, "rules: [")
    broken = source.reload()
    assert broken is not None
    assert broken.error is not None
    assert broken.error.line == 1
    assert source.reload() is None
    write(path, ours("name: a", "logPattern: abc", "kind: fault"))
    mended = source.reload()
    assert mended is not None
    assert len(mended.rules) == 1


def test_a_fifo_or_folder_does_not_hold_the_agent(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path, said in ((fifo, "is not a regular file"), (tmp_path, "cannot be read: Is a directory")):
        error = YamlRuleFile(path).load().error
        assert error is not None
        assert said in str(error)


def test_the_examples_of_the_manual_are_good_rules() -> None:
    manual = Path(__file__).parents[2] / "docs" / "log-rules.md"
    blocks = [part.split("```")[0] for part in manual.read_text().split("```yaml\n")[1:]]
    assert len(blocks) == 4, "a block that is not found would not be tried"
    for block in blocks:
        file = read(block)
        assert (file.error, file.refused, file.notices) == (None, (), ()), block
        assert file.rules
        assert yaml.safe_load(block) is not None
