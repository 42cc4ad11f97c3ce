"""`phalanx validate`: one node's part of a validation. Imports no torch, so no device can hang it.

Also run by the host role as a process of its own (`python -m node_agent.adapters.validation_program`): what goes wrong
here must not touch the agent.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from pydantic import ValidationError

from fault_contracts.payload import Health
from node_agent.adapters.launch_options import visible_gpus
from node_agent.adapters.local_devices import DevicesCheck, served_gpus
from node_agent.adapters.validation_bus import ValidationBus
from node_agent.adapters.validation_coordinator import Coordinator
from node_agent.adapters.validation_flags import ValidationOptions, parse_validation
from node_agent.adapters.validation_members import Members, MembersPlan
from node_agent.adapters.validation_node_line import NodeLine, NodeLineBroken
from node_agent.adapters.validation_report import EXIT_CODES, report_of, result_of, short_json, table_of, write_report
from node_agent.application.validate_gang import GangValidation
from node_agent.application.validation_ports import LocalCheck
from node_agent.domain.validation_result import CheckResult, ValidationVerdict
from service_kit.clock import SystemClock
from service_kit.foreign_text import printable
from service_kit.logging import configure_logging

PROC_S = 5.0
"""For reads of sysfs and proc that take microseconds when the driver is well."""
LEAVE_S = 5.0
EXIT_CANNOT = 73
"""EX_CANTCREAT of sysexits.h, as `phalanx run`."""
EXIT_UNKNOWN = EXIT_CODES[ValidationVerdict.UNKNOWN]


async def validate(options: ValidationOptions) -> dict[str, Any]:
    """The report; on nodes that do not coordinate, the one that node rank 0 made.

    Raises:
        NodeLineBroken: no report came from node rank 0.
        OSError: members cannot be started, or the port cannot be had.
    """
    async with AsyncExitStack() as stack:
        bus = ValidationBus(options)
        stack.push_async_callback(bus.close)
        await bus.open()
        gpus = await served_gpus(options.proc_root, limit_s=PROC_S)
        devices = DevicesCheck(options.expected, sys_root=options.sys_root, proc_root=options.proc_root, limit_s=PROC_S)
        local: list[LocalCheck] = [devices, *bus.checks(frozenset(gpus.values()) - {""})]
        if options.node_rank == 0:
            report = await _coordinate(options, local, gpus)
        else:
            report = await _take_part(options, local)
        await bus.record(report)
        return report


async def _coordinate(
    options: ValidationOptions, local: Sequence[LocalCheck], gpus: Mapping[str, str]
) -> dict[str, Any]:
    clock = SystemClock()
    began_at = clock.now()
    coordinator = Coordinator(options.run_id)
    port = await coordinator.start(options.address, options.port)
    members = Members(_members_plan(options, port), coordinator.tell_exit)
    gang = GangValidation(coordinator, options.plan)
    try:
        await members.start()
        found, gang_results = await asyncio.gather(_all(local), gang.run())
        results = [*found, *gang_results]
        for node_rank in range(1, options.nnodes):
            told = await coordinator.findings_of(node_rank, limit_s=options.conditions_s + options.plan.join_s)
            results += _of_node(node_rank, told)
        report = report_of(
            node_id=options.node_id,
            results=results,
            members=gang.members,
            identities=[{"pci_bus_id": pci, "device_id": uuid} for pci, uuid in sorted(gpus.items())],
            drills=[f"{drill.kind}:{drill.rank}" for drill in options.drills],
            began_at=began_at,
            ended_at=clock.now(),
        )
        await coordinator.send_report(report)
        return report
    finally:
        await coordinator.close()
        await members.close(leave_s=LEAVE_S)


async def _take_part(options: ValidationOptions, local: Sequence[LocalCheck]) -> dict[str, Any]:
    line = await NodeLine.open(
        options.address,
        options.port,
        run_id=options.run_id,
        node_rank=options.node_rank,
        limit_s=options.plan.join_s,
    )
    members = Members(_members_plan(options, options.port), line.tell_exit)
    try:
        await members.start()
        line.tell_findings(options.node_id, await _all(local))
        return await line.report(limit_s=_longest_s(options))
    finally:
        await members.close(leave_s=LEAVE_S)
        line.close()


def _longest_s(options: ValidationOptions) -> float:
    """No validation takes longer: every stage at its limit, with as much again for scheduling."""
    plan = options.plan
    return 2 * (plan.join_s + plan.device_s + plan.group_s * (plan.world_size + 2) + options.conditions_s + 60.0)


def _members_plan(options: ValidationOptions, port: int) -> MembersPlan:
    first = options.node_rank * len(options.devices)
    return MembersPlan(
        run_id=options.run_id,
        node_id=options.node_id,
        node_rank=options.node_rank,
        first_rank=first,
        devices=options.devices,
        address=options.address,
        port=port,
        limit_s=options.plan.join_s,
        drills={drill.rank - first: drill.kind.value for drill in options.drills},
        log_dir=options.data_dir / "validations" / f"members-{options.run_id}-{options.node_rank}",
    )


async def _all(checks: Sequence[LocalCheck]) -> list[CheckResult]:
    return [result for found in await asyncio.gather(*(check.run() for check in checks)) for result in found]


def _of_node(node_rank: int, told: Sequence[Mapping[str, Any]] | None) -> list[CheckResult]:
    """Lines of another node. What does not come or cannot be read is unknown, and that counts."""
    subject = f"node rank {node_rank}"
    unknown = partial(CheckResult, check="node", subject=subject, health=Health.UNKNOWN)
    if told is None:
        return [unknown(rule_id="validation.node_silent", sentence="told nothing of its own machine")]
    try:
        return [result_of(line, node_id=str(line.get("node_id", subject))[:256]) for line in told]
    except (ValueError, AttributeError) as error:
        return [unknown(rule_id="validation.node_unreadable", sentence=f"what it tells is not understood: {error}")]


def main(argv: Sequence[str] | None = None) -> int:
    """Validate, print, keep the report; returns the exit code."""
    options = parse_validation(sys.argv[1:] if argv is None else argv, os.environ, gpus_here=visible_gpus(os.environ))
    configure_logging(service="phalanx validate", level="error")
    try:
        report = asyncio.run(validate(options))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return _fail(f"bad setting {'.'.join(map(str, first['loc']))}: {first['msg']}", 78)
    except NodeLineBroken as error:
        return _fail(str(error), EXIT_UNKNOWN)
    except OSError as error:
        return _fail(f"cannot validate at {options.address}:{options.port}: {error}", EXIT_CANNOT)
    except KeyboardInterrupt:
        return _fail("interrupted; nothing was left running", 130)
    stamp = f"{SystemClock().now():%Y%m%d-%H%M%S}-{os.getpid()}"
    path = options.report or options.data_dir / "validations" / f"{stamp}.json"
    as_data = options.as_json or options.brief
    lines = [short_json(report) if options.brief else json.dumps(report)] if as_data else list(table_of(report))
    try:
        write_report(path, report)
        lines += [] if as_data else [f"report: {path}"]
    except OSError as error:
        sys.stderr.write(f"phalanx validate: the report cannot be kept: {error}\n")
    try:
        sys.stdout.write("\n".join(map(printable, lines)) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # `| head` has seen enough; what is left in the buffer must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_CODES[ValidationVerdict(report["verdict"])]


def _fail(text: str, code: int) -> int:
    sys.stderr.write(f"phalanx validate: {printable(text)}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
