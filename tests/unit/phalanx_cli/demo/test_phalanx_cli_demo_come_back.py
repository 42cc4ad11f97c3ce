"""Asking whether a node is held back: silence is asked again, an answer is not."""

import asyncio
import json
from typing import Any, cast

import pytest

from phalanx_cli.demo import come_back
from phalanx_cli.demo.come_back import why_held
from phalanx_cli.demo.watch import NotSeen
from service_kit.errors import BusUnavailable
from service_kit.ports import Bus


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(come_back, "ASK_AGAIN_S", 0.001)
    monkeypatch.setattr(come_back, "ANSWER_LIMIT_S", 0.5)


class Asked:
    """A bus whose planner says one thing after the other, the last of them for ever."""

    def __init__(self, *said: bytes | Exception | None) -> None:
        self._said = list(said)
        self.asked = 0

    async def ask(self, **_: Any) -> bytes | None:
        self.asked += 1
        said = self._said.pop(0) if len(self._said) > 1 else self._said[0]
        if isinstance(said, Exception):
            raise said
        return said


def held(bus: Asked) -> str:
    return asyncio.run(why_held(cast("Bus", bus), job_id="j", node_id="b"))


def answer(reason: str) -> bytes:
    return json.dumps({"admitted": True, "reason": reason}).encode()


def test_a_planner_that_is_away_for_a_moment_is_asked_again() -> None:
    bus = Asked(None, BusUnavailable("cut off"), answer("b is held back: its GPU is gone"))
    assert held(bus) == "b is held back: its GPU is gone"
    assert bus.asked == 3


def test_a_node_that_is_admitted_is_a_problem_at_once() -> None:
    bus = Asked(answer(""), answer("b is held back: too late"))
    with pytest.raises(NotSeen, match="was not held back: it was admitted"):
        held(bus)
    assert bus.asked == 1


def test_silence_is_said_with_its_reason() -> None:
    with pytest.raises(NotSeen, match="no planner serves this job"):
        held(Asked(None))
    with pytest.raises(NotSeen, match="cut off"):
        held(Asked(BusUnavailable("cut off")))
