"""Which members and pairs are slow, held against the others of the same run: no number of a data sheet is needed.

A member is judged by the best that it reaches with anybody: a slow partner does not make it slow. Pairs on one node and
pairs between nodes are two classes, because NVLink is not Ethernet. A value is slow when it is below a part of the
median AND outside the scatter of the rest: the modified z-score with the limit 3.5 of Iglewicz and Hoaglin, "How to
Detect and Handle Outliers" (1993); 0.6745 makes the median absolute deviation comparable to a standard deviation. The
scatter is taken of logarithms: what disturbs a transfer makes it so many times slower, not so many bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import median

from fault_contracts.payload import Reason
from node_agent.domain.validation_blame import PairEnd, PairOutcome
from node_agent.domain.validation_pairs import Pair

Z_MAX = 3.5
Z_SCALE = 0.6745
MEMBERS_MIN = 3
"""With two members there is one speed, and nothing to hold it against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedPolicy:
    """When slow is slow.

    Attributes:
        ratio_min: part of the median below which a speed can be slow.
    """

    ratio_min: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness:
    """Slow members, and slow pairs that no slow member explains."""

    members: Mapping[int, Reason]
    pairs: Mapping[Pair, Reason]


def slow_ones(outcomes: Sequence[PairOutcome], *, policy: SpeedPolicy) -> Slowness:
    """Members whose best speed is an outlier, then pairs."""
    members: dict[int, Reason] = {}
    pairs: dict[Pair, Reason] = {}
    for between_nodes in (False, True):
        measured = {
            outcome.pair: outcome.bytes_per_s
            for outcome in outcomes
            if outcome.end is PairEnd.OK and outcome.bytes_per_s is not None and outcome.between_nodes is between_nodes
        }
        where = "between nodes" if between_nodes else "within the node"
        best: dict[int, float] = {}
        for pair, speed in measured.items():
            for member in pair:
                best[member] = max(best.get(member, 0.0), speed)
        if len(best) < MEMBERS_MIN:
            continue
        middle = median(best.values())
        for member, speed in best.items():
            if member not in members and _is_slow(speed, list(best.values()), policy):
                members[member] = Reason(
                    rule_id="validation.slow_member",
                    sentence=f"rank {member} reaches {_shown(speed)} with its best partner {where}; "
                    f"the median of all members is {_shown(middle)}",
                )
        rest = {pair: speed for pair, speed in measured.items() if not set(pair) & members.keys()}
        for pair, speed in rest.items():
            if len(rest) >= MEMBERS_MIN and _is_slow(speed, list(rest.values()), policy):
                pairs[pair] = Reason(
                    rule_id="validation.slow_pair",
                    sentence=f"ranks {pair[0]} and {pair[1]} reach {_shown(speed)} {where}, and each of them more with "
                    f"others; the median of the pairs is {_shown(median(rest.values()))}",
                )
    return Slowness(members=members, pairs=pairs)


def _is_slow(speed: float, all_speeds: Sequence[float], policy: SpeedPolicy) -> bool:
    middle = median(all_speeds)
    if speed >= policy.ratio_min * middle:
        return False
    logs = [log(max(other, 1.0)) for other in all_speeds]
    centre = median(logs)
    scatter = median(abs(other - centre) for other in logs)
    return scatter == 0 or Z_SCALE * (centre - log(max(speed, 1.0))) / scatter > Z_MAX


def _shown(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.2f} GB/s" if bytes_per_s >= 1e9 else f"{bytes_per_s / 1e6:.1f} MB/s"
