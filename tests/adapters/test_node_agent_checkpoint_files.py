"""Real files: torn, empty, growing, renamed, wrong sums, unfinished DCP folders, and a call that never returns."""

import asyncio
import hashlib
import io
import json
import os
import pickle
import struct
import threading
import zipfile
from pathlib import Path

import pytest

from node_agent.adapters.checkpoint_files import LocalCheckpointFiles
from node_agent.adapters.checkpoint_folder import DEEP_MAX, WatchedFolder
from node_agent.adapters.daemon_calls import DaemonCalls
from node_agent.application.checkpoint_file_ports import FolderProblem
from node_agent.domain.checkpoint_arrivals import Look
from node_agent.domain.checkpoint_check import CheckLevel, PathKind, judge
from node_agent.domain.checkpoint_pattern import DEFAULT_PATTERN, parse_pattern

pytestmark = [pytest.mark.asyncio, pytest.mark.integration]


def torch_file() -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("archive/data.pkl", b"x" * 1_000)
    return raw.getvalue()


def safetensors_file(length: int) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [length // 4], "data_offsets": [0, length]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(length)


async def rule_of(path: Path | str, level: CheckLevel, *, cwd: Path = Path("/"), pid: int | None = None) -> str:
    """The verdict on a path that nobody writes to."""
    facts = await LocalCheckpointFiles(cwd=cwd).look(str(path), level, pid=pid)
    return judge(str(path), level, facts, facts).rule_id


@pytest.mark.parametrize(
    ("name", "raw", "rule"),
    [
        ("a.pt", torch_file(), "checkpoint.ok"),
        ("a.pt", torch_file()[:-30], "checkpoint.torn"),
        ("a.pt", torch_file()[:500], "checkpoint.torn"),
        ("a.safetensors", safetensors_file(400), "checkpoint.ok"),
        ("a.safetensors", safetensors_file(400)[:-1], "checkpoint.torn"),
        ("a.safetensors", safetensors_file(400)[:20], "checkpoint.torn"),
        ("a.safetensors", b"\xff" * 40, "checkpoint.torn"),
        ("a.safetensors", struct.pack("<Q", 10) + b"[[[[[[[[[[", "checkpoint.torn"),
        ("a.bin", b"anything", "checkpoint.ok"),
        ("a.bin", b"", "checkpoint.empty"),
    ],
)
async def test_files_with_and_without_their_end(tmp_path: Path, name: str, raw: bytes, rule: str) -> None:
    (tmp_path / name).write_bytes(raw)
    assert await rule_of(tmp_path / name, CheckLevel.SIZE) == rule
    assert await rule_of(tmp_path / name, CheckLevel.EXISTS) == "checkpoint.ok"


async def test_a_growing_file_changes_between_two_looks(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"1")
    files = LocalCheckpointFiles(cwd=tmp_path)
    before = await files.look(str(path), CheckLevel.SIZE, pid=None)
    with path.open("ab") as file:
        file.write(b"2")
    after = await files.look(str(path), CheckLevel.SIZE, pid=None)
    assert judge("a", CheckLevel.SIZE, after, before).rule_id == "checkpoint.changing"


async def test_a_sum_beside_the_file_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"content")
    sidecar = tmp_path / "a.bin.sha256"
    assert await rule_of(path, CheckLevel.CHECKSUM) == "checkpoint.ok"
    sidecar.write_text(f"{hashlib.sha256(b'content').hexdigest()}  a.bin\n")
    assert await rule_of(path, CheckLevel.CHECKSUM) == "checkpoint.ok"
    assert await rule_of(tmp_path, CheckLevel.CHECKSUM) == "checkpoint.ok"
    path.write_bytes(b"CONTENT")
    assert await rule_of(path, CheckLevel.CHECKSUM) == "checkpoint.checksum"
    assert await rule_of(tmp_path, CheckLevel.CHECKSUM) == "checkpoint.checksum"
    assert await rule_of(path, CheckLevel.SIZE) == "checkpoint.ok"
    sidecar.write_text("no sum")
    assert await rule_of(path, CheckLevel.CHECKSUM) == "checkpoint.checksum"


class Bomb:
    """Unpickling it would be seen."""

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.mkdir, ("unpickled", 0o700)


async def test_a_dcp_folder_needs_what_its_manifest_names_and_nothing_is_unpickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "step_10"
    folder.mkdir()
    (folder / "__0_0.distcp").write_bytes(b"shard")
    assert await rule_of(folder, CheckLevel.EXISTS) == "checkpoint.manifest", "no .metadata yet"
    names = [f"__{rank}_0.distcp" for rank in range(2)]
    (folder / ".metadata").write_bytes(pickle.dumps({"storage": names, "bomb": Bomb()}))
    assert await rule_of(folder, CheckLevel.EXISTS) == "checkpoint.manifest", "__1_0.distcp is missing"
    (folder / "__1_0.distcp").write_bytes(b"")
    assert await rule_of(folder, CheckLevel.EXISTS) == "checkpoint.manifest", "__1_0.distcp is empty"
    (folder / "__1_0.distcp").write_bytes(b"shard")
    assert await rule_of(folder, CheckLevel.EXISTS) == "checkpoint.ok"
    assert not (tmp_path / "unpickled").exists()


