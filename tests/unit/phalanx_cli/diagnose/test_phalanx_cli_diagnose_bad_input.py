"""Bad input: named, counted, never fatal for the rest, and never executed."""

from __future__ import annotations

import gzip
import io
import os
import socket
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from diagnose_rig import BOOM, XID, rig_findings

from fault_attribution.evidence_line import Source
from phalanx_cli.diagnose import archives, yaml_nodes
from phalanx_cli.diagnose.reading_notes import Oddity, Skip


def good(folder: Path) -> Path:
    """A folder with one file that says something; whatever else is in it, this one must be heard."""
    folder.mkdir()
    (folder / "zz_rank_1.err").write_text(f"{BOOM}\n")
    return folder


def heard(folder: Path, tmp_path: Path) -> dict[Skip, int]:
    found, notes = rig_findings(tmp_path, folder)
    assert "rig_boom" in {each.kind for each in found}
    return notes.skipped


def test_what_is_no_log_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    logs = good(tmp_path / "in")
    (logs / "core").write_bytes(b"\x7fELF" + os.urandom(4_096))
    (logs / "noise").write_bytes(os.urandom(20_000))
    (logs / "model.pt").write_bytes(b"PK\x03\x04")
    (logs / "nothing.log").touch()
    (logs / "dangling").symlink_to(logs / "gone")
    os.mkfifo(logs / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(logs)
        server.bind("socket")
    (logs / "null").symlink_to("/dev/zero")
    (logs / "loop").symlink_to(logs)
    (logs / "self").symlink_to(logs / "self")
    assert heard(logs, tmp_path) == {
        Skip.BINARY: 2,
        Skip.NO_LOG: 1,
        Skip.EMPTY: 1,
        Skip.UNREADABLE: 1,
        Skip.NO_FILE: 3,
        Skip.LINK_LOOP: 2,
    }


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = good(tmp_path / "in")
    (logs / "secret.log").write_text(XID)
    opened = Path.open

    def refuse(path: Path, *arguments: object, **named: object) -> object:
        if path.name == "secret.log":  # root may read everything, so chmod would prove nothing
            raise PermissionError(13, "Permission denied")
        return opened(path, *arguments, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    assert heard(logs, tmp_path) == {Skip.UNREADABLE: 1}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_other_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "rank_2.err"
    path.write_bytes(f"{'a healthy line' * 10}\n{BOOM}\n".encode(encoding))
    [found], _ = rig_findings(tmp_path, path)
    assert (found.rank, found.number) == (2, 2)


def test_latin_1_and_zeros_in_a_log(tmp_path: Path) -> None:
    path = tmp_path / "rank_2.err"
    path.write_bytes("für Übung\n".encode("latin-1") + b"\0" * 100_000 + b"\n" + BOOM.encode() + b"\n")
    [found], notes = rig_findings(tmp_path, path)
    assert found.number == 3
    assert Oddity.DECODED in notes.odd


def test_a_line_of_a_hundred_megabytes_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "rank_2.err"
    with path.open("wb") as file:
        for _ in range(100):
            file.write(b"x" * (1 << 20))
        file.write(b"\n" + BOOM.encode())
    tracemalloc.start()
    [found], notes = rig_findings(tmp_path, path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.number == 2
    assert notes.odd[Oddity.LONG_LINE] == 1
    assert peak < 32 << 20


@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_a_truncated_archive_is_read_up_to_there(tmp_path: Path, kept: float) -> None:
    logs = good(tmp_path / "in")
    whole = gzip.compress(f"{BOOM}\n".encode() + os.urandom(2_000_000).hex().encode())
    (logs / "rank_0.err.gz").write_bytes(whole[: int(len(whole) * kept)])
    found, notes = rig_findings(tmp_path, logs)
    assert {each.rank for each in found} == {0, 1}
    assert notes.skipped == {Skip.TRUNCATED: 1}


def test_damaged_archives(tmp_path: Path) -> None:
    logs = good(tmp_path / "in")
    (logs / "a.zip").write_bytes(b"PK\x03\x04" + os.urandom(500))
    (logs / "b.gz").write_bytes(b"\x1f\x8b\x08\x00" + os.urandom(500))
    (logs / "c.xz").write_bytes(b"\xfd7zXZ\0" + os.urandom(500))
    (logs / "d.bz2").write_bytes(b"BZh9" + os.urandom(500))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("rank_0.err")
        info.size = 100_000
        archive.addfile(info, io.BytesIO(b"\n" * 100_000))
    (logs / "e.tar").write_bytes(out.getvalue()[:50_000])
    assert heard(logs, tmp_path) == {Skip.TRUNCATED: 5}


def test_a_bomb_is_left_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "RATIO_FROM_BYTES", 1 << 20)
    monkeypatch.setattr(archives, "RATIO_MAX", 100)
    logs = good(tmp_path / "in")
    (logs / "zeros.log.gz").write_bytes(gzip.compress(b"\n" * (8 << 20)))
    with zipfile.ZipFile(logs / "zeros.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.log", b"\n" * (8 << 20))
    assert heard(logs, tmp_path) == {Skip.BOMB: 2}


def test_archives_within_archives_end(tmp_path: Path) -> None:
    logs = good(tmp_path / "in")
    data = b"deep\n"
    for _ in range(archives.NESTING_MAX + 1):
        data = gzip.compress(data)
    (logs / "deep.gz").write_bytes(data)
    assert heard(logs, tmp_path) == {Skip.TOO_DEEP: 1}


def test_members_with_paths_of_their_own_write_nothing(tmp_path: Path) -> None:
    logs = good(tmp_path / "in")
    with zipfile.ZipFile(logs / "evil.zip", "w") as archive:
        archive.writestr("../../escaped", BOOM)
        archive.writestr("/absolute", BOOM)
    with tarfile.open(logs / "evil.tar", "w") as tar:
        link = tarfile.TarInfo("rank_9.err")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        device = tarfile.TarInfo("device")
        device.type = tarfile.CHRTYPE
        tar.addfile(device)
    assert heard(logs, tmp_path) == {Skip.NO_FILE: 2}
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {
        "zz_rank_1.err", "evil.zip", "evil.tar", "rig.yaml"
    }  # fmt: skip


def test_the_same_file_twice_counts_once(tmp_path: Path) -> None:
    logs = good(tmp_path / "in")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "zz_rank_1.err").write_text(f"{BOOM}\n")
    found, notes = rig_findings(tmp_path, logs, logs, logs / "zz_rank_1.err", copy)
    assert len(found) == 1
    assert notes.skipped == {Skip.TWICE: 2, Skip.SAME_CONTENT: 1}


def test_two_logs_of_one_rank_are_both_read_and_told(tmp_path: Path) -> None:
    logs = good(tmp_path / "in")
    (logs / "old").mkdir()
    (logs / "old/zz_rank_1.err").write_text(f"{BOOM} before\n")
    found, notes = rig_findings(tmp_path, logs)
    assert len(found) == 2
    assert notes.odd == {Oddity.SAME_RANK: 1}


def test_ranks_that_died_of_one_error_are_not_one_rank(tmp_path: Path) -> None:
    logs = tmp_path / "in"
    logs.mkdir()
    for rank in range(3):
        (logs / f"rank_{rank}.err").write_text(BOOM)
    found, notes = rig_findings(tmp_path, logs)
    assert {each.rank for each in found} == {0, 1, 2}
    assert not notes.skipped


@pytest.mark.parametrize(
    "text",
    [
        "evidence: &a\n- {line: x, source: kmsg}\n- *a\n",
        "evidence:\n" + "- [" * 200 + "]" * 200,
        "evidence: 7\n",
        "evidence:\n- line: 'no end\n",
        "evidence: !!python/object/apply:os.system ['touch pwned']\n",
    ],
    ids=["alias", "depth", "no list", "no yaml", "object"],
)
def test_a_bad_incident_file_is_read_as_text(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    logs = good(tmp_path / "in")
    (logs / "i.yaml").write_text(f"{text}# {XID}\n")
    found, notes = rig_findings(tmp_path, logs)
    assert {each.kind for each in found} == {"rig_boom", "rig_xid_79"}
    assert notes.skipped == {Skip.MALFORMED: 1}
    assert not (tmp_path / "pwned").exists()


def test_an_incident_file_with_odd_rows(tmp_path: Path) -> None:
    path = tmp_path / "i.yaml"
    path.write_text(
        f"evidence:\n- line: '{XID}'\n  source: elsewhere\n  rank: -7\n  offset_s: soon\n- 7\n- {{source: kmsg}}\n"
    )
    [found], _ = rig_findings(tmp_path, path)
    assert (found.source, found.rank, found.at_s, found.number) == (Source.UNKNOWN, None, None, 2)


def test_a_document_that_is_too_large_is_read_as_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_nodes, "DOCUMENT_BYTES_MAX", 1 << 20)
    path = tmp_path / "i.yaml"
    path.write_text("evidence:\n" + "- {line: x, source: kmsg}\n" * 100_000 + f"- line: '{XID}'\n")
    [found], notes = rig_findings(tmp_path, path)
    assert found.number == 100_002
    assert notes.skipped == {Skip.MALFORMED: 1}
