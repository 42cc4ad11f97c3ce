"""What came again on the same device, and what does not belong to now: repetition tells hardware from programs.

One error proves little: any program can trap. The same place of the same GPU under different processes, or after a
reboot, is the GPU; other places and other GPUs under the same program are the program. Derived:

    gpu_evidence       a device's own word that it failed; captures of
    fault_again        the same fault of the same device under another process, or minutes apart; captures of
    same_sm_again      Xid 13 on the same SM of one GPU under another process, or minutes apart
    sm_varies          Xid 13 on different SMs or GPUs
    same_link_again    an NVLink that told of errors before
    same_address_again Xid 31 at the same address of one GPU under different processes
    nvlink_ignorable nvlink_peer_end nvlink_hard   what the registers of an Xid 74 mean
    stale_fault        a fault that is dated before the machine, driver or fabric manager was last started
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import datetime, timedelta

from fault_attribution.derive.gpu_readings import told
from fault_attribution.finding import Finding, Role

EVIDENCE = frozenset(
    {
        "xid_46", "xid_48", "xid_62", "xid_64", "xid_79", "xid_94", "xid_95", "xid_110", "xid_136", "xid_140",
        "xid_143", "xid_156", "xid_157", "xid_158", "xid_167", "xid_169",
        "gpu_ecc_uncorrected", "gpu_ecc_counted", "gpu_ecc_contained", "gpu_ecc_storm", "gpu_row_remap_failure",
        "gpu_sram_threshold", "gpu_lost", "gpu_count", "gpu_diag_failed", "gpu_reset_required",
        "nvlink_uncorrectable", "cuda_device_lost",
        "nvlink_hard", "nvlink_down", "nvswitch_fatal", "pcie_aer", "pcie_link_down", "gpu_overheat",
    }
)  # fmt: skip
"""Kinds by which a device, or the driver about it, says that it failed."""
NVLINK5 = frozenset(f"xid_{code}" for code in range(144, 151))
AGAIN_S = 120.0
"""Times that are nearer may be one event; offsets of an incident are good to about half a minute."""
STALE_MIN = timedelta(hours=1)
"""Clocks of one machine's logs differ by less; a restart within the hour may be what the fault led to."""
REPEATS_MAX = 256
"""Faults of one device that are compared."""
_IGNORED_BITS = frozenset({0, 23, 30})
_PEER_BITS = {1: frozenset({1, 20}), 4: frozenset({16, 17, 18})}
"""NVIDIA's Xid catalog, workflow of Xid 74: bits of register 1 to ignore, and bits that the other end causes."""
_REPEATABLE = ("xid_", "sxid_")
_REPEATABLE_KINDS = frozenset(
    {
        "gpu_ecc_uncorrected", "gpu_lost", "gpu_init_failed", "gpu_reset_required", "gpu_busy_or_unavailable",
        "nvlink_uncorrectable", "nvlink_down", "pcie_aer", "gpu_diag_failed", "wrong_results", "cuda_device_lost",
    }
)  # fmt: skip
READS = EVIDENCE | _REPEATABLE_KINDS
READS_PREFIXES = _REPEATABLE
_STARTS = frozenset({"kernel_started", "driver_loaded", "fabric_manager_started"})
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)")


