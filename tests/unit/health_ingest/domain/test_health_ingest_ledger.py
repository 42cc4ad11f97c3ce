"""Strikes, decay, quarantine and probation of one device."""

from datetime import UTC, datetime, timedelta

import pytest

from fault_contracts.hardware import EVIDENCE_KEPT, STRIKES_KEPT, HardwareChange, Hold, LedgerEntry, Strike
from fault_contracts.inventory import DeviceIdentity, DeviceKind
from fault_contracts.payload import Reason
from health_ingest.domain.ledger import (
    LedgerPolicy,
    Step,
    identified,
    pass_time,
    quarantine,
    release,
    score_at,
    seen,
    strike,
)

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
POLICY = LedgerPolicy()
NEW = LedgerEntry(device_id="GPU-1")
WHY = Reason(rule_id="ledger.person", sentence="smells")


def hit(entry: LedgerEntry, evidence: str, at: datetime = NOON, *, replaces: bool = False, **more: object) -> Step:
    blow = Strike(evidence_id=evidence, node_id="a", check="xid_48", reason="double bit error", struck_at=at)
    return strike(entry, blow, replaces=replaces, now=more.pop("now", at), policy=POLICY, **more)  # type: ignore[arg-type]


def changes(step: Step) -> list[str]:
    return [effect.change.value for effect in step.effects]


def test_a_strike_is_counted_once_and_decays_by_half() -> None:
    once = hit(NEW, "c1")
    assert changes(once) == ["struck"]
    assert once.entry.hold is Hold.FREE
    again = hit(once.entry, "c1")
    assert again.entry is once.entry
    assert again.effects == ()
    assert score_at(once.entry, NOON + 14 * DAY, POLICY) == pytest.approx(0.5)


def test_three_strikes_within_a_week_quarantine_and_three_in_a_year_do_not() -> None:
    entry = NEW
    for day in (0, 3, 6):
        step = hit(entry, f"c{day}", NOON + day * DAY)
        entry = step.entry
    assert entry.hold is Hold.QUARANTINED
    assert changes(step) == ["struck", "quarantined"]
    assert entry.until is None
    assert entry.by == "health-ingest"
    assert "3 strikes" in (entry.reason.sentence if entry.reason else "")
    entry = NEW
    for day in (0, 120, 240):
        entry = hit(entry, f"c{day}", NOON + day * DAY).entry
    assert entry.hold is Hold.FREE
    assert entry.strikes_total == 3


def test_a_ruling_that_wants_it_replaced_quarantines_at_the_first_strike() -> None:
    step = hit(NEW, "c1", replaces=True)
    assert step.entry.hold is Hold.QUARANTINED
    assert step.reason.rule_id == "ledger.replace"


def test_a_verdict_about_a_counted_condition_is_no_second_strike_in_either_order() -> None:
    after = hit(hit(NEW, "cond").entry, "fault", also=("cond",))
    assert after.entry.strikes_total == 1
    before = hit(hit(NEW, "fault", also=("cond",)).entry, "cond")
    assert before.entry.strikes_total == 1


def test_a_late_report_of_an_old_failure_counts_what_it_is_worth_by_now() -> None:
    fresh = hit(NEW, "c1", NOON).entry
    late = hit(fresh, "c0", NOON - 14 * DAY, now=NOON).entry
    assert late.score == pytest.approx(1.5)
    assert late.scored_at == NOON


def test_a_person_holds_until_a_date_then_probation_then_free() -> None:
    held = quarantine(NEW, by="alice", reason=WHY, until=NOON + DAY, now=NOON)
    assert (held.entry.hold, held.entry.by, held.entry.until) == (Hold.QUARANTINED, "alice", NOON + DAY)
    assert quarantine(held.entry, by="alice", reason=WHY, until=NOON + DAY, now=NOON).effects == ()
    assert pass_time(held.entry, now=NOON, policy=POLICY).effects == ()
    on_trial = pass_time(held.entry, now=NOON + DAY, policy=POLICY)
    assert changes(on_trial) == ["probation"]
    assert on_trial.entry.until == NOON + 8 * DAY
    free = pass_time(on_trial.entry, now=NOON + 8 * DAY, policy=POLICY)
    assert changes(free) == ["released"]
    assert (free.entry.hold, free.entry.until) == (Hold.FREE, None)
    assert pass_time(free.entry, now=NOON + 99 * DAY, policy=POLICY).effects == ()


