"""The checks of a validation that ask services: what is held, what is stale, and what silence means."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from fault_contracts.hardware import NODE_RECORD_VERSION, Hold, LedgerEntry, NodeStanding
from fault_contracts.payload import Health, Reason
from node_agent.application.check_conditions import ConditionsCheck
from node_agent.application.check_ledger import LedgerCheck
from node_agent.application.check_standing import StandingCheck
from node_agent.domain.validation_result import CheckResult
from service_kit.errors import BusUnavailable
from service_kit.ports import Entry
from service_kit.testing.virtual_clock import VirtualClock


class AskedBus:
    """Answers of a service, one after the other; the last one stays. An exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, str]] = []

    async def ask(self, *, what: str, key: str, body: bytes = b"", timeout_s: float) -> bytes | None:
        self.asked.append((what, key))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return None if answer is None else json.dumps(answer).encode()


def entry(device_id: str, **fields: Any) -> dict[str, Any]:
    return LedgerEntry(device_id=device_id, **fields).model_dump(mode="json")


HELD = {"hold": Hold.QUARANTINED, "by": "alice", "reason": Reason(rule_id="t", sentence="it lies")}


async def ledger(answer: Any) -> list[CheckResult]:
    check = LedgerCheck(AskedBus(answer), node_id="node-a", gpu_uuids=frozenset({"GPU-1"}), limit_s=1.0)  # type: ignore[arg-type]
    return list(await check.run())


@pytest.mark.asyncio
async def test_a_held_device_that_came_from_another_node_is_refused() -> None:
    [line] = await ledger({"ok": True, "entries": [entry("GPU-1", node_id="node-z", **HELD)]})
    assert (line.health, line.subject) == (Health.BAD, "GPU-1")
    assert "alice" in line.sentence
    assert "it lies" in line.sentence


@pytest.mark.asyncio
async def test_the_same_board_under_another_uuid_is_refused() -> None:
    [line] = await ledger({"ok": True, "entries": [entry("GPU-old", other_ids=("GPU-1",), **HELD)]})
    assert line.health is Health.BAD


@pytest.mark.asyncio
async def test_held_devices_of_others_and_free_ones_of_ours_do_not_matter() -> None:
    entries = [entry("GPU-9", node_id="node-z", **HELD), entry("GPU-1", node_id="node-a", hold=Hold.PROBATION)]
    [line] = await ledger({"ok": True, "entries": entries})
    assert line.health is Health.OK


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "answer",
    [None, BusUnavailable("away"), {"ok": False, "error": "no"}, {"ok": True}, {"ok": True, "entries": [1]}, 7],
)
async def test_a_ledger_that_cannot_be_read_is_unknown_and_counts(answer: Any) -> None:
    [line] = await ledger(answer)
    assert (line.health, line.counts) == (Health.UNKNOWN, True)


def told(*rows: tuple[str, str, float]) -> dict[str, Any]:
    return {"rows": [{"check": name, "health": health, "age_s": age, "component_id": ""} for name, health, age in rows]}


async def conditions(*answers: Any, limit_s: float = 10.0) -> CheckResult:
    clock = VirtualClock()
    check = ConditionsCheck(AskedBus(*answers), clock, node_id="node-a", limit_s=limit_s)  # type: ignore[arg-type]
    running = asyncio.create_task(check.run())
    await clock.advance(2 * limit_s)
    [line] = await running
    return line


@pytest.mark.asyncio
async def test_two_looks_younger_than_the_validation_are_clean() -> None:
    line = await conditions(told(("disk", "ok", 30.0)), told(("disk", "ok", 0.1)))
    assert (line.health, line.rule_id) == (Health.OK, "validation.conditions_clean")


@pytest.mark.asyncio
async def test_a_table_that_is_not_renewed_is_unknown() -> None:
    line = await conditions(told(("disk", "ok", 30.0)))
    assert line.rule_id == "validation.conditions_too_slow"
    assert "disk" in line.sentence


@pytest.mark.asyncio
async def test_a_fresh_bad_row_is_bad() -> None:
    line = await conditions(told(("disk", "ok", 30.0)), told(("disk", "bad", 0.1)))
    assert line.health is Health.BAD


@pytest.mark.asyncio
@pytest.mark.parametrize("answer", [{}, {"rows": [{"check": "x"}]}, {"rows": []}, [1], BusUnavailable("away")])
async def test_an_answer_that_says_nothing_is_unknown(answer: Any) -> None:
    assert (await conditions(answer)).health is Health.UNKNOWN


@pytest.mark.asyncio
async def test_silence_of_the_host_role_is_unknown() -> None:
    check = ConditionsCheck(AskedBus(None), VirtualClock(), node_id="node-a", limit_s=1.0)  # type: ignore[arg-type]
    [line] = await check.run()
    assert (line.health, line.rule_id) == (Health.UNKNOWN, "validation.conditions_no_host_role")


class StoredStanding:
    """A bucket with one record, or none."""

    def __init__(self, standing: NodeStanding | None) -> None:
        self._standing = standing

    async def get(self, key: str) -> Entry | None:
        assert key == "node-a"
        if self._standing is None:
            return None
        # As health-ingest writes it.
        record = {
            "v": NODE_RECORD_VERSION,
            "standing": self._standing.model_dump(mode="json"),
            "over": [],
            "pending": [],
        }
        return Entry(value=json.dumps(record).encode(), revision=1)


async def standing(record: NodeStanding | None) -> CheckResult:
    [line] = await StandingCheck(StoredStanding(record), node_id="node-a", limit_s=1.0).run()  # type: ignore[arg-type]
    return line


@pytest.mark.asyncio
async def test_a_node_that_is_not_fit_is_refused_with_the_reason() -> None:
    reasons = (Reason(rule_id="r", sentence="GPU-1 fell off the bus"),)
    line = await standing(NodeStanding(node_id="node-a", fit=Health.BAD, reasons=reasons))
    assert line.health is Health.BAD
    assert "fell off the bus" in line.sentence


@pytest.mark.asyncio
async def test_a_node_of_which_nothing_is_recorded_is_shown_and_not_refused() -> None:
    line = await standing(None)
    assert (line.health, line.counts) == (Health.UNKNOWN, False)
    assert (await standing(NodeStanding(node_id="node-a", updated_at=datetime.now(UTC)))).counts is False
    assert (await standing(NodeStanding(node_id="node-a", fit=Health.OK))).health is Health.OK
