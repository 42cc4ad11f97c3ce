"""A validation of a gang whose members do what the test says: who is named, and that it always ends."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from fault_contracts.payload import Health
from node_agent.application.validate_gang import GangPlan, GangValidation, PairsMode
from node_agent.application.validation_ports import Answer, AnswerEnd, DeviceOrder, Finding, GroupOrder, Member
from node_agent.domain.validation_result import CheckResult, ValidationVerdict, verdict_of
from node_agent.domain.validation_speed import SpeedPolicy

PLAN: dict[str, Any] = {
    "world_size": 4,
    "join_s": 1.0,
    "device": DeviceOrder(matmul_size=8, duration_s=0.0, memory_bytes=64),
    "device_s": 1.0,
    "size_bytes": 64,
    "repeats": 1,
    "group_s": 1.0,
    "pairs": PairsMode.ALWAYS,
    "speed": SpeedPolicy(ratio_min=0.5),
}
GOOD = Answer(end=AnswerEnd.OK, findings=(Finding(check="matmul", end="ok", sentence="right"),))


class ScriptedGang:
    """Members that are good but for one way to be bad each: corrupt, slow, die, hang, miss, matmul."""

    def __init__(self, bad: Mapping[int, str], *, per_node: int = 8) -> None:
        self._bad = bad
        self._per_node = per_node
        self._gone: dict[int, AnswerEnd] = {}
        self.orders: list[tuple[int, DeviceOrder | GroupOrder]] = []

    async def gather(self, world_size: int, *, limit_s: float) -> Mapping[int, Member]:
        return {
            rank: Member(rank=rank, node_rank=rank // self._per_node, node_id=f"node-{rank}", device="cpu")
            for rank in range(world_size)
            if self._bad.get(rank) != "miss"
        }

    async def ask(self, rank: int, order: DeviceOrder | GroupOrder, *, limit_s: float) -> Answer:
        self.orders.append((rank, order))
        await asyncio.sleep(0)
        if rank in self._gone:
            return Answer(end=self._gone[rank])
        if isinstance(order, DeviceOrder):
            if self._bad.get(rank) == "matmul":
                return Answer(end=AnswerEnd.OK, findings=(Finding(check="matmul", end="corrupt", sentence="row 3"),))
            return GOOD
        kinds = {self._bad.get(member) for member in order.ranks}
        mine = self._bad.get(rank)
        if order.is_pair and mine in ("die", "hang"):
            self._gone[rank] = AnswerEnd.DIED if mine == "die" else AnswerEnd.SILENT
            return Answer(end=self._gone[rank])
        if order.is_pair and kinds & {"die", "hang"}:
            return Answer(end=AnswerEnd.STALLED, detail="timed out")
        if "corrupt" in kinds and (not order.is_pair or mine != "corrupt"):
            return Answer(end=AnswerEnd.CORRUPT, detail="1 cell came wrong")
        return Answer(end=AnswerEnd.OK, values={"bytes_per_s": 1e6 if "slow" in kinds else 1e9})


async def validated(gang: ScriptedGang, **changes: Any) -> list[CheckResult]:
    return await GangValidation(gang, GangPlan(**(PLAN | changes))).run()


def bad(results: list[CheckResult]) -> dict[str, str]:
    """Subject to rule of everything bad."""
    return {result.subject: result.rule_id for result in results if result.health is Health.BAD}


@pytest.mark.asyncio
async def test_a_good_gang_passes() -> None:
    results = await validated(ScriptedGang({}))
    assert verdict_of(results)[0] is ValidationVerdict.PASS
    pairs = next(result for result in results if result.check == "pairs")
    assert pairs.values["pairs"] == pairs.values["good"] == 6


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("corrupt", "validation.fails_with_partners"),
        ("slow", "validation.slow_member"),
        ("die", "validation.member_died"),
        ("hang", "validation.member_silent"),
    ],
)
async def test_the_bad_member_of_its_pairs_is_named_and_nobody_else(kind: str, rule: str) -> None:
    for rank in range(4):
        results = [r for r in await validated(ScriptedGang({rank: kind})) if r.check == "pairs"]
        assert bad(results) == {f"rank {rank} (node-{rank} cpu)": rule}


@pytest.mark.asyncio
async def test_both_members_of_the_first_pair_are_named() -> None:
    results = [r for r in await validated(ScriptedGang({0: "die", 3: "hang"})) if r.check == "pairs"]
    assert set(bad(results).values()) == {"validation.member_died", "validation.member_silent"}


@pytest.mark.asyncio
async def test_all_at_once_in_a_larger_gang() -> None:
    results = await validated(ScriptedGang({1: "corrupt", 4: "die", 6: "hang"}), world_size=9)
    named = {r.subject.split()[1] for r in results if r.check == "pairs" and r.health is Health.BAD}
    assert named == {"1", "4", "6"}


@pytest.mark.asyncio
async def test_who_is_gone_is_not_waited_for_again() -> None:
    gang = ScriptedGang({2: "hang"})
    await validated(gang)
    assert sum(1 for rank, order in gang.orders if rank == 2 and isinstance(order, GroupOrder) and order.is_pair) == 1


@pytest.mark.asyncio
async def test_a_device_that_computes_wrong_is_named_and_the_rest_goes_on() -> None:
    results = await validated(ScriptedGang({3: "matmul"}))
    assert bad(results) == {"rank 3 (node-3 cpu)": "validation.matmul"}
    assert {"all_reduce", "pairs"} <= {result.check for result in results}


@pytest.mark.asyncio
async def test_who_did_not_come_fails_the_gang_and_the_others_are_tested() -> None:
    results = await validated(ScriptedGang({0: "miss"}))
    assert bad(results) == {"rank 0": "validation.member_missing"}
    assert any(result.check == "pairs" and result.health is Health.OK for result in results)


@pytest.mark.asyncio
async def test_pairs_can_be_left_to_a_failing_sum() -> None:
    changes = {"pairs": PairsMode.ON_FAILURE}
    assert not [r for r in await validated(ScriptedGang({}), **changes) if r.check == "pairs"]
    assert [r for r in await validated(ScriptedGang({1: "corrupt"}), **changes) if r.check == "pairs"]
    never = await validated(ScriptedGang({1: "corrupt"}), pairs=PairsMode.NEVER)
    assert set(bad(never).values()) == {"validation.sum_fails"}


@pytest.mark.asyncio
async def test_one_alone_has_nobody_to_exchange_with() -> None:
    results = await validated(ScriptedGang({}), world_size=1)
    assert [result.check for result in results] == ["matmul"]