def test_without_a_date_no_time_releases_it() -> None:
    held = quarantine(NEW, by="alice", reason=WHY, until=None, now=NOON).entry
    assert pass_time(held, now=NOON + 1_000 * DAY, policy=POLICY).entry is held


def test_one_strike_in_probation_puts_it_back() -> None:
    held = quarantine(NEW, by="alice", reason=WHY, until=None, now=NOON).entry
    let = release(held, by="bob", reason=WHY, now=NOON + DAY, policy=POLICY)
    assert (let.entry.hold, let.entry.by) == (Hold.PROBATION, "bob")
    assert changes(let) == ["released"]
    back = hit(let.entry, "c1", NOON + 2 * DAY)
    assert back.entry.hold is Hold.QUARANTINED
    assert back.reason.rule_id == "ledger.probation"
    free = release(let.entry, by="bob", reason=WHY, now=NOON + 2 * DAY, policy=POLICY).entry
    assert hit(free, "c1", NOON + 3 * DAY).entry.hold is Hold.FREE
    assert release(free, by="bob", reason=WHY, now=NOON, policy=POLICY).effects == ()


def test_a_strike_against_a_quarantined_device_only_counts() -> None:
    held = quarantine(NEW, by="alice", reason=WHY, until=None, now=NOON).entry
    step = hit(held, "c1", replaces=True)
    assert changes(step) == ["struck"]
    assert step.entry.by == "alice", "whoever took it out is still named"


def gpu(device_id: str = "GPU-1") -> DeviceIdentity:
    return DeviceIdentity(kind=DeviceKind.GPU, device_id=device_id, board_serial="1650", pci_vendor_data="10de:2330")


def test_a_listed_device_on_another_node_is_told_to_both() -> None:
    struck = hit(NEW, "c1").entry
    there = seen(struck, gpu(), node_id="a", seen_at=NOON, now=NOON)
    assert there.effects == ()
    assert there.entry.board_serial == "1650"
    moved = seen(there.entry, gpu(), node_id="b", seen_at=NOON + DAY, now=NOON + DAY)
    assert [(effect.node_id, effect.change) for effect in moved.effects] == [
        ("a", HardwareChange.MOVED),
        ("b", HardwareChange.MOVED),
    ]
    assert moved.entry.score == there.entry.score
    late = seen(moved.entry, gpu(), node_id="a", seen_at=NOON, now=NOON + DAY)
    assert late.entry is moved.entry


def test_a_board_under_another_uuid_is_remembered_as_such() -> None:
    there = seen(hit(NEW, "c1").entry, gpu("GPU-2"), node_id="a", seen_at=NOON, now=NOON)
    assert there.entry.device_id == "GPU-1"
    assert there.entry.other_ids == ("GPU-2",)


def test_who_does_not_know_what_a_device_is_takes_nothing_away() -> None:
    known = identified(NEW, gpu("GPU-1"))
    assert known.kind is DeviceKind.GPU
    assert identified(known, DeviceIdentity(kind=DeviceKind.OTHER, device_id="GPU-1")) == known


def test_what_is_kept_is_bounded_and_the_count_is_not() -> None:
    entry = NEW
    for number in range(EVIDENCE_KEPT + 10):
        entry = hit(entry, f"c{number}").entry
    assert entry.strikes_total == EVIDENCE_KEPT + 10
    assert len(entry.strikes) == STRIKES_KEPT
    assert len(entry.evidence_ids) == EVIDENCE_KEPT


@pytest.mark.parametrize("values", [{"half_life_s": 1.0}, {"probation_s": 0.0}, {"strikes_max": 0.5}])
def test_limits_that_list_everything_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(values))):
        LedgerPolicy(**values)
