"""Machines on one machine: network namespaces on a bridge, which can be cut off, slowed down and killed one by one.

Needs root with CAP_NET_ADMIN and CAP_SYS_ADMIN, and `ip`, `tc`, `nsenter`, `iptables`.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from types import TracebackType
from typing import Self

NEEDED = ("ip", "tc", "nsenter", "iptables")
NETWORK = "10.203.{net}"
"""Private (RFC 1918). `net` is taken from the pid, so that two runs on one machine rarely meet; when they do, the
second says that the bridge is there."""


def why_not() -> str:
    """Why machines cannot be made here; empty: they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (Debian: apt-get install iproute2 iptables util-linux)"
    probe = f"phxprobe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"no network namespace can be made: {made.stderr.strip()}"
    _run("ip", "netns", "del", probe)
    return ""


class Net:
    """A switch and the machines on it. This process is on it, too. Leaving it removes all of it."""

    def __init__(self) -> None:
        self._net = NETWORK.format(net=os.getpid() % 250 + 1)
        self._bridge = f"phxb{os.getpid()}"
        self._machines: dict[str, int] = {}

    def __enter__(self) -> Self:
        try:
            _run("ip", "link", "add", self._bridge, "type", "bridge")
            _run("ip", "addr", "add", f"{self._net}.1/24", "dev", self._bridge)
            _run("ip", "link", "set", self._bridge, "up")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for name in self._machines:
            # The port first: the name of a namespace goes at once, its devices only with its last process.
            subprocess.run(["ip", "link", "del", self._port(name)], capture_output=True, check=False)
            subprocess.run(["ip", "netns", "del", self._netns(name)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._bridge], capture_output=True, check=False)

    def add(self, name: str) -> str:
        """A machine; its address."""
        number = len(self._machines) + 2
        self._machines[name] = number
        netns, ours = self._netns(name), self._port(name)
        _run("ip", "netns", "add", netns)
        _run("ip", "link", "add", ours, "type", "veth", "peer", "name", "eth0", "netns", netns)
        _run("ip", "link", "set", ours, "master", self._bridge, "up")
        _run("ip", "-n", netns, "link", "set", "lo", "up")
        _run("ip", "-n", netns, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
        _run("ip", "-n", netns, "link", "set", "eth0", "up")
        return self.address(name)

    def address(self, name: str) -> str:
        """Of a machine."""
        return f"{self._net}.{self._machines[name]}"

    def on(self, name: str) -> tuple[str, ...]:
        """What to put before a command line so that it runs on that machine; the pid stays."""
        return shutil.which("nsenter") or "nsenter", f"--net=/run/netns/{self._netns(name)}"

    def cut(self, name: str, others: Iterable[str]) -> None:
        """Nothing passes between a machine and the others, in both directions and without a word, as in a partition."""
        for other in others:
            self._rule(name, "-A", other)

    def heal(self, name: str, others: Iterable[str]) -> None:
        """End a cut."""
        for other in others:
            self._rule(name, "-D", other)

    def slow(self, name: str, *, kbit_s: int) -> None:
        """What the machine sends goes out at this rate, and waits in a queue of up to 0.4 s."""
        _run(
            *("tc", "-n", self._netns(name), "qdisc", "add", "dev", "eth0", "root", "tbf"),
            *("rate", f"{kbit_s}kbit", "burst", "16kb", "latency", "400ms"),
        )

    def quick(self, name: str) -> None:
        """End `slow`."""
        _run("tc", "-n", self._netns(name), "qdisc", "del", "dev", "eth0", "root")

    def _rule(self, name: str, verb: str, other: str) -> None:
        address = self.address(other)
        for chain, side in (("INPUT", "-s"), ("OUTPUT", "-d")):
            _run(*self.on(name), "iptables", "-w", verb, chain, side, address, "-j", "DROP")

    def _netns(self, name: str) -> str:
        return f"phx{os.getpid()}-{name}"

    def _port(self, name: str) -> str:
        return f"p{os.getpid()}-{self._machines[name]}"  # 15 characters is the kernel's limit (IFNAMSIZ)


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip() or f'exit code {done.returncode}'}")
