"""Opens the SQLite file of a journal: every statement is a commit of its own, readers do not wait."""

from __future__ import annotations

import sqlite3
from enum import StrEnum
from pathlib import Path


class Survives(StrEnum):
    """What a commit outlives; the values are SQLite's names for it (PRAGMA synchronous, in WAL mode)."""

    PROCESS = "NORMAL"
    """The end of the process; a power cut may lose the last ones."""
    POWER_CUT = "FULL"


def open_journal(path: Path, schema: str, *, survives: Survives, name: str) -> sqlite3.Connection:
    """The file with its table, made where it is missing.

    Raises:
        OSError: it cannot be created or is no journal; `name` says which one.
    """
    try:
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute(f"PRAGMA synchronous={survives}")
        database.execute(schema)
    except sqlite3.Error as error:
        raise OSError(f"cannot use {name} {path}: {error}") from error
    return database
