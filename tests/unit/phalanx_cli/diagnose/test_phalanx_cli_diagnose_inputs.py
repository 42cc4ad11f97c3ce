"""Every kind of input, as a file: who says it, where and when."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from diagnose_rig import BOOM, XID, rig_findings

from fault_attribution.evidence_line import Source
from phalanx_cli.diagnose.evidence_reader import Choice
from phalanx_cli.diagnose.reading_notes import Oddity, Skip

T = 1_788_264_000.0
"""2026-09-01T12:00:00Z"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


JOURNAL_RECORD = json.dumps(
    {"__REALTIME_TIMESTAMP": "1788264000000000", "_HOSTNAME": "n9", "_TRANSPORT": "kernel", "MESSAGE": XID}
)
EVENT = {
    "apiVersion": "v1", "kind": "List", "items": [
        {"kind": "Event", "type": "Warning", "reason": "Evicted", "message": "low on memory",
         "lastTimestamp": "2026-09-01T12:00:00Z", "source": {"host": "n9"},
         "involvedObject": {"kind": "Pod", "name": "llm-3"}}],
}  # fmt: skip
EVENT_YAML = """\
apiVersion: v1
items:
- kind: Event
  type: Warning
  reason: Evicted
  message: low on memory
  lastTimestamp: "2026-09-01T12:00:00Z"
  source: {host: n9}
  involvedObject: {kind: Pod, name: llm-3}
kind: List
"""
ERROR_FILE = {"message": {"message": BOOM, "extraInfo": {"py_callstack": "Traceback\n  x", "timestamp": "1788264000"}}}
KINDS = [
    ("incident", "x", f"evidence:\n- source: kmsg\n  node: n9\n  offset_s: 7\n  line: '{XID}'\n",
     (5, "n9", None, Source.KMSG, 7.0)),
    ("dmesg", "dump.txt", f"[    1.000000] booted\n[  123.456789] {XID}\n", (2, "", None, Source.KMSG, 123.456789)),
    ("dmesg -T", "dump.txt", f"[Tue Sep  1 12:00:00 2026] {XID}\n", (1, "", None, Source.KMSG, T)),
    ("dmesg name", "dmesg-node17.txt", f"[    1.000000] booted\n[  2.000000] {XID}\n",
     (2, "node17", None, Source.KMSG, 2.0)),
    ("dmesg name, turned", "node17-dmesg.txt", f"[    1.000000] booted\n[  2.000000] {XID}\n",
     (2, "node17", None, Source.KMSG, 2.0)),
    ("/dev/kmsg", "dump", f"6,1,1000000,-;booted\n4,1234,5000000,-;{XID}\n", (2, "", None, Source.KMSG, 5.0)),
    ("journal short", "j.txt", f"Sep 01 12:00:00 n9 kernel: {XID}\n", (1, "n9", None, Source.KMSG, T)),
    ("journal short-iso", "j", f"2026-09-01T12:00:00+0000 n9 kernel: {XID}\n", (1, "n9", None, Source.KMSG, T)),
    ("journal precise", "j", f"Sep 01 12:00:00.500000 n9 kernel: {XID}\n", (1, "n9", None, Source.KMSG, T + 0.5)),
    ("journal monotonic", "j", f"[    5.000000] n9 kernel: {XID}\n", (1, "n9", None, Source.KMSG, 5.0)),
    ("rsyslog", "messages", f"Sep  1 12:00:00 n9 kernel: [  9.100000] {XID}\n", (1, "n9", None, Source.KMSG, T)),
    ("journal json", "j.json", "\n" + JOURNAL_RECORD + "\n", (2, "n9", None, Source.KMSG, T)),
    ("journal of a service", "j", f"Sep 01 12:00:00 n9 python[77]: {BOOM}\n", (1, "n9", None, Source.UNKNOWN, T)),
    ("journal of kubelet", "j", "Sep 01 12:00:00 n9 kubelet[7]: pod Evicted\n", (1, "n9", None, Source.K8S, T)),
    ("slurmctld", "slurmctld.log", "[2026-09-01T12:00:00.000] error: Evicted\n", (1, "", None, Source.K8S, T)),
    ("srun -l", "slurm-88.out", f" 0: rigstep 1\n 1: rigstep 1\n11: {BOOM}\n", (3, "", 11, Source.UNKNOWN, None)),
    ("slurm array", "slurm-88_5.out", f"{BOOM}\n", (1, "", None, Source.UNKNOWN, None)),
    ("torchrun console", "console.log", f"[default0]:x\n[default3]:{BOOM}\n", (2, "", 3, Source.UNKNOWN, None)),
    ("ranks of torch", "console.log", f"[rank0]: x\n[rank11]: {BOOM}\n", (2, "", 11, Source.UNKNOWN, None)),
    ("both", "console.log", f"[default3]:[rank11]: {BOOM}\n", (1, "", 11, Source.UNKNOWN, None)),
    ("phalanx console", "console.log", f"[0]: x\n[2]: {BOOM}\n", (2, "", 2, Source.UNKNOWN, None)),
    ("mpirun --tag-output", "out", f"[1,6]<stderr>:{BOOM}\n", (1, "", 6, Source.WORKER_STDERR, None)),
    ("kubectl logs --prefix", "k.log", f"[pod/llm-3/main] {BOOM}\n", (1, "llm-3", None, Source.UNKNOWN, None)),
    ("kubectl logs --timestamps", "k.log", f"[pod/llm-3/main] 2026-09-01T12:00:00.000000001Z [rank4]: {BOOM}\n",
     (1, "llm-3", 4, Source.UNKNOWN, T)),
    ("CRI", "0.log", f"2026-09-01T12:00:00.0Z stderr F {BOOM}\n", (1, "", 0, Source.WORKER_STDERR, T)),
    ("docker json", "c-json.log", json.dumps({"log": BOOM + "\n", "stream": "stderr", "time": "2026-09-01T12:00:00Z"}),
     (1, "", None, Source.WORKER_STDERR, T)),
    ("events, table", "e.txt", "LAST SEEN   TYPE      REASON    OBJECT     MESSAGE\n5m  Warning  Evicted  pod/x  low\n",
     (2, "", None, Source.K8S, None)),
    ("events, json", "e.json", json.dumps(EVENT, indent=1), (5, "n9", None, Source.K8S, T)),
    ("events, yaml", "e.yaml", EVENT_YAML, (3, "n9", None, Source.K8S, T)),
    ("describe", "d.txt", "Name:   llm-3\nNamespace: x\nContainers:\nStatus: Failed\nReason: Evicted\n",
     (5, "", None, Source.K8S, None)),
    ("nvidia-smi -q", "q.txt", "\n====NVSMI LOG====\n\nGPU 00000000:1B:00.0\n  Remapped Rows\n    Pending : Yes\n",
     (6, "", None, Source.NVML, None)),
    ("nvidia-smi columns", "q.csv", "index, remapped_rows.pending\n3, Yes\n", (2, "", None, Source.NVML, None)),
    ("error.json", "attempt_0/3/error.json", json.dumps(ERROR_FILE), (1, "", 3, Source.WORKER_STDERR, T)),
    ("old error.json", "rank_3/error.json", json.dumps({"message": BOOM}), (1, "", 3, Source.WORKER_STDERR, None)),
    ("python log", "rank_3.log", f"2026-09-01 12:00:00,000 - ERROR - {BOOM}\n", (1, "", 3, Source.UNKNOWN, T)),
    ("glog", "rank_3.log", f"E0901 12:00:00.000000  7 x.cc:1] {BOOM}\n", (1, "", 3, Source.UNKNOWN, T)),
    ("NCCL prefix", "rank_3.log", f"n9:77:88 [3] NCCL WARN {BOOM}\n", (1, "n9", 3, Source.UNKNOWN, None)),
    ("progress bar", "rank_3.err", f"x\n 10%|#\r 20%|##\r{BOOM}\n", (2, "", 3, Source.WORKER_STDERR, None)),
    ("no line end", "rank_3.err", BOOM, (1, "", 3, Source.WORKER_STDERR, None)),
    ("job.%N.%t", "job.node01.3", BOOM, (1, "node01", 3, Source.UNKNOWN, None)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "expected"), [case[1:] for case in KINDS], ids=[case[0] for case in KINDS])
