"""One record of /dev/kmsg: `priority,sequence,microseconds,flags[,...];text` (Documentation/ABI/testing/dev-kmsg).

The priority is facility * 8 + level. The kernel forces whatever user space writes there to a facility other than 0, so
facility 0 proves that the kernel said it.
"""

from __future__ import annotations

from dataclasses import dataclass

from node_agent.domain.kernel_finding import LINE_CHARS_MAX

KERNEL_FACILITY = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsgRecord:
    """`age` of a record is its microseconds against those since boot now."""

    facility: int
    sequence: int
    since_boot_us: int
    text: str


def sequence_of(record: bytes) -> int | None:
    """Number of a record; None for what is none (a continuation ` KEY=value`, a line of another format)."""
    fields = record[:64].split(b",", 2)
    return int(fields[1]) if len(fields) == 3 and fields[0].isdigit() and fields[1].isdigit() else None


def parse_record(record: bytes) -> KmsgRecord | None:
    """The record, its text cut to the longest that is looked at; None for what is none."""
    head, mark, text = record.partition(b";")
    fields = head.split(b",", 3)
    if not mark or len(fields) < 4 or len(head) > 128:
        return None
    priority, sequence, since_boot_us, _ = fields
    if not (priority.isdigit() and sequence.isdigit() and since_boot_us.isdigit()):
        return None
    return KmsgRecord(
        facility=int(priority) >> 3,
        sequence=int(sequence),
        since_boot_us=int(since_boot_us),
        # The kernel writes what is not printable as \xNN, so this is ASCII; a file may hold anything.
        text=text[:LINE_CHARS_MAX].decode("utf-8", errors="replace"),
    )
