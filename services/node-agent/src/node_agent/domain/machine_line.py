"""Lines of the kernel about the machine itself: tasks that hang, lockups, broken memory, a kernel that fails.

Each shape names the kernel source that prints it. A program cannot forge them: its records are not of facility 0.
"""

from __future__ import annotations

import re

from node_agent.domain.kernel_finding import KernelFinding
from node_agent.domain.line_shape import LineShape, host_finding


def _hung_task(found: re.Match[str]) -> KernelFinding:
    where = "in I/O wait " if found["io"] else ""
    sentence = f"process {found['pid']} ({found['process']}) is blocked {where}for more than {found['s']} s"
    return host_finding(
        "hung_task", sentence, pid=found["pid"], process=found["process"], blocked_s=found["s"], location=found["pid"]
    )


def _soft_lockup(found: re.Match[str]) -> KernelFinding:
    sentence = f"CPU {found['cpu']} is stuck for {found['s']} s in process {found['pid']} ({found['process']})"
    return host_finding(
        "soft_lockup", sentence, pid=found["pid"], process=found["process"], cpu=found["cpu"], location=found["cpu"]
    )


def _hard_lockup(found: re.Match[str]) -> KernelFinding:
    return host_finding("hard_lockup", f"CPU {found['cpu']} is locked up", cpu=found["cpu"], location=found["cpu"])


def _rcu_stall(found: re.Match[str]) -> KernelFinding:
    return host_finding("rcu_stall", f"a CPU stalls the kernel's read-copy-update: {found.string}")


def _nmi(found: re.Match[str]) -> KernelFinding:
    sentence = f"the hardware raised an interrupt that nobody explains (reason {found['reason']}, CPU {found['cpu']})"
    return host_finding("nmi_unknown", sentence, cpu=found["cpu"], reason=found["reason"], location=found["reason"])


def _kernel_bug(found: re.Match[str]) -> KernelFinding:
    return host_finding("kernel_bug", f"the kernel itself failed: {found.string}")


def _machine_check(found: re.Match[str]) -> KernelFinding:
    sentence = f"CPU {found['cpu']} raised a machine check exception in bank {found['bank']}"
    attributes = {"cpu": found["cpu"], "bank": found["bank"], "status": found["status"]}
    return host_finding(
        "mce", sentence, location=f"cpu{found['cpu']}/bank{found['bank']}", severity="uncorrected", **attributes
    )


def _machine_check_logged(_found: re.Match[str]) -> KernelFinding:
    # The line says that something was logged, not what: corrected errors come this way, and so may others.
    return host_finding("mce_logged", "the CPU logged machine check events (rasdaemon or mcelog have them)")


def _edac(found: re.Match[str]) -> KernelFinding:
    corrected = found["kind"] == "CE"
    where = found["label"].strip()
    word = "corrected" if corrected else "could not correct"
    sentence = f"memory controller {found['mc']} {word} {found['count']} errors at {where or 'an unnamed place'}"
    return host_finding(
        "memory_ecc_corrected" if corrected else "memory_ecc_uncorrected", sentence, location=where,
        severity="corrected" if corrected else "uncorrected", dimm=where[:200], controller=found["mc"],
        errors=found["count"],
    )  # fmt: skip


def _apei(found: re.Match[str]) -> KernelFinding | None:
    severity = found["severity"]
    if severity in ("info", "informational"):
        return None
    check = "mce_corrected" if severity == "corrected" else "mce"
    return host_finding(check, f"the firmware reports a hardware error, severity {severity}", severity=severity)


def _memory_failure(found: re.Match[str]) -> KernelFinding:
    sentence = f"the kernel took a page of broken memory out of use ({found['address']})"
    return host_finding("memory_ecc_uncorrected", sentence, location=found["address"], severity="uncorrected")


MACHINE_SHAPES: tuple[LineShape, ...] = (
    # kernel/hung_task.c
    LineShape(
        "blocked ",
        re.compile(
            r"INFO: task (?P<process>.{1,40}):(?P<pid>\d{1,10}) blocked (?P<io>in I/O wait )?"
            r"for more than (?P<s>\d{1,7}) seconds"
        ),
        _hung_task,
    ),
    # kernel/watchdog.c
    LineShape(
        "soft lockup",
        re.compile(
            r"(?:watchdog: )?BUG: soft lockup - CPU#(?P<cpu>\d{1,5}) stuck for (?P<s>\d{1,7})s! "
            r"\[(?P<process>.{1,40}):(?P<pid>\d{1,10})\]"
        ),
        _soft_lockup,
    ),
    LineShape(
        "hard LOCKUP",
        re.compile(r"(?:NMI )?(?:watchdog: )?Watchdog detected hard LOCKUP on cpu (?P<cpu>\d{1,5})"),
        _hard_lockup,
    ),
    # kernel/rcu/tree_stall.h
    LineShape(
        "rcu: INFO", re.compile(r"rcu: INFO: rcu_\w{1,20} (?:self-)?detected (?:expedited )?stalls?"), _rcu_stall
    ),
    # arch/x86/kernel/nmi.c
    LineShape(
        "NMI received",
        re.compile(
            r"(?:Uhhuh\. )?NMI(?:: | )received for unknown reason (?P<reason>[0-9a-f]{1,4}) on CPU (?P<cpu>\d{1,5})"
        ),
        _nmi,
    ),
    # kernel/panic.c, arch/x86/mm/fault.c, lib/bug.c
    LineShape("BUG: ", re.compile(r"BUG: (?:unable to handle (?:page fault|kernel)|kernel NULL pointer)"), _kernel_bug),
    LineShape("ernel", re.compile(r"kernel BUG at |Kernel panic - not syncing"), _kernel_bug),
    # arch/x86/kernel/cpu/mce/core.c
    LineShape(
        "Machine Check Exception",
        re.compile(
            r"mce: \[Hardware Error\]: CPU (?P<cpu>\d{1,5}): Machine Check(?: Exception)?: \w{1,4} "
            r"Bank (?P<bank>\d{1,3}): (?P<status>[0-9a-f]{8,16})"
        ),
        _machine_check,
    ),
    LineShape(
        "Machine check events",
        re.compile(r"mce: \[Hardware Error\]: Machine check events logged"),
        _machine_check_logged,
    ),
    # drivers/edac/edac_mc.c
    LineShape(
        "EDAC MC",
        re.compile(r"EDAC MC(?P<mc>\d{1,3}): (?P<count>\d{1,10}) (?P<kind>CE|UE) .{0,120}?on (?P<label>[^()]{0,160})"),
        _edac,
    ),
    # drivers/acpi/apei/ghes.c, drivers/firmware/efi/cper.c
    LineShape(
        "event severity", re.compile(r"\{\d+\}\[Hardware Error\]: event severity: (?P<severity>[a-z-]{1,20})"), _apei
    ),
    # mm/memory-failure.c
    LineShape(
        "Memory failure",
        re.compile(r"Memory failure: (?P<address>0x[0-9a-f]{1,16}): recovery action for .{1,60}: \w+"),
        _memory_failure,
    ),
)