def test_a_kind(
    tmp_path: Path, name: str, text: str, expected: tuple[int, str, int | None, Source, float | None]
) -> None:
    write(tmp_path / "in" / name, text)
    found, _ = rig_findings(tmp_path, tmp_path / "in")
    [only] = [each for each in found if each.kind != "rig_step"]
    at_s = only.at_s if only.at_s is None else pytest.approx(only.at_s)
    assert (only.number, only.node, only.rank, only.source, at_s) == expected


def test_nvidia_smi_names_the_gpu_of_a_value(tmp_path: Path) -> None:
    text = "====NVSMI LOG====\nGPU 00000000:1B:00.0\n    Remapped Rows\n        Pending : Yes\n"
    [found], _ = rig_findings(tmp_path, write(tmp_path / "q.txt", text))
    assert found.device == "00000000:1B:00.0"


def test_a_log_dir_of_torchrun_with_all_its_ranks(tmp_path: Path) -> None:
    for rank in range(4):
        write(tmp_path / f"logs/none_x1/attempt_0/{rank}/stdout.log", f"rigstep {rank}\n")
    write(tmp_path / "logs/none_x1/attempt_0/2/stderr.log", BOOM)
    found, notes = rig_findings(tmp_path, tmp_path / "logs")
    assert [(each.rank, each.source) for each in found if each.kind == "rig_boom"] == [(2, Source.WORKER_STDERR)]
    assert {each.rank for each in found} == {0, 1, 2, 3}
    assert not notes.odd


