"""Which member of a tournament is bad, from how its pairs went.

One bad pair has two suspects. A member that fails with two partners or more, where these do well with others, is the
bad one; a member that died or fell silent names itself. Where the picture fits several stories, pairs are named and
no member is: blame needs evidence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fault_contracts.payload import Reason
from node_agent.domain.validation_pairs import Pair

PARTNERS_MIN = 2
"""Different partners with whom a member has to fail: with one, either of the two may be the bad one."""
PAIRS_NAMED_MAX = 8


class PairEnd(StrEnum):
    """How the test of a pair ended. Closed."""

    OK = "ok"
    CORRUPT = "corrupt"
    """What came was not what had been sent."""
    STALLED = "stalled"
    """Both are there; nothing came in time, or the connection broke."""
    DIED = "died"
    """A member's process ended."""
    SILENT = "silent"
    """A member did not even answer: it hangs."""
    NOT_RUN = "not_run"
    """A member was gone before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOutcome:
    """One test of one pair.

    Attributes:
        pair: the two members, the smaller first.
        culprits: members that died or fell silent, each with that end; both may have.
        detail: what the members said.
        bytes_per_s: the slower direction; None where it was not measured.
        between_nodes: the members are on different nodes: another class of speed.
    """

    pair: Pair
    end: PairEnd
    culprits: Mapping[int, PairEnd] = field(default_factory=dict)
    detail: str = ""
    bytes_per_s: float | None = None
    between_nodes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """What a tournament tells.

    Attributes:
        members: bad members, each with the reason.
        pairs: failed pairs that no bad member explains, each with the reason.
    """

    members: Mapping[int, Reason]
    pairs: Mapping[Pair, Reason]


def blame_of(outcomes: Sequence[PairOutcome]) -> Blame:
    """Name members first by their own end, then by their partners; what is left is a matter of the pair."""
    members: dict[int, Reason] = {}
    for outcome in outcomes:
        for member, end in outcome.culprits.items():
            members.setdefault(member, _own_end(outcome, member, end))
    left = [o for o in outcomes if o.end not in (PairEnd.OK, PairEnd.NOT_RUN) and not set(o.pair) & members.keys()]
    while left:
        accused = _accused(left)
        if not accused:
            break
        for member in sorted(accused):
            members[member] = _by_partners(member, left)
        left = [outcome for outcome in left if not set(outcome.pair) & accused]
    return Blame(members=members, pairs={o.pair: _unexplained(o, left) for o in left})


def _own_end(outcome: PairOutcome, member: int, end: PairEnd) -> Reason:
    partner = outcome.pair[0] if outcome.pair[1] == member else outcome.pair[1]
    did = "its process ended" if end is PairEnd.DIED else "it gave no answer in time"
    what = "died" if end is PairEnd.DIED else "silent"
    return Reason(
        rule_id=f"validation.member_{what}",
        sentence=f"rank {member}: {did} in the test with rank {partner}{_said(outcome.detail)}"[:2_000],
    )


def _accused(left: Sequence[PairOutcome]) -> set[int]:
    """Those with the most failing partners, if the picture fits no other story.

    Several with equally many are all bad only when each fails with two partners outside their circle: three members
    that fail with each other and with nobody else may have one healthy member among them, or three bad links.
    """
    partners = _partners(left)
    most = max(len(found) for found in partners.values())
    if most < PARTNERS_MIN:
        return set()
    first = {member for member, found in partners.items() if len(found) == most}
    if len(first) == 1:
        return first
    return {member for member in first if len(partners[member] - first) >= PARTNERS_MIN}


def _partners(left: Collection[PairOutcome]) -> dict[int, set[int]]:
    partners: dict[int, set[int]] = {}
    for outcome in left:
        low, high = outcome.pair
        partners.setdefault(low, set()).add(high)
        partners.setdefault(high, set()).add(low)
    return partners


def _by_partners(member: int, left: Sequence[PairOutcome]) -> Reason:
    mine = [outcome for outcome in left if member in outcome.pair]
    partners = sorted({rank for outcome in mine for rank in outcome.pair if rank != member})
    ends = "/".join(sorted({outcome.end.value for outcome in mine}))
    named = ", ".join(map(str, partners[:PAIRS_NAMED_MAX])) + (" and more" if len(partners) > PAIRS_NAMED_MAX else "")
    return Reason(
        rule_id="validation.fails_with_partners",
        sentence=f"rank {member} fails ({ends}) with {len(partners)} partners: ranks {named}{_said(mine[0].detail)}"[
            :2_000
        ],
    )


def _unexplained(outcome: PairOutcome, left: Sequence[PairOutcome]) -> Reason:
    low, high = outcome.pair
    alone = len(left) == 1
    why = (
        "which of the two, or the way between them, one pair cannot tell"
        if alone
        else "too many pairs fail with each other to tell a member from the network"
    )
    return Reason(
        rule_id="validation.pair_fails" if alone else "validation.pairs_fail_together",
        sentence=f"ranks {low} and {high} fail together ({outcome.end.value}){_said(outcome.detail)}; {why}"[:2_000],
    )


def _said(detail: str) -> str:
    return f" ({detail})" if detail else ""
