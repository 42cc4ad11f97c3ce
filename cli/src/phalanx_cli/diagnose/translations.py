"""Formats whose lines must be rewritten before they say anything: JSON records, and nvidia-smi's reports.

Each record becomes one line as the same program's plain output has it, so that prefixes and signatures are the same.
Streams are rewritten as they pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

RECORD_BYTES_MAX = 256 * 1024
"""Of a JSON record; a longer line is passed on as it is."""
_INDENT = re.compile(r"^(?P<indent> *)(?P<name>[^:]+?) *(?:: (?P<value>.*))?$")
_GPU = re.compile(r"^GPU (?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9])")
QUERY_NAMES = {
    ("Remapped Rows", "Correctable Error"): "remapped_rows.correctable",
    ("Remapped Rows", "Uncorrectable Error"): "remapped_rows.uncorrectable",
    ("Remapped Rows", "Pending"): "remapped_rows.pending",
    ("Remapped Rows", "Remapping Failure Occurred"): "remapped_rows.failure",
    ("Volatile", "DRAM Uncorrectable"): "ecc.errors.uncorrected.volatile.dram",
    ("Volatile", "DRAM Correctable"): "ecc.errors.corrected.volatile.dram",
    ("Volatile", "SRAM Uncorrectable"): "ecc.errors.uncorrected.volatile.sram",
    ("Volatile", "SRAM Uncorrectable Parity"): "ecc.errors.uncorrected.volatile.sram_parity",
    ("Volatile", "SRAM Uncorrectable SEC-DED"): "ecc.errors.uncorrected.volatile.sram_secded",
    ("Volatile", "SRAM Correctable"): "ecc.errors.corrected.volatile.sram",
    ("Aggregate", "DRAM Uncorrectable"): "ecc.errors.uncorrected.aggregate.dram",
    ("Aggregate", "DRAM Correctable"): "ecc.errors.corrected.aggregate.dram",
    ("Aggregate", "SRAM Uncorrectable"): "ecc.errors.uncorrected.aggregate.sram",
    ("Aggregate", "SRAM Threshold Exceeded"): "ecc.errors.sram_threshold_exceeded",
    ("Retired Pages", "Pending Page Blacklist"): "retired_pages.pending",
    ("Fabric", "State"): "fabric.state",
    ("Fabric", "Status"): "fabric.status",
    ("PCIe Generation", "Current"): "pcie.link.gen.current",
    ("PCIe Generation", "Max"): "pcie.link.gen.max",
    ("Link Width", "Current"): "pcie.link.width.current",
    ("Link Width", "Max"): "pcie.link.width.max",
    ("Temperature", "GPU Current Temp"): "temperature.gpu",
    ("Temperature", "Memory Current Temp"): "temperature.memory",
    ("GPU Power Readings", "Current Power Draw"): "power.draw",
    ("GPU Power Readings", "Current Power Limit"): "enforced.power.limit",
    ("Utilization", "GPU"): "utilization.gpu",
    ("Utilization", "Gpu"): "utilization.gpu",
    ("FB Memory Usage", "Used"): "memory.used",
    ("FB Memory Usage", "Total"): "memory.total",
}
"""Section and name of `nvidia-smi -q` to the name of `nvidia-smi --query-gpu` (`nvidia-smi --help-query-gpu`)."""
REASON_SECTIONS = ("Clocks Event Reasons", "Clocks Throttle Reasons")
TOP_NAMES = {
    "Performance State": "pstate",
    "Compute Mode": "compute_mode",
    "Persistence Mode": "persistence_mode",
    "GPU Reset Status": "gpu_reset_status",
    "GPU Recovery Action": "gpu_recovery_action",
    "Driver Version": "driver_version",
}


def lines_of(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines of chunks; one longer than a record may be is given in pieces."""
    rest = b""
    for part in parts:
        lines = (rest + part).split(b"\n")
        rest = lines.pop()
        yield from lines
        if len(rest) > RECORD_BYTES_MAX:
            yield rest
            rest = b""
    if rest:
        yield rest


