"""The random-fault test's own parts: its trials come from the seed alone, and its ledger sees what must not be."""

import json
from pathlib import Path

import pytest
from chaos_ledger import Ledger, Unfailed
from chaos_schedule import KINDS, Moment, trials


def test_a_seed_is_a_story_and_a_longer_one_begins_like_a_shorter_one() -> None:
    assert trials(7, 50) == trials(7, 60)[:50]
    assert trials(7, 50) != trials(8, 50)


def test_every_kind_hits_at_every_moment() -> None:
    met = {(blow.kind, blow.moment) for trial in trials(1, 600) for blow in trial.blows}
    assert met == {(kind, moment) for kind in KINDS for moment in Moment}


def events(folder: Path, *lines: dict[str, object]) -> Ledger:
    life = {"pid": 1, "started": 2, "at_s": 0.0, "rank": 0}
    (folder / "events.jsonl").write_text("".join(json.dumps({**life, **line}) + "\n" for line in lines))
    return Ledger(folder)


def step(number: int, version: int = 1, **other: object) -> dict[str, object]:
    return {"event": "step", "version": version, "step": number, "state": Unfailed().after(number), **other}


def test_a_right_story_passes(tmp_path: Path) -> None:
    ledger = events(tmp_path, {"event": "begin", "version": 1, "step": 4}, step(5), step(6))
    ledger.look()
    assert ledger.steps[1] == {0: 6}


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ([step(6)], "6 after 4"),
        ([step(5, state=[1] * 16)], "not the unfailed run's"),
        ([step(5, pid=3)], "another process"),
        ([{"event": "begin", "version": 1, "step": 4}], "started twice"),
        ([{"event": "begin", "version": 0, "step": 4}], "after version"),
        ([{"event": "begin", "version": 1, "step": 3, "rank": 1}], "others"),
    ],
)
def test_what_must_not_be_is_seen(tmp_path: Path, lines: list[dict[str, object]], what: str) -> None:
    ledger = events(tmp_path, {"event": "begin", "version": 1, "step": 4}, *lines)
    with pytest.raises(AssertionError, match=what):
        ledger.look()
