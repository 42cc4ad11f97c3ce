"""Many signals of one device in one step: each counted once, whatever comes again, and storms judged in few steps."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fault_contracts.faults import Action, Attribution
from fault_contracts.health import Component, ConditionRaised
from fault_contracts.payload import Health
from health_ingest.domain.applied import RUNS_MAX, Place, joined_runs
from health_ingest.domain.check_policy import CheckPolicy, CheckRow, Repeats
from health_ingest.domain.condition import CODES_MAX, Condition, Phase
from health_ingest.domain.fold import BatchPlace, TooManyHoles, fold, gathered
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.rulebook import Rulebook, Weighed
from health_ingest.domain.ruling import Clears, Weight
from health_ingest.domain.signal import Entity, Signal
from health_ingest.domain.xid_rows import XidPolicy

NOW = datetime(2030, 1, 1, tzinfo=UTC)
POLICY = ConditionPolicy()


def row(check: str, weight: Weight = Weight.PROBLEM, **more: object) -> CheckRow:
    return CheckRow(check=check, weight=weight, sentence=f"{check} is bad", source="test", **more)


def book(*rows: CheckRow, limits: ConditionPolicy = POLICY) -> Rulebook:
    return Rulebook(limits=limits, checks=CheckPolicy(rows=rows), driver=XidPolicy())


def raw(sequence: int, check: str = "link", *, health: Health = Health.BAD, **more: object) -> Signal:
    more.setdefault("observed_at", NOW + timedelta(milliseconds=sequence))
    return Signal(
        signal_id=f"m{sequence}",
        entity=Entity(node_id="n", component=Component.GPU, component_id="GPU-1", check=check),
        health=health,
        detail="",
        code=check,
        place=Place(life="a", sequence=sequence),
        **more,
    )


def take(condition: Condition, signals: list[Signal], rulebook: Rulebook, *, settled: int = 0, policy=POLICY):
    weighed = [rulebook.classed(each, now=NOW) for each in signals]
    runs = joined_runs((each.place.sequence, each.place.sequence) for each in signals)
    place = BatchPlace(life="a", runs=runs, settled=settled)
    return fold(condition, weighed, batch=place, rulebook=rulebook, now=NOW, policy=policy)


def fresh(check: str = "link") -> Condition:
    return Condition(entity=Entity(node_id="n", component=Component.GPU, component_id="GPU-1", check=check))


def test_a_storm_is_one_condition_with_an_exact_count() -> None:
    step = take(fresh(), [raw(n, count=2) for n in range(1, 1_001)], book())
    assert [each.tier for each in step.effects] == ["problem"]
    assert (step.condition.count, step.condition.total) == (2_000, 2_000)
    assert step.condition.applied.runs == ((1, 1_000),)


def test_a_batch_that_comes_again_in_part_counts_only_what_is_new() -> None:
    first = take(fresh(), [raw(n) for n in range(1, 101)], book())
    again = take(first.condition, [raw(n) for n in range(50, 151)], book())
    assert again.condition.total == 150
    assert again.effects == ()


def test_a_batch_that_comes_again_whole_changes_nothing() -> None:
    first = take(fresh(), [raw(n) for n in range(1, 101)], book())
    again = take(first.condition, [raw(n) for n in range(1, 101)], book())
    assert again.condition == first.condition


@pytest.mark.parametrize("seed", range(10))
def test_any_order_of_copies_over_replicas_gives_the_same_count(seed: int) -> None:
    chance = random.Random(seed)
    todo = [n for n in range(1, 301) for _ in range(chance.randint(1, 3))]
    chance.shuffle(todo)
    condition, raised = fresh(), []
    while todo:
        numbers = sorted({todo.pop() for _ in range(min(len(todo), 17))})
        step = take(condition, [raw(n, count=n % 4 + 1) for n in numbers], book())
        condition = step.condition
        raised += step.effects
    assert condition.total == sum(n % 4 + 1 for n in range(1, 301))
    assert len(raised) == 1


def test_folding_equal_signals_comes_to_the_same_as_taking_them_one_by_one() -> None:
    rows = (row("link", repeats=Repeats(count=5, within_s=60)),)
    signals = [raw(n) for n in range(1, 40)]
    together = take(fresh(), signals, book(*rows))
    single = fresh()
    effects = []
    for each in signals:
        step = take(single, [each], book(*rows))
        single = step.condition
        effects += step.effects
    assert [each.tier for each in together.effects] == [each.tier for each in effects] == ["problem", "failure"]
    assert together.condition.total == single.total
    assert together.condition.phase is single.phase is Phase.FAILURE


def test_signals_that_differ_in_what_a_policy_reads_are_judged_apart() -> None:
    rulebook = book()
    signals = [raw(n, attributes={"pid": str(n % 2), "seq": str(n)}) for n in range(1, 11)]
    weighed = [Weighed(entity=each.entity, raw=each) for each in signals]
    assert sorted(each.raw.count for each in gathered(weighed, rulebook)) == [1, 1, 4, 4]


def test_a_good_sample_between_two_bad_ones_stays_between_them() -> None:
    signals = [raw(1), raw(2), raw(3, health=Health.OK), raw(4), raw(5)]
    weighed = [Weighed(entity=each.entity, raw=each) for each in signals]
    healths = [each.raw.health for each in gathered(weighed, book())]
    assert healths == ["bad", "bad", "ok", "bad", "bad"]


def test_several_codes_of_one_class_are_one_condition_with_its_codes() -> None:
    rulebook = book(row("a", fault_class="link"), row("b", fault_class="link"))
    signals = [raw(1, "a"), raw(2, "b"), raw(3, "b")]
    classed = {rulebook.classed(each, now=NOW).entity.check for each in signals}
    assert classed == {"link"}
    step = take(fresh(), signals, rulebook)
    assert dict(step.condition.codes) == {"a": 1, "b": 2}


def test_what_is_good_of_a_class_does_not_clear_what_is_bad_of_it() -> None:
    rulebook = book(row("a", fault_class="link"), row("b", fault_class="link"))
    bad = take(fresh(), [raw(1, "a")], rulebook).condition
    good = take(bad, [raw(n, "b", health=Health.OK) for n in range(2, 9)], rulebook)
    assert good.condition.phase is Phase.PROBLEM
    cleared = take(bad, [raw(n, "a", health=Health.OK) for n in range(2, 9)], rulebook)
    assert cleared.condition.phase is Phase.CLEAR


def test_codes_are_bounded_and_their_sum_is_exact() -> None:
    condition = take(fresh(), [raw(n, "link", attributes={"x": str(n)}) for n in range(1, 4)], book()).condition
    signals = [replace(raw(n), code=f"code_{n}") for n in range(10, 110)]
    grown = take(condition, signals, book()).condition
    assert len(grown.codes) <= CODES_MAX
    assert sum(count for _, count in grown.codes) == grown.total == 103


def test_too_many_holes_take_nothing_in() -> None:
    condition = take(fresh(), [raw(1)], book()).condition
    signals = [raw(n * 2 + 10) for n in range(RUNS_MAX + 1)]
    with pytest.raises(TooManyHoles):
        take(condition, signals, book())
    # The floor moved on: the oldest of them is settled, and there is room again.
    assert take(condition, signals, book(), settled=10).condition.total == RUNS_MAX + 2


def test_a_consequence_of_something_else_is_never_a_failure() -> None:
    step = take(fresh(), [raw(1)], book(row("link", Weight.FAILURE, sympathetic=True)))
    assert [each.tier for each in step.effects] == ["problem"]
    assert step.effects[0].device.sympathetic


def test_an_operators_tolerance_wins_over_the_row() -> None:
    limits = ConditionPolicy(tolerance_s_by_check={"link": 7.0})
    step = take(fresh(), [raw(1)], book(row("link", window_s=math.inf), limits=limits), policy=limits)
    assert step.condition.ruling.window_s == 7.0


def test_the_device_is_told_with_what_the_policy_thinks() -> None:
    rows = row("link", origin=Attribution.HARDWARE, action=Action.RESET_GPU)
    (told,) = take(fresh(), [raw(1, attributes={"board_serial": "4711", "pid": "x"})], book(rows)).effects
    assert isinstance(told, ConditionRaised)
    assert (told.device.board_serial, told.device.pid, told.device.gpu_uuid) == ("4711", None, "GPU-1")
    assert (told.device.origin, told.device.action, told.device.source) == ("hardware", "reset_gpu", "test")


def test_a_graver_signal_of_the_class_makes_a_failure_and_is_told_as_its_cause() -> None:
    rulebook = book(row("a", fault_class="link"), row("b", Weight.FAILURE, fault_class="link"))
    step = take(fresh(), [raw(1, "a"), raw(2, "b")], rulebook)
    assert [each.tier for each in step.effects] == ["problem", "failure"]
    assert step.effects[1].device.rule_id == "check.b"
    assert step.condition.cause.code == "b"


def test_an_unknown_check_blames_nobody_and_asks_for_nothing() -> None:
    (told,) = take(fresh(), [raw(1)], book()).effects
    assert (told.tier, told.device.origin, told.device.action) == ("problem", "unknown", "wait_or_ignore")


def test_a_record_row_with_clears_quiet_is_counted() -> None:
    rows = row("link", Weight.RECORD, clears=Clears.QUIET, quiet_s=60.0)
    step = take(fresh(), [raw(n) for n in range(1, 11)], book(rows))
    assert step.effects == ()
    assert (step.condition.phase, step.condition.total) == (Phase.CLEAR, 10)
