"""Many signals of one (device, fault class) in one step: what they come to, and that each is counted once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from fault_contracts.payload import Health
from health_ingest.domain.applied import Run, runs_around
from health_ingest.domain.condition import Condition, Effect, Step, unchanged
from health_ingest.domain.observe import SEQUENCE, observe
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.rulebook import Rulebook, Weighed
from health_ingest.domain.seen import BURST_GAP_S
from health_ingest.domain.signal import Signal


class TooManyHoles(Exception):
    """More messages are under way than a record can keep apart: take the batch in later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlace:
    """Of the batch that signals came in: `runs` of all its sequences, and up to where the durable is settled."""

    life: str
    runs: tuple[Run, ...]
    settled: int


def fold(
    condition: Condition,
    signals: Sequence[Weighed],
    *,
    batch: BatchPlace,
    rulebook: Rulebook,
    now: datetime,
    policy: ConditionPolicy,
    driver_wish: str = "",
) -> Step:
    """Take the signals of one batch in, in order; those of messages that were taken in before change nothing.

    Raises:
        TooManyHoles: nothing was taken in.
    """
    fresh = [each for each in signals if each.raw.place is None or not condition.applied.has(each.raw.place)]
    if not fresh:
        return unchanged(condition, "seen", "these signals were counted before")
    folded, effects, reason = condition, list[Effect](), None
    for each in gathered(fresh, rulebook):
        # The raw signal: what is remembered of it names the code, not the class.
        ruling = rulebook.ruling(each, folded.history, now=now, driver_wish=driver_wish)
        history = rulebook.remembered(folded.history, each.raw) if each.raw.health is Health.BAD else ()
        step = observe(folded, each.raw, now=now, policy=policy, ruling=ruling, history=history)
        assert step.condition is not None, "a signal drops no record"
        folded = step.condition
        effects += step.effects
        reason = step.reason if step.effects or reason is None else reason
    assert reason is not None, "at least one signal"
    if folded == condition:
        return Step(condition=condition, effects=(), reason=reason)
    places = [each.raw.place.sequence for each in fresh if each.raw.place is not None]
    applied = condition.applied.with_runs(batch.life, runs_around(places, batch.runs), batch.settled)
    if applied is None:
        raise TooManyHoles(condition.entity.key)
    return Step(condition=replace(folded, applied=applied), effects=tuple(effects), reason=reason)


def gathered(signals: Sequence[Weighed], rulebook: Rulebook) -> list[Weighed]:
    """The same signals, with the many equal ones of a storm made one that counts for all of them.

    Equal: bad, of one burst, and no different in anything else that a policy looks at. The first ones stay apart, for
    repeats are counted; the last one stands for the rest. Only between two signals that are not bad: they break a row.
    """
    found: list[Weighed] = []
    alike: dict[object, list[Weighed]] = {}
    for each in signals:
        if each.raw.health is Health.BAD:
            alike.setdefault(_what(each.raw), []).append(each)
            continue
        _flush(alike, found, rulebook)
        found.append(each)
    _flush(alike, found, rulebook)
    return found


def _flush(alike: dict[object, list[Weighed]], found: list[Weighed], rulebook: Rulebook) -> None:
    for group in alike.values():
        apart = rulebook.told_apart(group[0].raw.entity.check)
        found += group[:apart]
        rest = group[apart:]
        if rest:
            last = max(rest, key=lambda each: each.raw.observed_at)
            whole = replace(last.raw, count=sum(each.raw.count for each in rest))
            found.append(Weighed(entity=last.entity, raw=whole))
    alike.clear()


def _what(raw: Signal) -> object:
    said = tuple((key, value) for key, value in raw.attributes.items() if key != SEQUENCE)
    burst = int(raw.observed_at.timestamp() // BURST_GAP_S)
    return (raw.entity.check, raw.old, raw.boot_id, raw.job_id, burst, said)
