"""Windows, quiet and resets: what ends a condition, and what does not."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fault_contracts.health import Component
from fault_contracts.payload import Health
from health_ingest.domain.condition import Condition, Phase
from health_ingest.domain.observe import observe
from health_ingest.domain.pass_time import pass_time
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.reset import Reset, boot, reset
from health_ingest.domain.ruling import Clears, Ruling, Weight
from health_ingest.domain.signal import Entity, Signal
from health_ingest.domain.times import alarm_at, forget_at, quiet_end, window_end

NOW = datetime(2030, 1, 1, tzinfo=UTC)
POLICY = ConditionPolicy()
GPU = Entity(node_id="n", component=Component.GPU, component_id="GPU-1", check="event")


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def ruled(clears: Clears, weight: Weight = Weight.PROBLEM, **more: object) -> Ruling:
    return Ruling(weight=weight, fault_class="event", clears=clears, rule_id="r", sentence="s", **more)


QUIET = ruled(Clears.QUIET, window_s=300.0, quiet_s=100.0)
RESET = ruled(Clears.RESET, Weight.FAILURE)


def bad(
    condition: Condition,
    ruling: Ruling,
    at_s: float,
    *,
    old: bool = False,
    boot_id: str = "b1",
    observed_s: float = -1,
    line: str = "",
) -> Condition:
    signal = Signal(
        signal_id=f"s{at_s}",
        entity=GPU,
        health=Health.BAD,
        detail="",
        code="event",
        observed_at=after(observed_s if observed_s >= 0 else at_s),
        old=old,
        boot_id=boot_id,
        attributes={"seq": line} if line else {},
    )
    return observe(condition, signal, now=after(at_s), policy=POLICY, ruling=ruling).condition


def test_an_event_ends_when_it_was_quiet_for_long_enough() -> None:
    condition = bad(Condition(entity=GPU), QUIET, 0)
    assert (window_end(condition, POLICY), quiet_end(condition, POLICY)) == (after(300), after(100))
    assert alarm_at(condition, POLICY) == after(100)
    step = pass_time(condition, now=after(100), policy=POLICY, heard_at=after(50))
    assert step.condition.phase is Phase.CLEAR
    assert step.reason.rule_id == "condition.quiet"


def test_quiet_on_a_node_that_is_not_heard_ends_nothing() -> None:
    condition = bad(Condition(entity=GPU), QUIET, 0)
    for heard_at in (None, NOW, after(-5)):
        step = pass_time(condition, now=after(100), policy=POLICY, heard_at=heard_at)
        assert step.reason.rule_id == "condition.silent"
        assert step.condition.deadline_at == after(160)


def test_a_node_that_was_heard_too_long_ago_is_unknown_again() -> None:
    lasting = ruled(Clears.QUIET, window_s=math.inf, quiet_s=5_000.0)
    condition = bad(Condition(entity=GPU), lasting, 0)
    assert pass_time(condition, now=after(5_000), policy=POLICY, heard_at=after(10)).effects == ()
    assert pass_time(condition, now=after(5_000), policy=POLICY, heard_at=after(4_990)).effects


def test_an_event_that_comes_again_and_again_outlasts_its_window() -> None:
    condition = bad(Condition(entity=GPU), QUIET, 0)
    for at_s in range(60, 300, 60):
        condition = bad(condition, QUIET, at_s)
        condition = pass_time(condition, now=after(at_s + 59), policy=POLICY, heard_at=after(at_s + 58)).condition
        assert condition.phase is Phase.PROBLEM
    step = pass_time(condition, now=after(300), policy=POLICY, heard_at=after(299))
    assert [each.tier for each in step.effects] == ["failure"]
    ended = pass_time(step.condition, now=after(400), policy=POLICY, heard_at=after(399))
    assert ended.condition.phase is Phase.CLEAR, "a failure by events ends by quiet too"


def test_silence_does_not_save_an_event_from_its_window() -> None:
    condition = bad(Condition(entity=GPU), QUIET, 0)
    step = pass_time(condition, now=after(300), policy=POLICY, heard_at=None)
    assert [each.tier for each in step.effects] == ["failure"]


def test_what_waits_for_a_reset_is_not_ended_by_good_samples_or_time() -> None:
    condition = bad(Condition(entity=GPU), RESET, 0)
    assert alarm_at(condition, POLICY) is None
    good = Signal(signal_id="g", entity=GPU, health=Health.OK, detail="", observed_at=after(5))
    for _ in range(10):
        step = observe(condition, good, now=after(5), policy=POLICY, ruling=RESET)
        assert step.condition.phase is Phase.FAILURE


def test_a_boot_ends_it_and_the_same_boot_does_not() -> None:
    condition = bad(Condition(entity=GPU), RESET, 0)
    same = reset(condition, boot("n", "b1", after(9), evidence_id="m"), now=after(9), policy=POLICY)
    assert same.condition.phase is Phase.FAILURE
    other = reset(condition, boot("m", "b2", after(9), evidence_id="m"), now=after(9), policy=POLICY)
    assert other.condition.phase is Phase.FAILURE
    new = reset(condition, boot("n", "b2", after(9), evidence_id="m"), now=after(9), policy=POLICY)
    assert new.condition.phase is Phase.CLEAR
    assert new.reason.evidence_ids == ("m",)


def test_a_reset_does_not_end_what_was_seen_after_it() -> None:
    condition = bad(Condition(entity=GPU), RESET, 10)
    event = Reset(node_id="n", component_id="GPU-1", at=after(5), sentence="s", evidence_id="m")
    assert reset(condition, event, now=after(11), policy=POLICY).condition.phase is Phase.FAILURE
    assert reset(condition, replace(event, at=after(11)), now=after(11), policy=POLICY).condition.phase is Phase.CLEAR


@pytest.mark.parametrize(
    ("ruling", "event", "ends"),
    [
        (QUIET, {}, False),
        (QUIET, {"fault_class": "event"}, True),
        (QUIET, {"fault_class": "other"}, False),
        (RESET, {"component_id": "GPU-2"}, False),
        (RESET, {}, True),
    ],
)
def test_a_reset_ends_what_it_is_about(ruling: Ruling, event: dict, ends: bool) -> None:
    condition = bad(Condition(entity=GPU), ruling, 0)
    happened = Reset(node_id="n", at=after(5), sentence="s", evidence_id="m", **event)
    assert bool(reset(condition, happened, now=after(6), policy=POLICY).effects) is ends


def test_an_old_log_does_not_raise_again_what_a_reset_ended() -> None:
    condition = bad(Condition(entity=GPU), RESET, 0)
    event = Reset(node_id="n", component_id="GPU-1", at=after(5), sentence="s", evidence_id="m")
    condition = reset(condition, event, now=after(6), policy=POLICY).condition
    again = bad(condition, RESET, 7, old=True, observed_s=0, line="1")
    assert again.phase is Phase.CLEAR
    assert forget_at(condition, POLICY) >= after(7 * 86_400)
    assert bad(condition, RESET, 8).phase is Phase.FAILURE


def test_an_old_event_starts_no_window_in_the_past() -> None:
    assert bad(Condition(entity=GPU), QUIET, 1_000, old=True, observed_s=0).phase is Phase.CLEAR
    tolerated = replace(RESET, weight=Weight.PROBLEM, window_s=60.0)
    held = bad(Condition(entity=GPU), tolerated, 1_000, old=True, observed_s=0, line="1")
    assert held.phase is Phase.PROBLEM
    assert window_end(held, POLICY) == after(1_060)


def test_a_counter_that_was_found_at_the_first_look_raises_nothing() -> None:
    found = bad(Condition(entity=GPU), RESET, 1_000, old=True)
    assert (found.phase, found.total) == (Phase.CLEAR, 1)
    assert bad(found, RESET, 1_030).phase is Phase.FAILURE


def test_a_record_that_is_counted_again_is_kept_longer() -> None:
    condition = bad(Condition(entity=GPU), replace(QUIET, weight=Weight.RECORD, window_s=None), 0)
    first = condition.deadline_at
    assert first is not None
    condition = bad(condition, replace(QUIET, weight=Weight.RECORD, window_s=None), 500)
    step = pass_time(condition, now=first, policy=POLICY)
    assert step.condition is not None
    assert pass_time(step.condition, now=step.condition.deadline_at, policy=POLICY).condition is None