def test_local_ranks_of_several_launches_are_no_global_ranks(tmp_path: Path) -> None:
    for launch in ("run_a", "run_b"):
        write(tmp_path / f"logs/{launch}/attempt_0/0/stderr.log", f"{BOOM} {launch}\n")
    found, notes = rig_findings(tmp_path, tmp_path / "logs")
    assert [(each.node, each.rank) for each in found] == [("run_a", None), ("run_b", None)]
    assert notes.odd[Oddity.LOCAL_RANKS] == 2


def test_a_line_with_both_ranks_tells_the_others(tmp_path: Path) -> None:
    for node, first in (("n1", 0), ("n2", 8)):
        write(tmp_path / f"logs/{node}.log", f"[default1]:[rank{first + 1}]: {BOOM} a\n[default5]:{BOOM} b\n")
    found, _ = rig_findings(tmp_path, tmp_path / "logs")
    assert {(each.node, each.rank) for each in found} == {("n1", 1), ("n1", 5), ("n2", 9), ("n2", 13)}


def test_the_closing_report_of_torchrun_tells_whose_lines_they_are(tmp_path: Path) -> None:
    report = (
        f"Failures:\n[0]:\n  time      : 2026-09-01_12:00:00\n  host      : n17\n  rank      : 11 (local_rank: 3)\n"
        f"  exitcode  : 1 (pid: 7)\n  traceback : Traceback\n    {BOOM}\n------------\n{BOOM} elsewhere\n"
    )
    found, _ = rig_findings(tmp_path, write(tmp_path / "console.log", report))
    assert [(each.number, each.node, each.rank) for each in found] == [(8, "n17", 11), (10, "", None)]


def test_the_copies_in_an_evidence_folder_of_phalanx_are_left_out(tmp_path: Path) -> None:
    attempt = tmp_path / "logs/job/attempt_1"
    write(attempt / "0/stderr.log", BOOM)
    write(attempt / "evidence_1/rank_0_stderr.log", BOOM)
    found, notes = rig_findings(tmp_path, tmp_path / "logs")
    assert len(found) == 1
    assert notes.skipped == {Skip.COPY: 1}


def packed_tar(mode: str) -> Callable[[bytes], bytes]:
    def pack(data: bytes) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
            info = tarfile.TarInfo("logs/rank_7.err")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        return out.getvalue()

    return pack


def packed_zip(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logs/rank_7.err", data)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("rank_7.err.gz", gzip.compress),
        ("rank_7.err.bz2", bz2.compress),
        ("rank_7.err.xz", lzma.compress),
        ("logs.tar", packed_tar("w")),
        ("logs.tgz", packed_tar("w:gz")),
        ("logs.tar.xz", packed_tar("w:xz")),
        ("logs.zip", packed_zip),
        ("zip-in.tar", lambda data: packed_tar("w")(packed_zip(data))),
    ],
)
def test_an_archive(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    (tmp_path / name).write_bytes(pack(f"x\n{BOOM}\n".encode()))
    [found], _ = rig_findings(tmp_path, tmp_path / name)
    assert (found.rank, found.source, found.number) == (7, Source.WORKER_STDERR, 2)
    assert {path.name for path in tmp_path.iterdir()} == {name, "rig-rules"}


def test_what_a_person_says_beats_content_and_name(tmp_path: Path) -> None:
    path = write(tmp_path / "rank_3.log", f"[rank5]: {BOOM}\n")
    choice = Choice(year=2026, source=Source.EXIT, node="mine", rank=1)
    [found], _ = rig_findings(tmp_path, path, choice=choice)
    assert (found.source, found.node, found.rank) == (Source.EXIT, "mine", 1)


def test_times_since_boot_and_times_of_day_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path / "in/dmesg.txt", f"[    1.000000] booted\n[  2.000000] {XID}\n")
    write(tmp_path / "in/rank_0.err", f"2026-09-01 12:00:00,000 {BOOM}\n")
    found, notes = rig_findings(tmp_path, tmp_path / "in")
    assert {each.kind: each.at_s for each in found} == {"rig_xid_79": None, "rig_boom": T}
    assert notes.odd[Oddity.TWO_SCALES] == 1


def test_a_clock_that_was_set_back_tells_no_times(tmp_path: Path) -> None:
    path = write(tmp_path / "rank_0.err", f"2026-09-01 12:00:00 {BOOM} a\n2026-09-01 09:00:00 {XID}\n")
    found, notes = rig_findings(tmp_path, path)
    assert [each.at_s for each in found] == [None, None]
    assert notes.odd[Oddity.CLOCK_BACK] == 1
