"""Which commands this node began and how they ended, in SQLite, so that a restarted agent obeys nothing twice.

WAL with synchronous=NORMAL: a commit costs microseconds on the fault path and survives the end of the process. A power
cut may lose the last commits, but it ends the ranks as well, and then there is nothing to protect from a second start.
"""

from __future__ import annotations

from pathlib import Path

from node_agent.adapters.journal_file import Survives, open_journal
from node_agent.application.control_ports import JournalEntry
from node_agent.domain.fence import NOTHING_SEEN, FencePoint

ENTRIES_MAX = 10_000
"""Far above what one job sends; the oldest go first."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS operation (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    operation_id TEXT NOT NULL UNIQUE,
    job_id TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    topology_version INTEGER NOT NULL,
    verb INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    outcome BLOB
)
"""


class SqliteCommandJournal:
    """application.control_ports.CommandJournal.

    Raises:
        OSError: the file cannot be created or is no journal.
    """

    def __init__(self, path: Path) -> None:
        self._db = open_journal(path, _SCHEMA, survives=Survives.PROCESS, name="the command journal")
        self._newest: dict[str, FencePoint] = {}

    def newest(self, job_id: str) -> FencePoint:
        """The newest command begun for a job; kept in memory after the first question."""
        if job_id not in self._newest:
            rows = self._db.execute(
                "SELECT topology_version, verb, attempt, epoch FROM operation WHERE job_id = ?", (job_id,)
            )
            points = (
                FencePoint(topology_version=version, verb=verb, attempt=attempt, epoch=epoch)
                for version, verb, attempt, epoch in rows
            )
            self._newest[job_id] = max(points, default=NOTHING_SEEN)
        return self._newest[job_id]

    def find(self, operation_id: str) -> JournalEntry | None:
        """The entry of an operation."""
        row = self._db.execute(
            "SELECT instance_id, outcome FROM operation WHERE operation_id = ?", (operation_id,)
        ).fetchone()
        if row is None:
            return None
        return JournalEntry(operation_id=operation_id, instance_id=row[0], outcome=row[1])

    def begin(self, operation_id: str, *, job_id: str, point: FencePoint, instance_id: str) -> None:
        """Note that an operation begins."""
        newest = self.newest(job_id)
        self._db.execute(
            "INSERT INTO operation (operation_id, job_id, instance_id, topology_version, verb, attempt, epoch)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (operation_id) DO UPDATE SET instance_id = excluded.instance_id, outcome = NULL",
            (operation_id, job_id, instance_id, point.topology_version, point.verb, point.attempt, point.epoch),
        )
        self._db.execute(
            "DELETE FROM operation WHERE number <= (SELECT MAX(number) FROM operation) - ?", (ENTRIES_MAX,)
        )
        self._newest[job_id] = max(newest, point)

    def finish(self, operation_id: str, outcome: bytes) -> None:
        """Store the report that answers the operation."""
        self._db.execute("UPDATE operation SET outcome = ? WHERE operation_id = ?", (outcome, operation_id))

    def close(self) -> None:
        """Close the file."""
        self._db.close()