async def test_paths_that_are_not_there_and_paths_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "here.pt").write_bytes(b"x")
    assert await rule_of(tmp_path / "gone.pt", CheckLevel.EXISTS) == "checkpoint.missing"
    assert await rule_of(tmp_path / "here.pt" / "below", CheckLevel.EXISTS) == "checkpoint.missing"
    assert await rule_of("s3://bucket/step 10", CheckLevel.CHECKSUM) == "checkpoint.unseen"
    assert await rule_of(f"file://{tmp_path}/here.pt", CheckLevel.EXISTS) == "checkpoint.ok"
    assert await rule_of("here.pt", CheckLevel.EXISTS, cwd=tmp_path) == "checkpoint.ok"
    assert await rule_of("gone.pt", CheckLevel.EXISTS, cwd=tmp_path) == "checkpoint.unseen", "its process is gone"
    assert await rule_of("gone.pt", CheckLevel.EXISTS, pid=os.getpid()) == "checkpoint.missing"
    assert await rule_of("a\0b", CheckLevel.EXISTS) == "checkpoint.unreadable"
    assert await rule_of("/dev/null", CheckLevel.EXISTS) == "checkpoint.unreadable"


async def test_a_call_that_hangs_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    calls = DaemonCalls(name="test", limit=1)
    with pytest.raises(TimeoutError):
        await calls.run(lambda _stop: release.wait(60), limit_s=0.05)
    with pytest.raises(TimeoutError):
        await calls.run(lambda _stop: 1, limit_s=0.05)
    release.set()
    assert await calls.run(lambda _stop: 1, limit_s=30) == 1
    monkeypatch.setattr(threading.Thread, "start", lambda _self: (_ for _ in ()).throw(RuntimeError("can't start")))
    with pytest.raises(OSError, match="no thread"):
        await calls.run(lambda _stop: 1, limit_s=1)


async def test_a_hanging_file_system_is_a_fact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    files = LocalCheckpointFiles(cwd=tmp_path, look_limit_s=0.05)
    monkeypatch.setattr(files, "_facts", lambda *_args: release.wait(60))
    facts = await files.look("/c/10", CheckLevel.EXISTS, pid=None)
    release.set()
    assert facts.kind is PathKind.UNREADABLE
    assert "no answer within" in facts.problem


def steps(look: Look) -> list[int]:
    return sorted(entry.step for entry in look.entries)


async def test_names_in_a_folder_and_the_inode_that_a_rename_keeps(tmp_path: Path) -> None:
    watched = WatchedFolder(tmp_path / "ckpt", DEFAULT_PATTERN)
    assert (await watched.look()).is_missing
    (tmp_path / "ckpt").mkdir()
    writing = tmp_path / "ckpt" / "step_20.pt.tmp"
    writing.write_bytes(b"half")
    (tmp_path / "ckpt" / "step_10.pt").write_bytes(b"whole")
    (tmp_path / "ckpt" / "latest").write_text("10")
    first = await watched.look()
    assert steps(first) == [10]
    writing.rename(tmp_path / "ckpt" / "step_20.pt")
    second = await watched.look()
    assert steps(second) == [10, 20]
    assert next(entry.inode for entry in second.entries if entry.step == 20) in first.writing


async def test_a_folder_of_ranks(tmp_path: Path) -> None:
    watched = WatchedFolder(tmp_path, parse_pattern("step_{step}/rank_{rank}.pt"))
    for rank in range(3):
        (tmp_path / "step_5").mkdir(exist_ok=True)
        (tmp_path / "step_5" / f"rank_{rank:02d}.pt").write_bytes(b"x")
    (tmp_path / "step_5.tmp").mkdir()
    look = await watched.look()
    assert sorted((entry.step, entry.rank) for entry in look.entries) == [(5, 0), (5, 1), (5, 2)]
    path = next(entry.path for entry in look.entries if entry.rank == 2)
    assert watched.rank_rule(path) == ((f"{tmp_path}/step_5/rank_", ".pt"), 2)


async def test_a_write_into_a_folder_shows_and_old_folders_keep_their_state(tmp_path: Path) -> None:
    for step in range(DEEP_MAX + 4):
        folder = tmp_path / f"step_{step}"
        folder.mkdir()
        (folder / "model.bin").write_bytes(b"x")
        os.utime(folder, ns=(step + 1, step + 1))
    watched = WatchedFolder(tmp_path, DEFAULT_PATTERN)

    async def states() -> dict[int, tuple[int, int, int]]:
        return {entry.step: entry.state for entry in (await watched.look()).entries}

    before = await states()
    newest = DEEP_MAX + 3
    with (tmp_path / f"step_{newest}" / "model.bin").open("ab") as file:
        file.write(b"more")
    after = await states()
    assert [step for step in before if before[step] != after[step]] == [newest]
    (tmp_path / f"step_{newest}" / "model.bin").unlink()
    (tmp_path / f"step_{newest}").rmdir()
    rest = await states()
    assert all(rest[step] == before[step] for step in rest), "one that moves up is no change"


async def test_a_folder_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderProblem, match="Not a directory"):
        await WatchedFolder(tmp_path / "file", DEFAULT_PATTERN).look()


async def test_looking_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "step_1.pt"
    path.write_bytes(torch_file())
    before = path.stat().st_mtime_ns, sorted(os.listdir(tmp_path))
    await rule_of(path, CheckLevel.CHECKSUM)
    await asyncio.gather(*(WatchedFolder(tmp_path, DEFAULT_PATTERN).look() for _ in range(3)))
    assert (path.stat().st_mtime_ns, sorted(os.listdir(tmp_path))) == before
