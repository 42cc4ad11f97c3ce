"""The kernel's out-of-memory killer: one kill is told by two lines, `oom-kill:` with the cgroups and `Killed process`.

Shapes: mm/oom_kill.c (dump_oom_summary, __oom_kill_process), Linux 5.4 to 6.x. The kill is the signal; what the line
before it said of the same process is added to it.
"""

from __future__ import annotations

import re

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.kernel_finding import KernelFinding

CHECK = "oom_kill"
_SUMMARY = re.compile(
    r"oom-kill:constraint=(?P<constraint>[A-Z_]{1,40}),.*?(?:,oom_memcg=(?P<oom_memcg>[^,]{1,400}))?"
    r"(?:,global_oom)?,task_memcg=(?P<task_memcg>[^,]{1,400}),task=.{1,40},pid=(?P<pid>\d{1,10}),uid=\d+\s*"
)
_KILLED = re.compile(
    r"(?P<what>Memory cgroup out of memory|Out of memory(?: \(oom_kill_allocating_task\))?): "
    r"Killed process (?P<pid>\d{1,10})(?:, UID \d+,)? \((?P<process>.{0,60})\)"
    r",? total-vm:\d+kB(?:, anon-rss:(?P<anon_rss_kb>\d{1,15})kB)?"
)


class OomLines:
    """Reads the lines in their order."""

    def __init__(self) -> None:
        self._summary: dict[str, str] = {}

    def read(self, line: str) -> KernelFinding | None:
        """The kill, once both lines are there; the second alone is enough."""
        if found := _SUMMARY.fullmatch(line):
            self._summary = {name: value for name, value in found.groupdict().items() if value is not None}
            return None
        found = _KILLED.match(line)
        if found is None:
            return None
        summary, self._summary = self._summary, {}
        attributes = {"pid": found["pid"], "process": found["process"]}
        if found["anon_rss_kb"]:
            attributes["anon_rss_kb"] = found["anon_rss_kb"]
        if summary.get("pid") == found["pid"]:
            attributes |= {name: value for name, value in summary.items() if name != "pid"}
        in_cgroup = found["what"].startswith("Memory cgroup")
        attributes["scope"] = "cgroup" if in_cgroup else "machine"
        limit = f"its cgroup {attributes.get('oom_memcg', '')}".rstrip() if in_cgroup else "the machine"
        return KernelFinding(
            component=Component.HOST,
            check=CHECK,
            health=Health.BAD,
            sentence=f"{limit} ran out of memory: the kernel killed process {found['pid']} ({found['process']})",
            attributes=attributes,
            pid=int(found["pid"]),
            location=attributes.get("task_memcg", ""),
        )
