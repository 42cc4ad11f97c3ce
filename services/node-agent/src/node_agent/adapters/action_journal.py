"""Which node actions began on this machine and how they ended, in SQLite, so that nothing is done twice.

synchronous=FULL, unlike the launcher's journal: a reboot follows the commit, and must be known to the next boot.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from node_agent.adapters.journal_file import Survives, open_journal
from node_agent.application.node_action_ports import ActionEntry

ENTRIES_MAX = 1_000
"""A node is acted on now and then; the oldest go first."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS action (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    operation_id TEXT NOT NULL UNIQUE,
    boot_id TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    order_json BLOB NOT NULL,
    outcome BLOB
)
"""
_COLUMNS = "operation_id, boot_id, instance_id, order_json, outcome"


class SqliteActionJournal:
    """application.node_action_ports.ActionJournal.

    Raises:
        OSError: the file cannot be created or is no journal.
    """

    def __init__(self, path: Path) -> None:
        self._db = open_journal(path, _SCHEMA, survives=Survives.POWER_CUT, name="the journal of actions")

    def find(self, operation_id: str) -> ActionEntry | None:
        """See the port."""
        row = self._db.execute(f"SELECT {_COLUMNS} FROM action WHERE operation_id = ?", (operation_id,)).fetchone()  # noqa: S608 - a constant
        return None if row is None else _entry(row)

    def unfinished(self) -> Sequence[ActionEntry]:
        """See the port."""
        rows = self._db.execute(f"SELECT {_COLUMNS} FROM action WHERE outcome IS NULL ORDER BY number")  # noqa: S608 - a constant
        return [_entry(row) for row in rows]

    def begin(self, entry: ActionEntry) -> None:
        """See the port."""
        self._db.execute(
            "INSERT INTO action (operation_id, boot_id, instance_id, order_json) VALUES (?, ?, ?, ?)",
            (entry.operation_id, entry.boot_id, entry.instance_id, entry.order),
        )
        self._db.execute("DELETE FROM action WHERE number <= (SELECT MAX(number) FROM action) - ?", (ENTRIES_MAX,))

    def finish(self, operation_id: str, outcome: bytes) -> None:
        """See the port."""
        self._db.execute("UPDATE action SET outcome = ? WHERE operation_id = ?", (outcome, operation_id))

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _entry(row: tuple[str, str, str, bytes, bytes | None]) -> ActionEntry:
    operation_id, boot_id, instance_id, order, outcome = row
    return ActionEntry(
        operation_id=operation_id, boot_id=boot_id, instance_id=instance_id, order=order, outcome=outcome
    )
