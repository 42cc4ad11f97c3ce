"""Policies from files: our names, camel case, HyperPod's; and what is wrong, with its line."""

from pathlib import Path

import pytest

from fault_contracts.policy import RecoveryPolicy
from service_kit.recovery_policy_file import read_recovery_policy
from service_kit.yaml_fields import PolicyRefused

ROOT = Path(__file__).resolve().parents[3]


def read(tmp_path: Path, text: str) -> RecoveryPolicy:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    return read_recovery_policy(file)


def test_hyperpods_names_are_understood(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "spec:\n  runPolicy:\n    jobMaxRetryCount: 10\n    restartPolicy:\n      evalPeriodSeconds: 21600\n"
        "      numRestartBeforeFullJobRestart: 3\n      maxFullJobRestarts: 1\n    faultDeadlineSeconds: 600\n",
    )
    assert found == RecoveryPolicy(
        restarts_max=10, window_s=21_600, process_restarts_before_job=3, job_restarts_max=1, fault_deadline_s=600
    )


def test_camel_case_is_the_same(tmp_path: Path) -> None:
    assert read(tmp_path, "restartsMax: 3\nquietS: 60\n") == read(
        tmp_path, "recovery:\n  restarts_max: 3\n  quiet_s: 60\n"
    )


def test_the_example_is_sound() -> None:
    assert read_recovery_policy(ROOT / "examples" / "policy.yaml").causes


def test_the_page_names_every_field() -> None:
    page = (ROOT / "docs" / "policy.md").read_text()
    missing = [name for name in RecoveryPolicy.model_fields if f"`{name}`" not in page]
    assert missing == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("restarts_max: 3\nwindow_s: soon\n", ":2: window_s: "),
        ("restarts_max: 3\n\nretries: 3\n", ":3: unknown field retries; there are "),
        ("causes:\n  - cause: hang\n    levell: job\n", ":3: unknown field levell"),
        ("causes:\n  - cause: hang\n    level: huge\n", ":3: causes.0.level: "),
        ("a: &x 1\nb: *x\n", ":2: aliases are not used here"),
        ("a: [1\n", "is not YAML"),
        ("- 1\n", ":1: must be a mapping of fields"),
        ("", "is empty"),
        ("restarts_max: 3\nrestartsMax: 4\n", ":2: restartsMax is there twice"),
        ("jobMaxRetryCount: 3\nrestarts_max: 4\n", "say the same; keep one"),
        ("window_s: 90000000\n", ":1: window_s: "),
        ("job_restarts_max: 1\n", "needs process_restarts_before_job"),
        ("a: " + "[" * 40 + "]" * 40 + "\n", "nested deeper"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PolicyRefused, match=r"policy\.yaml") as refused:
        read(tmp_path, text)
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ["elastic: {nnodes_min: 2}", "repeat_offender: {}"])
def test_what_no_planner_acts_on_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(PolicyRefused, match="this version does not act on it"):
        read(tmp_path, text + "\n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyRefused, match="cannot be read"):
        read_recovery_policy(tmp_path / "none.yaml")
