"""The table of checks: every built-in row is usable, an operator's row wins, and mistakes are named by line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from fault_contracts.faults import Action, Attribution
from health_ingest.adapters.check_policy_yaml import load_check_policy, parse_rows
from health_ingest.domain.ruling import Clears, Weight
from service_kit.errors import PermanentError

ROW = "- check: x\n  weight: problem\n  sentence: s\n  source: t\n"


def test_every_built_in_row_says_why_and_where_from() -> None:
    rows = load_check_policy().rows
    assert len(rows) > 40
    assert all(row.sentence and row.source for row in rows)


def test_nothing_acts_on_what_is_no_fault_of_the_machine() -> None:
    for row in load_check_policy().rows:
        if row.origin is Attribution.USER:
            assert row.action is Action.WAIT_OR_IGNORE, row.check
            assert row.weight is not Weight.FAILURE, row.check
            assert row.window_s in (None, math.inf), row.check


def test_what_is_only_recorded_asks_for_nothing() -> None:
    recorded = [row for row in load_check_policy().rows if row.weight is Weight.RECORD]
    assert recorded
    assert {row.action for row in recorded} == {Action.WAIT_OR_IGNORE}


@pytest.mark.parametrize(
    ("check", "weight", "action"),
    [
        ("gpu_lost", Weight.FAILURE, Action.REBOOT_NODE),
        ("gpu_row_remap_failure", Weight.FAILURE, Action.REPLACE_NODE),
        ("gpu_temperature_outlier", Weight.PROBLEM, Action.REPLACE_NODE),
        ("nvml_collector", Weight.PROBLEM, Action.WAIT_OR_IGNORE),
        ("oom_kill", Weight.RECORD, Action.WAIT_OR_IGNORE),
        ("mce_corrected", Weight.RECORD, Action.WAIT_OR_IGNORE),
        ("mce_uncorrected", Weight.FAILURE, Action.REBOOT_NODE),
    ],
)
def test_rows_that_steer_what_happens(check: str, weight: Weight, action: Action) -> None:
    row = load_check_policy().row_of(check)
    assert row is not None
    assert (row.weight, row.action) == (weight, action)


def test_a_check_that_nobody_knows_has_no_row() -> None:
    assert load_check_policy().row_of("something_new") is None


def test_an_operators_row_stands_before_the_built_in_one(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("- check: gpu_lost\n  weight: record\n  clears: quiet\n  quiet_s: 60\n  sentence: s\n  source: us\n")
    policy = load_check_policy(own)
    row = policy.row_of("gpu_lost")
    assert row is not None
    assert (row.weight, row.source) == (Weight.RECORD, "us")
    assert policy.row_of("gpu_count") is not None


def test_a_window_may_last_for_ever() -> None:
    (row,) = parse_rows(ROW + "  window_s: forever\n", "f")
    assert row.window_s == math.inf


def test_an_empty_file_has_no_rows() -> None:
    assert parse_rows("# nothing yet\n", "f") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("check: x", "list of rows"),
        ("- x", "line 1: a row is a mapping"),
        ("- check: x\n", "line 1: weight, sentence, source must be given"),
        (ROW + ROW, "line 5: x has a row already"),
        (ROW + "  colour: red\n", "unknown fields colour"),
        (ROW.replace("problem", "deadly"), "weight is 'deadly'; one of record, problem, failure"),
        (ROW + "  window_s: -1\n", "window_s must be seconds"),
        (ROW + "  window_s: .nan\n", "window_s must be seconds"),
        (ROW + "  clears: quiet\n", "quiet_s belongs to clears: quiet"),
        (ROW + "  quiet_s: 5\n", "quiet_s belongs to clears: quiet"),
        (ROW + "  clears: quiet\n  quiet_s: 60\n  window_s: 30\n", "window_s must be longer"),
        (ROW + "  repeats: {count: 5}\n", "repeats takes count and within_s"),
        (ROW + "  repeats: {count: 500, within_s: 5}\n", "repeats.count must be 2 to"),
        (ROW.replace("problem", "failure") + "  window_s: 5\n", "acts at once"),
        (ROW + "  sympathetic: maybe\n", "sympathetic must be true or false"),
        (ROW + "  good_samples_min: 0\n", "good_samples_min must be a whole number"),
        ("- {", "f line 2: is not YAML"),
    ],
)
def test_mistakes_are_named_with_their_line(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_rows(text, "f")


def test_a_file_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="PHALANX_CHECK_POLICY"):
        load_check_policy(tmp_path / "absent.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("- check: x\n")
    with pytest.raises(PermanentError, match="line 1"):
        load_check_policy(broken)


def test_clears_left_out_is_good_samples() -> None:
    (row,) = parse_rows(ROW, "f")
    assert (row.clears, row.good_samples_min, row.origin) == (Clears.GOOD_SAMPLES, None, Attribution.UNKNOWN)