def gpu_history(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Derive the kinds above."""
    bits = [found for each in findings if each.kind == "xid_74" and (found := _registers(each)) is not None]
    yield from bits
    known = [*findings, *bits]
    yield from _evidence(known)
    yield from _again(known)
    yield from _same_sm(findings)
    yield from _grouped_again(
        [each for each in findings if each.kind in NVLINK5 or each.kind == "xid_74"],
        lambda one: (one.node, one.device, (one.captures.get("link") or "?").lstrip("0")),
        "same_link_again",
        "the same NVLink told of errors before",
        differ=lambda one: one.kind,
    )
    yield from _grouped_again(
        [each for each in findings if each.kind == "xid_31" and each.captures.get("address")],
        lambda one: (one.node, one.device, one.captures["address"]),
        "same_address_again",
        "different processes of one GPU faulted at the same address",
    )
    yield from _stale(known)


def _evidence(findings: Sequence[Finding]) -> Iterator[Finding]:
    seen: set[tuple[str, str, str]] = set()
    for each in findings:
        fatal = each.captures.get("severity") == "Fatal" and (each.kind in NVLINK5 or each.kind.startswith("sxid_"))
        place = (each.kind, each.node, each.device)
        if (fatal or each.kind in EVIDENCE) and place not in seen:
            seen.add(place)
            yield told(each, "gpu_evidence", Role.CONTEXT, "the device's own word", of=each.kind)


def _again(findings: Sequence[Finding]) -> Iterator[Finding]:
    members = [each for each in findings if each.kind in _REPEATABLE_KINDS or each.kind.startswith(_REPEATABLE)]

    def place(one: Finding) -> Hashable:
        return (one.kind, one.node, one.device or (-1 if one.rank is None else one.rank))

    yield from _grouped_again(members, place, "fault_again", "not the first time on this device")


def _same_sm(findings: Sequence[Finding]) -> Iterator[Finding]:
    located = [each for each in findings if each.kind == "xid_13" and each.captures.get("sm") is not None]
    yield from _grouped_again(located, _sm, "same_sm_again", "the same SM of the same GPU once more")
    if len({_sm(each) for each in located}) > 1:
        yield told(located[0], "sm_varies", Role.CONTEXT, "different SMs or GPUs trap")


def _sm(one: Finding) -> tuple[str, ...]:
    return (one.node, one.device, *(one.captures.get(name, "") for name in ("gpc", "tpc", "sm")))


def _grouped_again(
    members: Sequence[Finding],
    place: Callable[[Finding], Hashable],
    kind: str,
    text: str,
    *,
    differ: Callable[[Finding], str] = lambda one: one.process,
) -> Iterator[Finding]:
    """One finding for each place where members differ in what must be different, or lie minutes apart."""
    groups: dict[Hashable, list[Finding]] = {}
    for each in members:
        group = groups.setdefault(place(each), [])
        if len(group) < REPEATS_MAX:
            group.append(each)
    for group in groups.values():
        times = [each.at_s for each in group if each.at_s is not None]
        apart = bool(times) and max(times) - min(times) >= AGAIN_S
        if apart or len({differ(each) for each in group} - {""}) > 1:
            first = min(group, key=lambda one: one.finding_id)
            yield told(first, kind, Role.CONTEXT, text, of=first.kind, times=str(sum(each.count for each in group)))


def _registers(line: Finding) -> Finding | None:
    """What the registers of an Xid 74 mean; None without registers."""
    words: list[int] = []
    for name in ("r1", "r2", "r3", "r4", "r5"):
        try:
            words.append(int(line.captures.get(name, ""), 16))
        except ValueError:
            return None
    bits = {(number, bit) for number, word in enumerate(words, start=1) for bit in range(32) if word >> bit & 1}
    left = {pair for pair in bits if not (pair[0] == 1 and pair[1] in _IGNORED_BITS)}
    if bits and not left:
        return told(line, "nvlink_ignorable", Role.BENIGN, "only bits that NVIDIA says to ignore")
    if left and all(bit in _PEER_BITS.get(number, frozenset()) for number, bit in left):
        return told(line, "nvlink_peer_end", Role.VICTIM, "the other end of the link failed")
    return told(line, "nvlink_hard", Role.CAUSE, "an error of the link itself")


def _stale(findings: Sequence[Finding]) -> Iterator[Finding]:
    started: dict[str, datetime] = {}
    for each in findings:
        date = _date_of(each) if each.kind in _STARTS else None
        if date is not None:
            started[each.node] = max(date, started.get(each.node, date))
    for each in findings:
        own_word = each.kind in EVIDENCE or each.kind.startswith(_REPEATABLE)
        date = _date_of(each) if own_word and each.node in started else None
        if date is not None and started[each.node] - date >= STALE_MIN:
            text = f"dated before the start of {started[each.node]}"
            yield told(each, "stale_fault", Role.BENIGN, text, of=each.kind)


def _date_of(one: Finding) -> datetime | None:
    found = _DATE.search(one.text)
    if found is None:
        return None
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[2]}")
    except ValueError:
        return None
