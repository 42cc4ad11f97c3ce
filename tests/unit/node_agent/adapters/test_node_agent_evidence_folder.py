"""Evidence on disk: complete when there is room, bounded when there is much, told when there is none."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from node_agent.adapters import evidence_folder
from node_agent.adapters.evidence_folder import EvidenceFolders, write_evidence


async def save(tmp_path: Path, texts: dict[str, str], tails: dict[str, Path], notices: list[str]) -> str:
    store = EvidenceFolders(lambda version: tmp_path / f"attempt_{version}", notices.append)
    return await store.save(3, texts=texts, tails=tails)


@pytest.mark.asyncio
async def test_texts_and_ends_of_logs_are_in_a_new_folder_each_time(tmp_path: Path) -> None:
    log = tmp_path / "stdout.log"
    log.write_bytes(b"\xffloss: nan\n")
    notices: list[str] = []
    tails = {"rank_0_stdout.log": log, "rank_0_stderr.log": tmp_path / "missing"}
    first = Path(await save(tmp_path, {"fault.json": "{}", "../evil": "x"}, tails, notices))
    second = Path(await save(tmp_path, {}, {}, notices))
    assert (first, second) == (tmp_path / "attempt_3/evidence_1", tmp_path / "attempt_3/evidence_2")
    assert sorted(os.listdir(first)) == [".._evil", "fault.json", "rank_0_stdout.log"]
    assert (first / "rank_0_stdout.log").read_bytes() == b"\xffloss: nan\n"
    assert notices == []


def test_files_and_folders_are_bounded(tmp_path: Path) -> None:
    log = tmp_path / "stdout.log"
    log.write_bytes(b"a" * 300_000 + b"the end")
    texts = {f"t{n}": "é" * 400_000 for n in range(40)}
    folder = write_evidence(tmp_path, texts, {"tail": log})
    sizes = [path.stat().st_size for path in folder.iterdir()]
    assert sum(sizes) <= evidence_folder.FOLDER_BYTES_MAX + 100
    assert max(sizes) <= evidence_folder.FILE_BYTES_MAX + 100
    [tail] = write_evidence(tmp_path, {}, {"tail": log}).iterdir()
    assert tail.read_bytes().endswith(b"athe end")
    assert tail.stat().st_size == evidence_folder.TAIL_BYTES_MAX


@pytest.mark.asyncio
async def test_what_cannot_be_saved_is_told_and_not_raised(tmp_path: Path) -> None:
    notices: list[str] = []
    (tmp_path / "attempt_3").write_text("a file where the folder should be")
    assert await save(tmp_path, {"a": "b"}, {}, notices) == ""
    (tmp_path / "attempt_3").unlink()
    for number in range(1, evidence_folder.FOLDERS_MAX + 1):
        (tmp_path / "attempt_3" / f"evidence_{number}").mkdir(parents=True)
    assert await save(tmp_path, {"a": "b"}, {}, notices) == ""
    assert len(notices) == 2
    assert "folders of evidence already" in notices[1]


@pytest.mark.asyncio
async def test_a_file_system_that_hangs_costs_the_evidence_only(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    notices: list[str] = []
    store = EvidenceFolders(lambda _version: tmp_path, notices.append, save_s_max=0.1)
    assert await store.save(1, texts={}, tails={"tail": tmp_path / "pipe"}) == ""
    assert "not saved within 0.1 s" in notices[0]
    (tmp_path / "pipe").open("wb").close()  # lets the thread go


def test_a_file_system_that_hangs_does_not_hold_the_end_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr(evidence_folder, "write_evidence", lambda *_: release.wait(60))
    store = EvidenceFolders(lambda _version: tmp_path, lambda _line: None, save_s_max=0.05)
    assert asyncio.run(store.save(1, texts={}, tails={})) == ""  # its end joins the threads of the loop's executor
    hanging = [thread for thread in threading.enumerate() if thread.name == "evidence"]
    release.set()
    assert [thread.daemon for thread in hanging] == [True]
