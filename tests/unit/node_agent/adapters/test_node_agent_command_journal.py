"""The journal survives the agent and keeps commands of jobs apart."""

from pathlib import Path

import pytest

from node_agent.adapters import command_journal
from node_agent.adapters.command_journal import SqliteCommandJournal
from node_agent.domain.fence import NOTHING_SEEN, FencePoint


def point(version: int, verb: int = 0) -> FencePoint:
    return FencePoint(topology_version=version, verb=verb, attempt=0, epoch=1)


def test_what_was_begun_and_finished_is_there_after_a_restart(tmp_path: Path) -> None:
    first = SqliteCommandJournal(tmp_path / "j.db")
    first.begin("op1", job_id="a", point=point(1), instance_id="l1")
    first.finish("op1", b"{}")
    first.begin("op2", job_id="a", point=point(1, 1), instance_id="l1")
    # No close: kill -9 does not call it either.
    second = SqliteCommandJournal(tmp_path / "j.db")
    one, two = second.find("op1"), second.find("op2")
    assert one is not None
    assert two is not None
    assert (one.outcome, two.outcome) == (b"{}", None)
    assert second.newest("a") == point(1, 1)
    first.close()
    second.close()


def test_jobs_have_their_own_order(tmp_path: Path) -> None:
    journal = SqliteCommandJournal(tmp_path / "j.db")
    journal.begin("op1", job_id="a", point=point(7), instance_id="l1")
    assert journal.newest("b") == NOTHING_SEEN
    journal.begin("op2", job_id="b", point=point(1), instance_id="l1")
    assert (journal.newest("a"), journal.newest("b")) == (point(7), point(1))
    assert journal.find("op3") is None
    journal.close()


def test_an_operation_taken_over_by_a_new_life_has_no_outcome_yet(tmp_path: Path) -> None:
    journal = SqliteCommandJournal(tmp_path / "j.db")
    journal.begin("op1", job_id="a", point=point(1), instance_id="l1")
    journal.finish("op1", b"old")
    journal.begin("op1", job_id="a", point=point(1), instance_id="l2")
    entry = journal.find("op1")
    assert entry is not None
    assert (entry.instance_id, entry.outcome) == ("l2", None)
    journal.close()


def test_the_oldest_entries_go_when_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_journal, "ENTRIES_MAX", 3)
    journal = SqliteCommandJournal(tmp_path / "j.db")
    for number in range(1, 6):
        journal.begin(f"op{number}", job_id="a", point=point(number), instance_id="l1")
    assert journal.find("op2") is None
    assert journal.find("op3") is not None
    assert journal.newest("a") == point(5)
    journal.close()


def test_a_file_that_is_no_journal_is_said(tmp_path: Path) -> None:
    (tmp_path / "j.db").write_bytes(b"not a database, and long enough to be looked at" * 100)
    with pytest.raises(OSError, match="cannot use the command journal"):
        SqliteCommandJournal(tmp_path / "j.db")
