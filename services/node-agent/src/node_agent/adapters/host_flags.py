"""Flags of `phalanx host`. Each stands for an environment variable, so that a unit file or a manifest says the same."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

EPILOG = """\
examples:
  phalanx host                                           watch this machine, tell the bus of NATS_URL
  phalanx host --gpus-expected 8 --nics-expected 8       a machine that has fewer is not well
  phalanx host --nvml off --kmsg /tmp/kmsg --data-dir d  a drill: the kernel log is a file
  phalanx node NAME                                      what it sees; `phalanx nodes` lists the machines

One host role for each machine, beside the agents that `phalanx run` starts. It needs no root for most of what it
watches; the kernel log wants CAP_SYSLOG, or kernel.dmesg_restrict=0. What it cannot read is unknown, and said so.
Further settings are environment variables (docs/settings.md): NATS_CREDS, PHALANX_LOG_LEVEL, PHALANX_READY_FILE, ...

exit codes: 0 ended by a signal, 69 no bus, 70 internal error, 78 bad settings or a folder that is in use
"""

FLAGS: tuple[tuple[str, str, str, str], ...] = (
    ("--node-id", "PHALANX_NODE_ID", "NAME", "name of this machine; default: the host's, as for `phalanx run`"),
    ("--nats-url", "NATS_URL", "URL", "the bus"),
    ("--cluster", "PHALANX_CLUSTER", "NAME", "name of the cluster on the bus; default: local"),
    ("--data-dir", "PHALANX_DATA_DIR", "DIR", "its outbox and host.json lie in DIR/hosts/NODE; default: .phalanx"),
    ("--kmsg", "PHALANX_KMSG", "PATH", "kernel log; default: /dev/kmsg; none: not read"),
    ("--nvml", "PHALANX_NVML", "auto|on|off", "ask the GPU driver's library; default: auto"),
    ("--nvml-library", "PHALANX_NVML_LIBRARY", "PATH", "where it is, if not on the loader's path"),
    ("--gpus-expected", "PHALANX_GPUS_EXPECTED", "N", "GPUs it must have; default: as many as were seen first"),
    ("--nics-expected", "PHALANX_NICS_EXPECTED", "N", "RDMA adapters it must have; default: as seen first"),
    ("--disks", "PHALANX_DISKS", "DIR:DIR", "folders whose file systems must have room; default: /:/tmp:/dev/shm"),
    ("--sweep", "PHALANX_SWEEP", "S", "seconds between two full looks; default: 30"),
    ("--network-interval", "PHALANX_NETWORK_INTERVAL", "S", "seconds between looks at the network; default: 10"),
)
"""Flag, variable, value, help."""


def host_environment(argv: Sequence[str]) -> dict[str, str]:
    """The variables that the flags stand for. A wrong flag ends the program with exit code 2, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="phalanx host",
        description="Watch this machine: GPUs, kernel log, network adapters, disks, memory, clock.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for flag, variable, value, text in FLAGS:
        parser.add_argument(flag, dest=variable, metavar=value, help=f"{text} [{variable}]")
    return {name: value for name, value in vars(parser.parse_args(argv)).items() if value is not None}
