"""One validation of a gang: who came, do the devices compute, does a sum over all hold, and does every pair.

The order is from cheap to dear, and each stage works with those that are left, so that one bad member does not hide
another. Deadlines and deaths are the gang's answers, not exceptions: a validation always ends with a report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fault_contracts.payload import Health
from node_agent.application.validation_ports import (
    Answer,
    AnswerEnd,
    DeviceOrder,
    Gang,
    GroupOrder,
    Member,
)
from node_agent.domain.validation_blame import PairEnd, PairOutcome, blame_of
from node_agent.domain.validation_pairs import Pair, rounds_of
from node_agent.domain.validation_result import CheckResult
from node_agent.domain.validation_speed import SpeedPolicy, slow_ones


class PairsMode(StrEnum):
    """When the tournament is played. Closed."""

    ALWAYS = "always"
    ON_FAILURE = "on-failure"
    """Only when the sum over the gang failed, to find out why."""
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlan:
    """What is done, and how long each part may take.

    Attributes:
        group_s: a sum, or a pair, connecting included.
    """

    world_size: int
    join_s: float
    device: DeviceOrder
    device_s: float
    size_bytes: int
    repeats: int
    group_s: float
    pairs: PairsMode
    speed: SpeedPolicy


class GangValidation:
    """Runs the stages and turns their answers into lines of the report."""

    def __init__(self, gang: Gang, plan: GangPlan) -> None:
        self._gang = gang
        self._plan = plan
        self._members: Mapping[int, Member] = {}
        self._gone: dict[int, AnswerEnd] = {}

    @property
    def members(self) -> Sequence[Member]:
        """Who came, by rank."""
        return [self._members[rank] for rank in sorted(self._members)]

    async def run(self) -> list[CheckResult]:
        """All stages; returns every line."""
        self._members = await self._gang.gather(self._plan.world_size, limit_s=self._plan.join_s)
        results = [self._missing(rank) for rank in range(self._plan.world_size) if rank not in self._members]
        results += await self._devices()
        left = self._left()
        if len(left) < 2:
            return results
        summed = await self._sum(left)
        results.append(summed)
        failed = summed.health is not Health.OK
        if self._plan.pairs is PairsMode.ALWAYS or (failed and self._plan.pairs is PairsMode.ON_FAILURE):
            results += await self._tournament()
        return results

    def _left(self) -> list[int]:
        return sorted(self._members.keys() - self._gone.keys())

    def _missing(self, rank: int) -> CheckResult:
        sentence = f"did not come within {self._plan.join_s:g} s"
        return _result("member", f"rank {rank}", Health.BAD, "validation.member_missing", sentence)

    async def _ask(self, rank: int, order: DeviceOrder | GroupOrder, *, limit_s: float) -> Answer:
        answer = await self._gang.ask(rank, order, limit_s=limit_s)
        if answer.end in (AnswerEnd.DIED, AnswerEnd.SILENT):
            self._gone.setdefault(rank, answer.end)
        return answer

    async def _devices(self) -> list[CheckResult]:
        ranks = self._left()
        limit_s = self._plan.device_s
        answers = await asyncio.gather(*(self._ask(rank, self._plan.device, limit_s=limit_s) for rank in ranks))
        results = []
        for rank, answer in zip(ranks, answers, strict=True):
            subject = self._members[rank].named
            if answer.end is not AnswerEnd.OK:
                rule = f"validation.device_{answer.end.value}"
                results.append(_result("device", subject, Health.BAD, rule, _ended(answer, limit_s)))
                continue
            for found in answer.findings:
                health = {"ok": Health.OK, "corrupt": Health.BAD}.get(found.end, Health.UNKNOWN)
                rule = f"validation.{found.check}"
                results.append(_result(found.check, subject, health, rule, found.sentence, found.values))
        return results

    async def _sum(self, ranks: Sequence[int]) -> CheckResult:
        order = GroupOrder(
            ranks=tuple(ranks),
            key="sum",
            is_pair=False,
            size_bytes=self._plan.size_bytes,
            repeats=self._plan.repeats,
        )
        limit_s = self._plan.group_s
        answers = await asyncio.gather(*(self._ask(rank, order, limit_s=limit_s) for rank in ranks))
        wrong = [(rank, answer) for rank, answer in zip(ranks, answers, strict=True) if answer.end is not AnswerEnd.OK]
        if not wrong:
            speed = min(answer.values.get("bytes_per_s", 0.0) for answer in answers)
            sentence = f"sums of {len(ranks)} members are right; bus bandwidth {speed / 1e9:.2f} GB/s"
            return _result("all_reduce", "", Health.OK, "validation.sum", sentence, {"bytes_per_s": speed})
        told = "; ".join(f"rank {rank}: {_ended(answer, limit_s)}" for rank, answer in wrong[:4])
        sentence = f"{len(wrong)} of {len(ranks)} members did not get the right sum: {told}"
        return _result("all_reduce", "", Health.BAD, "validation.sum_fails", sentence[:2_000])

    async def _tournament(self) -> list[CheckResult]:
        outcomes: list[PairOutcome] = []
        for number, pairs in enumerate(rounds_of(self._left())):
            outcomes += await asyncio.gather(*(self._pair(pair, number) for pair in pairs))
        blame = blame_of(outcomes)
        slow = slow_ones(outcomes, policy=self._plan.speed)
        results = [
            _result("pairs", self._members[rank].named, Health.BAD, reason.rule_id, reason.sentence)
            for rank, reason in (dict(blame.members) | dict(slow.members)).items()
        ]
        results += [
            _result("pairs", f"ranks {pair[0]}-{pair[1]}", Health.BAD, reason.rule_id, reason.sentence)
            for pair, reason in (dict(blame.pairs) | dict(slow.pairs)).items()
        ]
        speeds = [outcome.bytes_per_s for outcome in outcomes if outcome.bytes_per_s is not None]
        good = sum(outcome.end is PairEnd.OK for outcome in outcomes)
        values = {"pairs": float(len(outcomes)), "good": float(good)}
        if speeds:
            values |= {"bytes_per_s_min": min(speeds), "bytes_per_s_max": max(speeds)}
        if not results:
            sentence = f"all {len(outcomes)} pairs exchange right values"
            results.append(_result("pairs", "", Health.OK, "validation.pairs", sentence, values))
        return results

    async def _pair(self, pair: Pair, number: int) -> PairOutcome:
        between = self._members[pair[0]].node_rank != self._members[pair[1]].node_rank
        if set(pair) & self._gone.keys():
            return PairOutcome(pair=pair, end=PairEnd.NOT_RUN, between_nodes=between)
        order = GroupOrder(
            ranks=pair,
            key=f"round{number}-{pair[0]}-{pair[1]}",
            is_pair=True,
            size_bytes=self._plan.size_bytes,
            repeats=self._plan.repeats,
        )
        answers = await asyncio.gather(*(self._ask(rank, order, limit_s=self._plan.group_s) for rank in pair))
        return _outcome(pair, answers, between_nodes=between)


def _outcome(pair: Pair, answers: Sequence[Answer], *, between_nodes: bool) -> PairOutcome:
    """Two answers make one end; the worst of them, and whose it is where that says something of its own."""
    gone = {AnswerEnd.DIED: PairEnd.DIED, AnswerEnd.SILENT: PairEnd.SILENT}
    culprits = {rank: gone[answer.end] for rank, answer in zip(pair, answers, strict=True) if answer.end in gone}
    told = "; ".join(
        f"rank {rank}: {answer.detail}" for rank, answer in zip(pair, answers, strict=True) if answer.detail
    )
    if culprits:
        end = next(iter(culprits.values()))
        return PairOutcome(pair=pair, end=end, culprits=culprits, detail=told, between_nodes=between_nodes)
    for answer_end, pair_end in ((AnswerEnd.CORRUPT, PairEnd.CORRUPT), (AnswerEnd.STALLED, PairEnd.STALLED)):
        if any(answer.end is answer_end for answer in answers):
            return PairOutcome(pair=pair, end=pair_end, detail=told, between_nodes=between_nodes)
    speeds = [answer.values["bytes_per_s"] for answer in answers if "bytes_per_s" in answer.values]
    return PairOutcome(pair=pair, end=PairEnd.OK, bytes_per_s=min(speeds, default=None), between_nodes=between_nodes)


def _ended(answer: Answer, limit_s: float) -> str:
    match answer.end:
        case AnswerEnd.SILENT:
            return f"hangs: no answer within {limit_s:g} s"
        case AnswerEnd.DIED:
            return f"its process ended{f': {answer.detail}' if answer.detail else ''}"
        case AnswerEnd.OK | AnswerEnd.CORRUPT | AnswerEnd.STALLED:
            return answer.detail or answer.end.value


def _result(
    check: str, subject: str, health: Health, rule_id: str, sentence: str, values: Mapping[str, float] | None = None
) -> CheckResult:
    return CheckResult(
        check=check, subject=subject, health=health, rule_id=rule_id, sentence=sentence, values=values or {}
    )
