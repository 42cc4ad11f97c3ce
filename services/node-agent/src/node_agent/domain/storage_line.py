"""Lines of the kernel about disks and file systems: local ones, NFS and Lustre.

Each shape names the kernel source that prints it.
"""

from __future__ import annotations

import re

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.kernel_finding import KernelFinding
from node_agent.domain.line_shape import LineShape, host_finding


def _file_system(found: re.Match[str]) -> KernelFinding:
    device = found["device"]
    return host_finding(
        "fs_error", f"file system on {device}: {found.string}", device=device, kind="corruption", location="corruption"
    )


def _read_only(found: re.Match[str]) -> KernelFinding:
    device = found["device"]
    return host_finding(
        "fs_error", f"{device} was remounted read-only", device=device, kind="read_only", location="read_only"
    )


def _shut_down(found: re.Match[str]) -> KernelFinding:
    device = found["device"]
    return host_finding(
        "fs_error", f"file system on {device} was shut down", device=device, kind="shut_down", location="shut_down"
    )


def _io_error(found: re.Match[str]) -> KernelFinding:
    device = found["device"]
    return host_finding(
        "fs_error",
        f"input/output error on {device}: {found.string}",
        device=device,
        kind="io_error",
        location="io_error",
    )


def _nvme(found: re.Match[str]) -> KernelFinding:
    device = found["device"]
    return host_finding(
        "fs_error", f"{device}: {found['what']}", device=device, kind="controller", location="controller"
    )


def _nfs(found: re.Match[str]) -> KernelFinding:
    back = found["what"] == "OK"
    server = found["server"]
    return KernelFinding(
        component=Component.HOST,
        device=server,
        check="nfs_server",
        health=Health.OK if back else Health.BAD,
        sentence=f"NFS server {server} " + ("answers again" if back else "does not answer"),
        attributes={"server": server},
    )


def _lustre(found: re.Match[str]) -> KernelFinding:
    return host_finding("fs_error", f"Lustre: {found.string}", device="lustre", kind="lustre", location=found["where"])


STORAGE_SHAPES: tuple[LineShape, ...] = (
    # fs/ext4/super.c, fs/xfs, fs/btrfs
    LineShape(
        "Remounting filesystem read-only",
        re.compile(r"EXT[234]-fs \((?P<device>[^)]{1,60})\): Remounting filesystem read-only"),
        _read_only,
    ),
    LineShape("-fs error", re.compile(r"EXT[234]-fs error \(device (?P<device>[^)]{1,60})\)"), _file_system),
    LineShape("XFS (", re.compile(r"XFS \((?P<device>[^)]{1,60})\): .{0,200}?[Ss]hut(?:ting)? ?down"), _shut_down),
    LineShape(
        "XFS (",
        re.compile(r"XFS \((?P<device>[^)]{1,60})\): (?:Internal error|Metadata (?:corruption|CRC error)|Corruption)"),
        _file_system,
    ),
    # block/blk-core.c, fs/buffer.c, drivers/nvme/host
    LineShape(
        "I/O error",
        re.compile(r"(?:blk_update_request: |Buffer )?(?:critical )?I/O error,? (?:on )?dev (?P<device>[\w.-]{1,60}),"),
        _io_error,
    ),
    LineShape(
        "nvme",
        re.compile(
            r"nvme (?P<device>nvme\d{1,3}): (?P<what>controller is down; will reset|Removing after probe failure|"
            r"Device not ready; aborting \w{1,20}|I/O \d+ (?:\([^)]{0,40}\) )?QID \d+ timeout)"
        ),
        _nvme,
    ),
    # net/sunrpc, fs/nfs
    LineShape(
        "nfs: server",
        re.compile(r"nfs: server (?P<server>\S{1,200}) (?P<what>not responding, (?:still trying|timed out)|OK)"),
        _nfs,
    ),
    LineShape("LustreError", re.compile(r"LustreError: (?P<where>[\w-]{1,40})"), _lustre),
)
