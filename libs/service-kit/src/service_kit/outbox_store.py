"""The file under the outbox: sqlite in WAL mode, written by one thread in grouped commits.

Grouped commits cost 7 us an event instead of 28; an event that is acknowledged by the bus before its group is due is
never written.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from service_kit.logging import get_logger

GROUP_EVENTS = 50
GROUP_WAIT_S = 0.02
REMOVE_WAIT_S = 1.0
"""How long removals gather: what a killed process had not removed yet is sent again, and dropped by its id."""
RETRY_S = 1.0
"""Between attempts when the disk refuses (full, read-only)."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    place INTEGER PRIMARY KEY, id TEXT NOT NULL, subject TEXT NOT NULL, urgent INTEGER NOT NULL, body BLOB NOT NULL,
    refused TEXT
)
"""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """One event as it lies in the file; `place` orders them."""

    place: int
    id: str
    subject: str
    urgent: bool
    body: bytes


class OutboxStore:
    """Events by place. `add`, `remove` and `refuse` only queue; the thread writes and reports what is durable."""

    def __init__(self, path: Path, *, on_durable: Callable[[list[int]], None]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._on_durable = on_durable
        self._wake = threading.Condition()
        self._added: OrderedDict[int, StoredEvent] = OrderedDict()
        self._removed: list[int] = []
        self._refused: list[tuple[str, int]] = []
        self._urgent = False
        self._closing = False
        self._failing = False
        self._database = self._open()
        self._thread = threading.Thread(target=self._write_forever, name="outbox", daemon=True)

    def load(self) -> list[StoredEvent]:
        """What earlier lives left, oldest first; then start to write."""
        rows = self._database.execute(
            "SELECT place, id, subject, urgent, body FROM events WHERE refused IS NULL ORDER BY place"
        )
        found = [
            StoredEvent(place=place, id=id_, subject=subject, urgent=bool(urgent), body=bytes(body))
            for place, id_, subject, urgent, body in rows
        ]
        self._thread.start()
        return found

    def last_place(self) -> int:
        """The largest place ever used that is still in the file."""
        row = self._database.execute("SELECT COALESCE(MAX(place), 0) FROM events").fetchone()
        return int(row[0])

    def add(self, event: StoredEvent) -> None:
        """Write it with the next group; an urgent one at once, with fsync."""
        with self._wake:
            self._added[event.place] = event
            self._urgent |= event.urgent
            self._wake.notify()

    def remove(self, place: int) -> None:
        """Forget it: the bus has it, or it was dropped."""
        with self._wake:
            if self._added.pop(place, None) is None:
                self._removed.append(place)
                self._wake.notify()

    def refuse(self, event: StoredEvent, reason: str) -> None:
        """Keep it for a person to look at, but never send it again."""
        with self._wake:
            self._added.setdefault(event.place, event)
            self._refused.append((reason, event.place))
            self._wake.notify()

    def close(self) -> None:
        """Write what is left and close the file."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()
        self._database.close()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise OSError(f"cannot open the outbox {self._path}: {error}") from error
            aside = self._path.with_name(f"{self._path.name}.damaged")
            log.error("outbox_damaged", path=str(self._path), moved_to=str(aside), error=str(error))
            self._path.replace(aside)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=1.0, isolation_level=None, check_same_thread=False)
        try:
            # Exclusive: a second agent on the same file would send everything twice.
            database.execute("PRAGMA locking_mode=EXCLUSIVE")
            database.execute("PRAGMA journal_mode=WAL")
            database.execute(_SCHEMA)
            database.execute("BEGIN IMMEDIATE")
            database.execute("COMMIT")
        except BaseException:
            database.close()
            raise
        return database

    def _write_forever(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(self._has_work)
                if self._added:
                    self._wake.wait_for(self._group_is_due, GROUP_WAIT_S)
                else:
                    self._wake.wait_for(lambda: bool(self._added) or self._group_is_due(), REMOVE_WAIT_S)
                added, self._added = self._added, OrderedDict()
                removed, self._removed = self._removed, []
                refused, self._refused = self._refused, []
                urgent, self._urgent = self._urgent, False
                closing = self._closing
            if added or removed or refused:
                self._commit_or_keep(added, removed, refused, urgent=urgent, closing=closing)
            if closing and not self._added:
                return

    def _has_work(self) -> bool:
        return bool(self._added or self._refused or self._closing or self._removed)

    def _group_is_due(self) -> bool:
        return bool(self._urgent or self._closing or self._refused or len(self._added) >= GROUP_EVENTS)

    def _commit_or_keep(
        self,
        added: OrderedDict[int, StoredEvent],
        removed: list[int],
        refused: list[tuple[str, int]],
        *,
        urgent: bool,
        closing: bool,
    ) -> None:
        try:
            self._commit(added, removed, refused, urgent=urgent)
        except sqlite3.Error as error:
            if not self._failing:
                log.error("outbox_not_durable", path=str(self._path), error=str(error), waiting=len(added))
            self._failing = True
            if closing:
                return  # nothing more can be done; what the bus has is safe
            with self._wake:
                # Whatever was removed meanwhile is removed from here as well.
                gone = set(self._removed)
                added.update(self._added)
                self._added = OrderedDict((place, event) for place, event in added.items() if place not in gone)
                self._removed = removed + self._removed
                self._refused = refused + self._refused
                self._urgent |= urgent
                self._wake.wait_for(lambda: self._closing, RETRY_S)
            return
        if self._failing:
            log.info("outbox_durable_again", path=str(self._path))
            self._failing = False
        if added:
            self._on_durable(list(added))

    def _commit(
        self,
        added: OrderedDict[int, StoredEvent],
        removed: list[int],
        refused: list[tuple[str, int]],
        *,
        urgent: bool,
    ) -> None:
        database = self._database
        # FULL waits for the disk: such a commit outlives a power cut. NORMAL outlives a kill of this process.
        database.execute(f"PRAGMA synchronous={'FULL' if urgent else 'NORMAL'}")
        database.execute("BEGIN")
        try:
            database.executemany(
                "INSERT OR IGNORE INTO events (place, id, subject, urgent, body) VALUES (?, ?, ?, ?, ?)",
                [(event.place, event.id, event.subject, event.urgent, event.body) for event in added.values()],
            )
            database.executemany("DELETE FROM events WHERE place = ?", [(place,) for place in removed])
            database.executemany("UPDATE events SET refused = ? WHERE place = ?", refused)
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise
