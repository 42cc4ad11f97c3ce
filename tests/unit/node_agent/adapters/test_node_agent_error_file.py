"""Error files in torch's layout, and malformed ones."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from node_agent.adapters.error_file import ERROR_FILE_BYTES_MAX, read_worker_error

TRACE = ["Traceback (most recent call last):", '  File "/a/t.py", line 2, in f', "    g(1)", "x.y.BadThing: no good"]


def record(message: object = "BadThing: no good", **extra: object) -> str:
    return json.dumps({"message": {"message": message, "extraInfo": extra}})


def test_torchs_layout(tmp_path: Path) -> None:
    file = tmp_path / "error.json"
    file.write_text(record(py_callstack="\n".join(TRACE), timestamp="1700000000"))
    error = read_worker_error(file, [])
    assert error is not None
    assert (error.source, error.type, error.message) == ("error_file", "BadThing", "no good")
    assert error.frames == ("/a/t.py:2 in f: g(1)",)
    assert error.at == datetime.fromtimestamp(1700000000, UTC)
    from_stderr = read_worker_error(tmp_path / "none.json", ["noise", *TRACE])
    assert from_stderr is not None
    assert from_stderr.source == "stderr"
    assert from_stderr.fingerprint == error.fingerprint != ""


def test_nothing_known_is_none(tmp_path: Path) -> None:
    assert read_worker_error(tmp_path / "none.json", ["loss 0.3"]) is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"message": 3}',
        '{"message": {"message": 3}}',
        record(message=None),
        "x" * (ERROR_FILE_BYTES_MAX + 1),
    ],
    ids=["empty", "torn", "list", "number", "nested", "null", "large"],
)
def test_malformed_file_is_reported_and_stderr_still_counts(tmp_path: Path, content: str) -> None:
    file = tmp_path / "error.json"
    file.write_text(content)
    bare = read_worker_error(file, [])
    assert bare is not None
    assert bare.source == "malformed_error_file"
    assert str(file) in bare.message
    with_stderr = read_worker_error(file, TRACE)
    assert with_stderr is not None
    assert (with_stderr.source, with_stderr.type) == ("malformed_error_file", "BadThing")
    assert with_stderr.fingerprint


def test_odd_extras_do_not_hide_the_message(tmp_path: Path) -> None:
    file = tmp_path / "error.json"
    file.write_text(record(message="just text, no type", timestamp="soon", py_callstack=7))
    error = read_worker_error(file, [])
    assert error is not None
    assert (error.type, error.message, error.at) == ("", "just text, no type", None)
    file.write_text('{"message": "RuntimeError: old layout"}')
    old = read_worker_error(file, [])
    assert old is not None
    assert (old.type, old.message) == ("RuntimeError", "old layout")