def journal_line(line: bytes) -> bytes:
    """A record of `journalctl -o json` as `-o short-iso` shows it."""
    record = _record(line)
    message = _journal_text(record.get("MESSAGE")) if record else ""
    if not record or not message:
        return line
    program = "kernel" if record.get("_TRANSPORT") == "kernel" else str(record.get("SYSLOG_IDENTIFIER") or "-")
    micros = str(record.get("__REALTIME_TIMESTAMP") or "")
    when = "1970-01-01T00:00:00+0000"
    if micros.isdecimal() and len(micros) < 18:
        when = datetime.fromtimestamp(int(micros) / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%S+0000")
    return _one_line(f"{when} {record.get('_HOSTNAME') or '-'} {program}: {message}")


def container_line(line: bytes) -> bytes:
    """A record of Docker's json-file driver as the CRI writes it."""
    record = _record(line)
    if not record or not isinstance(record.get("log"), str):
        return line
    return _one_line(f"{record.get('time', '')} {record.get('stream', 'stdout')} F {record['log']}")


def nvsmi_table(lines: Iterable[bytes]) -> Iterator[bytes]:
    """`nvidia-smi --query-gpu=... --format=csv`: each row as `GPU 3: name=value, name=value`."""
    names: list[str] = []
    for line in lines:
        cells = [cell.strip() for cell in line.decode(errors="replace").split(",")]
        if not names or cells[0].split(" [")[0] == names[0]:
            names = [cell.split(" [")[0] for cell in cells]
            yield b""
            continue
        pairs = dict(zip(names, cells, strict=False))
        which = pairs.get("index") or pairs.get("pci.bus_id") or pairs.get("uuid") or pairs.get("gpu_uuid") or ""
        told = ", ".join(f"{name}={value}" for name, value in pairs.items())
        yield _one_line(f"GPU {which}: {told}" if which else told)


def nvsmi_query(lines: Iterable[bytes]) -> Iterator[bytes]:
    """`nvidia-smi -q`: each value with its GPU, under the name that --query-gpu gives it, or with its section."""
    gpu = ""
    sections: list[tuple[int, str]] = []
    for line in lines:
        text = line.decode(errors="replace").rstrip()
        if found := _GPU.match(text):
            gpu, sections = f"GPU {found['address']}: ", []
            yield _one_line(text)
            continue
        field = _INDENT.match(text)
        if field is None:
            yield _one_line(text)
            continue
        indent = len(field["indent"])
        sections = [each for each in sections if each[0] < indent]
        if field["value"] is None:
            sections.append((indent, field["name"].strip()))
            yield b""
            continue
        path = [name for _, name in sections]
        yield _one_line(f"{gpu}{_query_name(path, field['name'].strip())}={field['value'].strip()}")


def _query_name(path: list[str], name: str) -> str:
    if path and (path[-1], name) in QUERY_NAMES:
        return QUERY_NAMES[path[-1], name]
    if any(section in REASON_SECTIONS for section in path):
        return f"clocks_event_reasons.{name.lower().replace(' ', '_')}"
    if not path and name in TOP_NAMES:
        return TOP_NAMES[name]
    return "/".join([*path, name])


def _record(line: bytes) -> dict[str, object]:
    if not line.startswith(b"{") or len(line) > RECORD_BYTES_MAX:
        return {}
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):  # passed on as text
        return {}
    return record if isinstance(record, dict) else {}


def _journal_text(message: object) -> str:
    """A message that is not UTF-8 is written as a list of bytes."""
    if isinstance(message, list):
        return bytes(each & 0xFF for each in message if isinstance(each, int)).decode(errors="replace")
    return message if isinstance(message, str) else ""


def _one_line(text: str) -> bytes:
    return " ".join(text.rstrip("\n").splitlines() or [""]).encode(errors="replace")
