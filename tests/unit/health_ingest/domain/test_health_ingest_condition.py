"""Stories of one entity: bad, good and unknown samples, time that passes, copies that come late."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from fault_contracts.health import Component, ConditionCleared, ConditionRaised
from fault_contracts.payload import Health
from health_ingest.domain.condition import SIGNAL_IDS_MAX, TRANSITIONS, Condition, Phase, Trigger
from health_ingest.domain.observe import observe
from health_ingest.domain.pass_time import pass_time
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.signal import Entity, Signal

START = datetime(2030, 1, 1, tzinfo=UTC)
DISK = Entity(node_id="node-1", component=Component.HOST, component_id="/scratch", check="disk_space")


@dataclass
class Story:
    """One condition and the clock."""

    policy: ConditionPolicy = field(default_factory=lambda: ConditionPolicy(tolerance_s=60, good_samples_min=3))
    condition: Condition | None = field(default_factory=lambda: Condition(entity=DISK))
    now: datetime = START
    ids: count = field(default_factory=count)
    rule: str = ""

    def see(self, health: Health, *, age_s: float = 0.0, signal_id: str = "") -> list:
        assert self.condition is not None
        signal = Signal(
            signal_id=signal_id or f"s{next(self.ids)}",
            entity=self.condition.entity,
            health=health,
            detail="97 % full",
            observed_at=self.now - timedelta(seconds=age_s),
        )
        return self.take(observe(self.condition, signal, now=self.now, policy=self.policy))

    def wait(self, duration_s: float) -> list:
        self.now += timedelta(seconds=duration_s)
        assert self.condition is not None
        return self.take(pass_time(self.condition, now=self.now, policy=self.policy))

    def take(self, result) -> list:
        self.condition, self.rule = result.condition, result.reason.rule_id
        return ["cleared" if isinstance(effect, ConditionCleared) else effect.tier.value for effect in result.effects]

    def bad(self, **more) -> list:
        self.now += timedelta(seconds=1)
        return self.see(Health.BAD, **more)

    def good(self, **more) -> list:
        self.now += timedelta(seconds=1)
        return self.see(Health.OK, **more)

    def unknown(self) -> list:
        self.now += timedelta(seconds=1)
        return self.see(Health.UNKNOWN)


def test_a_bad_sample_is_a_problem_and_repeats_only_count() -> None:
    story = Story()
    assert story.bad() == ["problem"]
    assert [story.bad() for _ in range(5)] == [[]] * 5
    assert story.condition is not None
    assert story.condition.count == 6


def test_a_problem_that_outlasts_its_window_is_a_failure_once() -> None:
    story = Story()
    story.bad()
    assert story.wait(59) == []
    assert story.wait(1) == ["failure"]
    assert story.wait(1_000) == []
    assert story.bad() == []


def test_the_failure_keeps_the_id_of_the_problem_and_tells_the_count() -> None:
    story = Story()
    signal = Signal(signal_id="s", entity=DISK, health=Health.BAD, detail="97 % full", observed_at=START)
    first = observe(story.condition, signal, now=START, policy=story.policy)
    second = observe(first.condition, Signal(**{**_fields(signal), "signal_id": "t"}), now=START, policy=story.policy)
    failed = pass_time(second.condition, now=START + timedelta(seconds=60), policy=story.policy)
    raised = [*first.effects, *failed.effects]
    assert all(isinstance(each, ConditionRaised) for each in raised)
    assert len({each.condition_id for each in raised}) == 1
    assert [each.count for each in raised] == [1, 2]
    assert "was bad 2 times and did not clear within its tolerance of 60 s" in raised[1].reason


def _fields(signal: Signal) -> dict:
    return {name: getattr(signal, name) for name in Signal.__dataclass_fields__}


def test_good_samples_in_a_row_clear_a_problem_and_one_is_not_enough() -> None:
    story = Story()
    story.bad()
    assert [story.good(), story.good(), story.good()] == [[], [], ["cleared"]]
    assert story.condition is not None
    assert story.condition.phase is Phase.CLEAR


def test_a_bad_sample_between_good_ones_starts_the_row_anew() -> None:
    story = Story()
    story.bad()
    assert [story.good(), story.good(), story.bad(), story.good(), story.good(), story.good()][-1] == ["cleared"]


def test_unknown_raises_nothing_clears_nothing_and_breaks_a_row() -> None:
    story = Story()
    assert story.unknown() == []
    assert story.condition == Condition(entity=DISK)
    story.bad()
    assert [story.unknown() for _ in range(10)] == [[]] * 10
    assert [story.good(), story.good(), story.unknown(), story.good(), story.good(), story.good()][3:] == [
        [],
        [],
        ["cleared"],
    ]


def test_silence_does_not_save_a_problem() -> None:
    story = Story()
    story.bad()
    story.unknown()
    assert story.wait(60) == ["failure"]


def test_old_good_samples_prove_nothing() -> None:
    story = Story()
    story.bad()
    assert [story.good(age_s=500) for _ in range(5)] == [[]] * 5
    assert story.rule == "condition.old_sample"


def test_a_good_sample_that_was_overtaken_by_a_bad_one_proves_nothing() -> None:
    story = Story()
    story.bad()
    assert story.good(age_s=5) == []
    assert story.rule == "condition.overtaken"


def test_a_failure_clears_by_good_samples_too() -> None:
    story = Story()
    story.bad()
    story.wait(60)
    assert [story.good(), story.good(), story.good()] == [[], [], ["cleared"]]


def test_a_cleared_condition_can_be_raised_again_with_a_new_id() -> None:
    story = Story()
    story.bad()
    assert story.condition is not None
    first = story.condition.condition_id
    for _ in range(3):
        story.good()
    assert story.bad() == ["problem"]
    assert story.condition.condition_id != first
    assert story.condition.count == 1


def test_a_copy_counts_once() -> None:
    story = Story()
    story.bad(signal_id="same")
    story.bad(signal_id="same")
    assert story.condition is not None
    assert story.condition.count == 1
    assert story.rule == "condition.seen"


def test_a_late_copy_of_a_bad_signal_does_not_raise_what_was_cleared() -> None:
    story = Story()
    story.bad()
    for _ in range(3):
        story.good()
    assert story.bad(age_s=4) == []
    assert story.rule == "condition.overtaken"


def test_a_storm_is_one_condition_in_bounded_memory() -> None:
    story = Story()
    effects = [effect for _ in range(50) for effect in story.bad()]
    for _ in range(1_000):
        effects += story.see(Health.BAD)
    assert effects == ["problem"]
    assert story.condition is not None
    assert story.condition.count == 1_050
    assert len(story.condition.signal_ids) == SIGNAL_IDS_MAX


def test_checks_have_windows_of_their_own() -> None:
    story = Story(policy=ConditionPolicy(tolerance_s=60, tolerance_s_by_check={"disk_space": 5}))
    story.bad()
    assert story.wait(5) == ["failure"]


def test_a_check_without_tolerance_is_a_failure_at_once() -> None:
    story = Story(policy=ConditionPolicy(at_once=frozenset({"disk_space"})))
    assert story.bad() == ["failure"]
    assert [story.good(), story.good(), story.good()] == [[], [], ["cleared"]]


def test_a_check_that_lost_its_tolerance_turns_a_standing_problem_into_a_failure() -> None:
    story = Story()
    story.bad()
    story.policy = ConditionPolicy(at_once=frozenset({"disk_space"}))
    assert story.bad() == ["failure"]


def test_a_cleared_record_is_dropped_after_a_while_and_not_before() -> None:
    story = Story()
    story.bad()
    for _ in range(3):
        story.good()
    assert story.wait(3_599) == []
    assert story.condition is not None
    assert story.wait(1) == []
    assert story.condition is None


def test_the_table_has_no_way_to_clear_what_was_never_raised() -> None:
    assert (Phase.CLEAR, Trigger.GOOD_ENOUGH) not in TRANSITIONS
    assert (Phase.CLEAR, Trigger.WINDOW_PASSED) not in TRANSITIONS
    assert {target for (_, trigger), target in TRANSITIONS.items() if trigger is Trigger.GOOD_ENOUGH} == {Phase.CLEAR}


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"tolerance_s": 0}, "tolerance_s"),
        ({"tolerance_s": 1e9}, "tolerance_s"),
        ({"tolerance_s_by_check": {"xid_63": -1}}, "xid_63"),
        ({"good_samples_min": 0}, "good_samples_min"),
        ({"sample_age_s_max": float("nan")}, "sample_age_s_max"),
        ({"forget_after_s": 60}, "forget_after_s"),
        ({"tolerance_s_by_check": {"worker_exit": 5}}, "worker_exit"),
    ],
)
def test_settings_that_would_make_it_wrong_are_refused(bad: dict, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        ConditionPolicy(**bad)
