"""Which rank is slow? Windows of step times, each rank against its peers; several slow windows make a finding.

A rank is slow in a window when it takes at least 10 % longer than the median of the others, and either stands out of
the spread among ranks, or has become slower against them than it used to be. The second half keeps jobs quiet whose
ranks always differ (unequal shares of data, shared GPUs): there, slow is normal for some.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from training_topology.identity import Rank

SAMPLES_FOR_NOISE = 5
"""Fewer times say nothing about their own noise."""
MEDIAN_ERROR = 1.2533
"""The standard error of a median of normal times: this times their spread, over the square root of their count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StragglerPolicy:
    """What counts as slow.

    Attributes:
        slow_ratio: of a rank's median to that of its peers.
        recovered_ratio: below it, a window counts as good again for a rank that was found slow.
        windows: slow windows that make a finding, and good ones that end it.
        windows_of: among so many of the newest: one good window in between does not hide a slow rank.
        fence: a rank stands out past the upper quartile plus so many times the distance of the quartiles (Tukey's
            fence). More than a quarter of the ranks cannot stand out: then the gang differs, not a rank.
        ranks_min_fence: with fewer ranks quartiles mean nothing, and the ratio alone decides.
        noise: a difference must be so many standard errors.
        difference_s_min: a smaller one is nobody's delay: a busy machine's scheduler makes it.
        baseline_windows_min: windows of a rank before its own past counts.
        baseline_windows: windows remembered as that past; slow ones stay out of it.
    """

    slow_ratio: float = 1.10
    recovered_ratio: float = 1.05
    windows: int = 5
    windows_of: int = 6
    fence: float = 1.5
    ranks_min_fence: int = 4
    noise: float = 3.0
    difference_s_min: float = 0.001
    baseline_windows_min: int = 5
    baseline_windows: int = 30

    def __post_init__(self) -> None:
        """Refuse values that would make every rank slow, or none.

        Raises:
            ValueError: with the name of the value.
        """
        if not 1.0 < self.recovered_ratio <= self.slow_ratio <= 100.0:
            raise ValueError(
                f"slow_ratio is {self.slow_ratio}; it must be at least recovered_ratio ({self.recovered_ratio}) "
                "and at most 100"
            )
        if not 1 <= self.windows <= self.windows_of <= 1_000:
            raise ValueError(f"windows is {self.windows}; it must be 1 to windows_of ({self.windows_of}), at most 1000")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Times of one rank in one window.

    Attributes:
        spread_s: median absolute deviation, scaled to a standard deviation.
    """

    count: int
    median_s: float
    spread_s: float


class SlowKind(StrEnum):
    """What is found of a rank."""

    SLOW = "slow"
    RECOVERED = "recovered"


class SlowRule(StrEnum):
    """Why a window is slow."""

    STANDS_OUT = "straggler_stands_out"
    BECAME_SLOWER = "straggler_became_slower"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPace:
    """What is remembered of one rank.

    Attributes:
        recent: the newest windows, oldest first: the rule that found it slow, or None.
        baseline: its ratio to its peers in windows that were not slow.
        good_row: windows below the recovered ratio in a row.
        told: it was found slow and has not recovered.
    """

    recent: tuple[SlowRule | None, ...] = ()
    baseline: tuple[float, ...] = ()
    good_row: int = 0
    told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StragglerFinding:
    """One rank is slow, or is so no more.

    Attributes:
        ratio: its median over that of its peers, in the newest window.
        usual_ratio: the same in its own past; None while that is unknown.
        slow_windows: of the newest `windows_of`.
    """

    kind: SlowKind
    rank: Rank
    rule_id: str
    ratio: float
    usual_ratio: float | None
    rank_s: float
    peers_s: float
    slow_windows: int
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StragglerState:
    """Of one generation: ranks may be elsewhere after a restart, so the state starts anew with it."""

    ranks: Mapping[Rank, RankPace] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StragglerStep:
    """The state after a window, and what is to be told."""

    state: StragglerState
    findings: tuple[StragglerFinding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    own: Pace
    peers_s: float
    fence_s: float | None

    @property
    def ratio(self) -> float:
        return self.own.median_s / self.peers_s


def step(
    state: StragglerState, window: Mapping[Rank, Pace], *, policy: StragglerPolicy, measured: str = "of own work a step"
) -> StragglerStep:
    """Weigh one window. A rank without times in it is unknown: its memory stays as it is.

    Args:
        state: memory of all ranks.
        window: the ranks that are compared with each other.
        policy: what counts as slow.
        measured: what the times are of, for the sentence.
    """
    ranks = dict(state.ranks)
    findings: list[StragglerFinding] = []
    for rank, compared in _compare(window, policy):
        before = ranks.get(rank) or RankPace()
        # Only where it can matter: it is a third of the cost, and most ranks are fine.
        usual_ratio = _usual_ratio(before, policy) if before.told or compared.ratio >= policy.slow_ratio else None
        rule = _rule_of(compared, usual_ratio, policy)
        pace = _after_window(before, compared.ratio, rule, policy)
        told = _is_told(pace, policy)
        if told is not pace.told:
            pace = replace(pace, told=told)
            findings.append(_finding(rank, compared, pace, usual_ratio, policy, measured))
        ranks[rank] = pace
    return StragglerStep(state=StragglerState(ranks=ranks), findings=tuple(findings))


def _compare(window: Mapping[Rank, Pace], policy: StragglerPolicy) -> list[tuple[Rank, _Compared]]:
    """Each rank with its peers; nothing when there are none, or when they take no time."""
    ordered = sorted(window, key=lambda rank: window[rank].median_s)
    medians_s = [window[rank].median_s for rank in ordered]
    if len(ordered) < 2:
        return []
    fence_s = _fence_s(medians_s, policy) if len(ordered) >= policy.ranks_min_fence else None
    compared = []
    for place, rank in enumerate(ordered):
        peers_s = _median_without(medians_s, place)
        if peers_s > 0:
            compared.append((rank, _Compared(own=window[rank], peers_s=peers_s, fence_s=fence_s)))
    return sorted(compared, key=lambda pair: pair[0])


def _rule_of(compared: _Compared, usual_ratio: float | None, policy: StragglerPolicy) -> SlowRule | None:
    """Which rule finds the rank slow in this window."""
    own = compared.own
    if own.median_s < max(policy.slow_ratio * compared.peers_s, compared.peers_s + policy.difference_s_min):
        return None
    if own.count >= SAMPLES_FOR_NOISE:
        error_s = MEDIAN_ERROR * own.spread_s / math.sqrt(own.count)
        if own.median_s - compared.peers_s < policy.noise * error_s:
            return None
    if compared.fence_s is None or own.median_s > compared.fence_s:
        return SlowRule.STANDS_OUT
    if usual_ratio is not None and compared.ratio >= policy.slow_ratio * usual_ratio:
        return SlowRule.BECAME_SLOWER
    return None


def _after_window(pace: RankPace, ratio: float, rule: SlowRule | None, policy: StragglerPolicy) -> RankPace:
    baseline = pace.baseline
    if rule is None:
        # Slow windows stay out, so that a sick rank cannot teach that sick is normal.
        baseline = (*baseline, ratio)[-policy.baseline_windows :]
    return RankPace(
        recent=(*pace.recent, rule)[-policy.windows_of :],
        baseline=baseline,
        good_row=pace.good_row + 1 if rule is None and ratio < policy.recovered_ratio else 0,
        told=pace.told,
    )


def _is_told(pace: RankPace, policy: StragglerPolicy) -> bool:
    if pace.told:
        return pace.good_row < policy.windows
    return pace.recent[-1] is not None and _slow_windows(pace) >= policy.windows


def _slow_windows(pace: RankPace) -> int:
    return sum(rule is not None for rule in pace.recent)


def _usual_ratio(pace: RankPace, policy: StragglerPolicy) -> float | None:
    if len(pace.baseline) < policy.baseline_windows_min:
        return None
    return statistics.median(pace.baseline)


def _finding(
    rank: Rank,
    compared: _Compared,
    pace: RankPace,
    usual_ratio: float | None,
    policy: StragglerPolicy,
    measured: str,
) -> StragglerFinding:
    kind = SlowKind.SLOW if pace.told else SlowKind.RECOVERED
    rule = pace.recent[-1]
    slow_windows = _slow_windows(pace)
    usual = "" if usual_ratio is None else f" (usually {usual_ratio:.2f} times)"
    numbers = (
        f"{compared.own.median_s:.4g} s {measured}, {compared.ratio:.2f} times the {compared.peers_s:.4g} s "
        f"of its peers{usual}"
    )
    if kind is SlowKind.SLOW:
        sentence = f"rank {rank} is slow: {numbers}, in {slow_windows} of {len(pace.recent)} windows"
    else:
        sentence = f"rank {rank} is slow no more: {numbers}, for {policy.windows} windows"
    return StragglerFinding(
        kind=kind,
        rank=rank,
        rule_id=rule if rule is not None else "straggler_recovered",
        ratio=compared.ratio,
        usual_ratio=usual_ratio,
        rank_s=compared.own.median_s,
        peers_s=compared.peers_s,
        slow_windows=slow_windows,
        sentence=sentence,
    )


def _median_without(ordered: Sequence[float], place: int) -> float:
    """The median of sorted numbers, one of which is left out."""
    left = len(ordered) - 1
    low, high = (left - 1) // 2, left // 2
    return (ordered[low + (low >= place)] + ordered[high + (high >= place)]) / 2


def _fence_s(ordered: Sequence[float], policy: StragglerPolicy) -> float:
    lower_s, upper_s = _quantile(ordered, 0.25), _quantile(ordered, 0.75)
    return upper_s + policy.fence * (upper_s - lower_s)


def _quantile(ordered: Sequence[float], part: float) -> float:
    """Linear between neighbours, as numpy's default."""
    place = part * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
