"""When an observation that can be made many times a second becomes a signal. Pure; time comes in.

A rule may change its mind with every line, and a signal costs a message: changes are told with a distance. A good
state is told only after a bad one, and then a few times, because one good sample proves nothing to whoever collects
them (health-ingest clears a condition after several in a row).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

GOOD_SAMPLES = 3
"""health-ingest's PHALANX_GOOD_SAMPLES_MIN default: so many in a row clear a condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often one thing is told.

    Attributes:
        change_s: least time between two signals.
        repeat_s: a bad state that lasts is told again after this; None: once.
    """

    change_s: float
    repeat_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Paced:
    """What is known of one thing, and what was told of it.

    Attributes:
        news: it changed in a way that is worth another signal although it is still bad.
        goods_left: good samples that are still to be told.
    """

    is_bad: bool = False
    news: bool = False
    told_bad: bool = False
    told_at_s: float | None = None
    goods_left: int = 0

    @property
    def is_settled(self) -> bool:
        """Good, and nobody waits to hear it."""
        return not self.is_bad and not self.told_bad and self.goods_left == 0


def seen(paced: Paced, *, is_bad: bool, news: bool = False) -> Paced:
    """Take note of how it is now."""
    return replace(paced, is_bad=is_bad, news=is_bad and (news or paced.news))


def due(paced: Paced, pace: Pace, *, now_s: float) -> tuple[Paced, bool]:
    """Whether it is to be told now; if so, it counts as told."""
    if paced.told_at_s is not None and now_s < paced.told_at_s + pace.change_s:
        return paced, False
    if paced.is_bad:
        assert paced.told_at_s is not None or not paced.told_bad, "told at no time"
        repeat = pace.repeat_s is not None and paced.told_at_s is not None and now_s >= paced.told_at_s + pace.repeat_s
        if paced.told_bad and not paced.news and not repeat:
            return paced, False
        return replace(paced, told_bad=True, news=False, told_at_s=now_s, goods_left=0), True
    goods_left = GOOD_SAMPLES if paced.told_bad else paced.goods_left
    if goods_left == 0:
        return paced, False
    return replace(paced, told_bad=False, told_at_s=now_s, goods_left=goods_left - 1), True
