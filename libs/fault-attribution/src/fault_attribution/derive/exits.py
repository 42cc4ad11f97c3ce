"""How processes ended, in one vocabulary, whatever wrote it down.

Signatures find `exit_status` with `code` or `signal` (a number or a name), `exit_zero`, `exit_reason`. Derived here:

    exit_failed   somebody ended with a code other than 0 or by a signal; captures code, signal
    exit_clean    somebody ended with 0
    job_failed    anybody failed (one finding)
    ended_well    somebody ended with 0 and nobody failed (one finding)
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence

from fault_attribution.derive.following import following
from fault_attribution.finding import Finding, Role

_NAMES = {each.name: each.value for each in signal.Signals}
READS = frozenset({"exit_status"})
SHELL_SIGNAL_BASE = 128
"""A shell, a container runtime and Kubernetes report death by signal N as 128 + N (POSIX.1-2017, sh, 2.8.2)."""


def exits(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Derive exit_failed, exit_clean, job_failed and ended_well."""
    failed: list[Finding] = []
    clean: list[Finding] = []
    for each in findings:
        if each.kind != "exit_status":
            continue
        code, number = read_exit(each)
        if code == 0 and number is None:
            clean.append(_told(each, "exit_clean", {"code": "0"}))
        elif code is not None or number is not None:
            captures = {"code": "" if code is None else str(code), "signal": "" if number is None else str(number)}
            failed.append(_told(each, "exit_failed", captures))
    yield from failed
    yield from clean
    if failed:
        yield _whole("job_failed", failed, f"{len(failed)} processes failed")
    elif clean:
        yield _whole("ended_well", clean, f"{len(clean)} processes ended with 0 and none failed")


def read_exit(finding: Finding) -> tuple[int | None, int | None]:
    """Exit code and signal number of an exit_status; a negative or shell-style code is a signal."""
    number = _signal_number(finding.captures.get("signal", ""))
    code = finding.number_of("code")
    if number is not None:
        return None, number
    if code is None:
        return None, None
    if code < 0:
        return None, int(-code)
    if SHELL_SIGNAL_BASE < code <= SHELL_SIGNAL_BASE + 64:
        return int(code), int(code) - SHELL_SIGNAL_BASE
    return int(code), None


def _signal_number(text: str) -> int | None:
    text = text.strip().upper()
    if text.isdigit():
        return int(text)
    return _NAMES.get(text) or _NAMES.get(f"SIG{text}")


def _told(base: Finding, kind: str, captures: dict[str, str]) -> Finding:
    return following(base, kind, base.text, rule_id="derive.exits", captures={**base.captures, **captures})


def _whole(kind: str, rests_on: Sequence[Finding], text: str) -> Finding:
    return Finding(
        finding_id=kind,
        kind=kind,
        role=Role.CONTEXT,
        text=text,
        rule_id="derive.exits",
        because=tuple(each.finding_id for each in rests_on)[:64],
    )
