"""The flags of `phalanx validate`, and what they mean as values."""

from __future__ import annotations

import argparse
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from node_agent.adapters.local_devices import read_expected
from node_agent.adapters.validation_drill import DrillPlan, read_drill
from node_agent.application.validate_gang import GangPlan, PairsMode
from node_agent.application.validation_ports import DeviceOrder
from node_agent.domain.validation_speed import SpeedPolicy
from node_agent.domain.validation_topology import ExpectedDevices

PORT_DEFAULT = 29_410
"""Beside torchrun's 29400 and 29500, so that a validation can run where a job has its rendezvous."""
MEMBERS_MAX = 4_096
EPILOG = """\
examples:
  phalanx validate                                        this machine: each GPU, or the CPU; pairs of GPUs
  phalanx validate --gpus 8 --nics 8                      and that so many are here
  phalanx validate --nproc-per-node 4 --device cpu        four processes on the CPU
  phalanx validate --nnodes 2 --node-rank 0 --master-addr HOST     on each of two machines: the gang, and every pair
  NATS_URL=nats://HOST:4222 phalanx validate              and ledger, conditions and standing of this node
  phalanx validate --nproc-per-node 4 --drill corrupt:2   see a bad member being named

exit code: 0 pass; 1 fail; 3 something that had to be known could not be told; 2 wrong flags
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationOptions:
    """What the user asked for."""

    node_id: str
    nnodes: int
    node_rank: int
    devices: tuple[str, ...]
    address: str
    port: int
    run_id: str
    plan: GangPlan
    expected: ExpectedDevices
    sys_root: Path
    proc_root: Path
    nats_url: str
    cluster: str
    conditions_s: float
    data_dir: Path
    report: Path | None
    as_json: bool
    brief: bool
    publish: bool
    drills: tuple[DrillPlan, ...]


def parse_validation(argv: Sequence[str], environ: Mapping[str, str], *, gpus_here: int) -> ValidationOptions:
    """Read the command line. `gpus_here`: devices of a member each, when the flags do not say.

    Raises:
        SystemExit: code 2 after one clear message, or 0 after --help.
    """
    parser = _parser(environ)
    given = parser.parse_args(argv)
    try:
        return _options(given, gpus_here)
    except (ValueError, OSError) as error:
        parser.error(str(error))


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="phalanx validate",
        description="Gate before work: is this machine, and is this gang of machines, fit for a job?",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    gang = parser.add_argument_group("gang")
    gang.add_argument("--nnodes", type=int, default=1, metavar="N", help="machines that validate together (default 1)")
    gang.add_argument("--node-rank", type=int, default=0, metavar="R", help="this machine's place; 0 coordinates")
    gang.add_argument("--nproc-per-node", type=int, metavar="N", help="members here; default: one a GPU, else one")
    gang.add_argument("--master-addr", default="127.0.0.1", metavar="HOST", help="address of node rank 0")
    gang.add_argument("--master-port", type=int, metavar="PORT", help=f"default {PORT_DEFAULT}; any on one machine")
    gang.add_argument("--run-id", default="validate", metavar="NAME", help="who brings another name is refused")
    gang.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="what the members test")
    gang.add_argument(
        "--node-id", default=environ.get("PHALANX_NODE_ID", ""), metavar="NAME", help="default: host name"
    )
    tests = parser.add_argument_group("tests")
    tests.add_argument("--matmul-size", type=int, metavar="N", help="N x N; default 4096 on a GPU, 512 on the CPU")
    tests.add_argument("--device-time", type=float, default=2.0, metavar="S", help="of repeated products (default 2)")
    tests.add_argument(
        "--memory-mb", type=int, default=0, metavar="MB", help="default: a quarter of a GPU's, 256 on CPU"
    )
    tests.add_argument("--size-mb", type=int, metavar="MB", help="of a sum or an exchange; default 64 on GPUs, else 4")
    tests.add_argument("--repeats", type=int, default=5, metavar="N", help="of each; the fastest counts (default 5)")
    tests.add_argument(
        "--pairs", choices=[*PairsMode], default=PairsMode.ALWAYS, help="test each pair (default always)"
    )
    tests.add_argument("--slow-ratio", type=float, metavar="R", help="of the median; default 0.5 on GPUs, 0.05 on CPUs")
    limits = parser.add_argument_group("limits, each in seconds")
    limits.add_argument("--join-limit", type=float, default=120.0, metavar="S", help="until all members are there")
    limits.add_argument("--device-limit", type=float, default=120.0, metavar="S", help="of a device's tests")
    limits.add_argument("--group-limit", type=float, default=30.0, metavar="S", help="of a sum, or of one pair")
    limits.add_argument("--conditions-limit", type=float, default=120.0, metavar="S", help="for two fresh rounds")
    devices = parser.add_argument_group("devices that must be here")
    devices.add_argument("--gpus", type=int, metavar="N")
    devices.add_argument("--nics", type=int, metavar="N", help="RDMA adapters")
    devices.add_argument("--expect", type=Path, metavar="FILE", help="JSON: gpus, nics, gpu_pci, gpu_uuids")
    devices.add_argument("--sys-root", type=Path, default=Path("/sys"), help=argparse.SUPPRESS)
    devices.add_argument("--proc-root", type=Path, default=Path("/proc"), help=argparse.SUPPRESS)
    bus = parser.add_argument_group("bus and report")
    bus.add_argument("--nats-url", default=environ.get("NATS_URL", ""), metavar="URL", help="also: NATS_URL")
    bus.add_argument("--cluster", default=environ.get("PHALANX_CLUSTER", ""), metavar="NAME", help=argparse.SUPPRESS)
    bus.add_argument("--no-publish", action="store_true", help="do not record the outcome on the bus")
    bus.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    bus.add_argument("--brief", action="store_true", help="JSON on stdout, shortened to what a message holds (8 KB)")
    bus.add_argument("--report", type=Path, metavar="FILE", help="default: validations/TIME.json in --data-dir")
    bus.add_argument("--data-dir", type=Path, default=Path(environ.get("PHALANX_DATA_DIR", ".phalanx")), metavar="DIR")
    parser.add_argument("--drill", action="append", default=[], metavar="KIND:RANK", help=_DRILL)
    return parser


_DRILL = "make a member bad on purpose: corrupt, slow, die, hang, matmul, memory; repeatable"


def _options(given: argparse.Namespace, gpus_here: int) -> ValidationOptions:
    on_gpu = given.device == "cuda" or (given.device == "auto" and gpus_here > 0)
    count = given.nproc_per_node if given.nproc_per_node is not None else max(gpus_here if on_gpu else 1, 1)
    world_size = given.nnodes * count
    _check(given, count, world_size, gpus_here if on_gpu else None)
    expected = read_expected(given.expect) if given.expect is not None else ExpectedDevices()
    if given.gpus is not None:
        expected = replace(expected, gpus=given.gpus)
    if given.nics is not None:
        expected = replace(expected, nics=given.nics)
    drills = tuple(read_drill(text) for text in given.drill)
    port = given.master_port if given.master_port is not None else (PORT_DEFAULT if given.nnodes > 1 else 0)
    return ValidationOptions(
        node_id=given.node_id or socket.gethostname(),
        nnodes=given.nnodes,
        node_rank=given.node_rank,
        devices=tuple(f"cuda:{index}" if on_gpu else "cpu" for index in range(count)),
        address=given.master_addr,
        port=port,
        run_id=given.run_id,
        plan=_plan(given, world_size, on_gpu=on_gpu),
        expected=expected,
        sys_root=given.sys_root,
        proc_root=given.proc_root,
        nats_url=given.nats_url,
        cluster=given.cluster or "local",
        conditions_s=given.conditions_limit,
        data_dir=given.data_dir,
        report=given.report,
        as_json=given.json,
        brief=given.brief,
        publish=not given.no_publish,
        drills=drills,
    )


def _plan(given: argparse.Namespace, world_size: int, *, on_gpu: bool) -> GangPlan:
    return GangPlan(
        world_size=world_size,
        join_s=given.join_limit,
        device=DeviceOrder(
            matmul_size=given.matmul_size or (4_096 if on_gpu else 512),
            duration_s=given.device_time,
            memory_bytes=given.memory_mb << 20,
        ),
        device_s=given.device_limit,
        size_bytes=(given.size_mb or (64 if on_gpu else 4)) << 20,
        repeats=given.repeats,
        group_s=given.group_limit,
        pairs=PairsMode(given.pairs),
        # Processes that share a CPU disturb each other; only a large difference says something about one of them.
        speed=SpeedPolicy(ratio_min=given.slow_ratio if given.slow_ratio is not None else (0.5 if on_gpu else 0.05)),
    )


def _check(given: argparse.Namespace, count: int, world_size: int, gpus: int | None) -> None:
    """Raises ValueError."""
    if given.nnodes < 1 or count < 1:
        raise ValueError("--nnodes and --nproc-per-node must be at least 1")
    if not 0 <= given.node_rank < given.nnodes:
        raise ValueError(f"--node-rank {given.node_rank} is not below --nnodes {given.nnodes}")
    if world_size > MEMBERS_MAX:
        raise ValueError(f"{world_size} members are more than {MEMBERS_MAX}")
    if gpus is not None and count > gpus > 0:
        raise ValueError(f"--nproc-per-node {count} is more than the {gpus} GPUs here; a member has one of its own")
    if given.nnodes > 1 and given.master_addr == "127.0.0.1" and given.master_port is None:
        raise ValueError("--nnodes above 1 needs --master-addr: the address of node rank 0, as the others reach it")
    if not re.fullmatch(r"[\w.-]{1,64}", given.run_id):
        raise ValueError("--run-id: letters, digits, dots, dashes and underscores, at most 64")
    numbers = ("matmul_size", "size_mb", "repeats", "device_limit", "group_limit", "join_limit", "conditions_limit")
    for name in numbers:
        value = getattr(given, name)
        if value is not None and value <= 0:
            raise ValueError(f"--{name.replace('_', '-')} must be above 0")
    if given.slow_ratio is not None and not 0 < given.slow_ratio < 1:
        raise ValueError("--slow-ratio must lie between 0 and 1")
    if given.memory_mb < 0 or given.device_time < 0:
        raise ValueError("--memory-mb and --device-time cannot be negative")
