"""`phalanx node-action`: order something of a machine, and wait for what came of it."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phalanx_cli.commands.bus_choice import chosen_bus
from phalanx_cli.commands.bus_question import answer, fail, hush_log, who
from phalanx_cli.foreign_text import print_lines, printable
from phalanx_cli.stack import developer

if TYPE_CHECKING:
    from fault_contracts.node_actions import NodeActionReported, OrderNodeAction
    from service_kit.jetstream.bus import JetStreamBus
    from service_kit.ports import Delivery
    from service_kit.settings import BusSettings

EXIT_FAILED = 1
EXIT_NO_ANSWER = 3
EXIT_REFUSED = 4
"""Not 2, which means wrong flags."""
ORDER_VALID_S = 30.0
"""For the agent to begin: it listens, so it begins at once; an order that waited longer is not obeyed."""
ALIVE_S = 3.0
WAIT_S = 1_200.0
"""Above the host role's own limits of a validation (900 s) and of a reboot."""


class ActionName(StrEnum):
    """As on the command line."""

    VALIDATE = "validate"
    RESET_GPU = "reset-gpu"
    REBOOT = "reboot"
    DRAIN = "drain"


def node_action(
    node: Annotated[str, typer.Argument(help="Name of the machine; `phalanx nodes` lists them.")],
    action: Annotated[ActionName, typer.Argument(help="What is to be done.")],
    gpu: Annotated[str, typer.Option("--gpu", metavar="UUID", help="Which GPU; for reset-gpu.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be run; nothing is.")] = False,
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")] = "asked for by hand",
    by: Annotated[str, typer.Option(help="Who asks; default: you, at this host.")] = "",
    wait: Annotated[float, typer.Option(min=1.0, metavar="S", help="Seconds to wait for the outcome.")] = WAIT_S,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome as one JSON object.")] = False,
    cluster: Annotated[str, typer.Option(help="Name of the cluster; default: PHALANX_CLUSTER, or the stack's.")] = "",
    data_dir: Annotated[Path, typer.Option(help="Folder of `phalanx up`.")] = developer.DEFAULT_DATA_DIR,
) -> None:
    """Order a validation, a GPU reset, a reboot or a drain of one machine, and wait for the outcome.

    The host role of the machine obeys once, what its operator permits (PHALANX_NODE_ACTIONS there; unless set, validate
    only), and refuses aloud. The order is for the agent that answers now: one of another boot or life refuses it.

    Exit code 0 done, or shown; 1 it was tried and failed; 4 refused; 3 no answer, or nobody there; 69 no bus.
    """
    if action is ActionName.RESET_GPU and not gpu:
        raise typer.BadParameter("reset-gpu needs --gpu UUID (`phalanx node NAME` shows them)")
    order = {
        "node_id": node,
        "action": action.value.replace("-", "_"),
        "gpu_uuid": gpu,
        "dry_run": dry_run,
        "asked_by": by or who(),
        "reason": {"rule_id": "person", "sentence": reason[:2_000]},
    }
    raise typer.Exit(answer("node-action", lambda: _order(order, wait, as_json, cluster, data_dir)))


def _order(order: dict[str, Any], wait_s: float, as_json: bool, cluster: str, data_dir: Path) -> int:
    settings = chosen_bus(cluster, data_dir)
    if settings is None:
        return fail("node-action", "no bus: set NATS_URL, or start a stack with `phalanx up`", EXIT_NO_ANSWER)
    hush_log("node-action")
    found = asyncio.run(_ordered(settings, order, wait_s))
    if isinstance(found, str):
        return fail("node-action", found, EXIT_NO_ANSWER)
    print_lines([json.dumps(found.model_dump(mode="json"))] if as_json else _lines(found))
    return {"done": 0, "dry_run": 0, "failed": EXIT_FAILED, "refused": EXIT_REFUSED}[found.outcome.value]


async def _ordered(settings: BusSettings, fields: dict[str, Any], wait_s: float) -> NodeActionReported | str:
    """The outcome, or why there is none."""
    from fault_contracts.ids import derived_id
    from fault_contracts.node_actions import OrderNodeAction
    from service_kit.clock import SystemClock
    from service_kit.jetstream.bus import JetStreamBus
    from service_kit.jetstream.connection import connect

    connection = await connect(settings, name="phalanx-node-action")
    try:
        bus = JetStreamBus(connection, cluster=settings.cluster)
        alive = await bus.ask(what="host_health", key=fields["node_id"], timeout_s=ALIVE_S)
        if alive is None:
            return f"no host role answers for {fields['node_id']!r}; nothing was ordered"
        told = json.loads(alive)
        now = SystemClock().now()
        order = OrderNodeAction(
            **fields,
            operation_id=derived_id(fields["node_id"], fields["action"], os.getpid(), now.isoformat()),
            boot_id=told.get("boot_id", ""),
            instance_id=told.get("instance_id", ""),
            expires_at=now + timedelta(seconds=ORDER_VALID_S),
        )
        return await _outcome(bus, order, wait_s)
    finally:
        await connection.close()


async def _outcome(bus: JetStreamBus, order: OrderNodeAction, wait_s: float) -> NodeActionReported | str:
    from fault_contracts.envelope import seal
    from fault_contracts.node_actions import NodeActionReported
    from service_kit.clock import SystemClock

    answered: asyncio.Future[NodeActionReported] = asyncio.get_running_loop().create_future()

    async def hear(delivery: Delivery) -> None:
        report = delivery.envelope.data
        if report.operation_id == order.operation_id and not answered.done():
            answered.set_result(report)

    listening = await bus.listen(messages=[NodeActionReported], handler=hear, key=order.node_id)
    try:
        source = f"phalanx/{order.asked_by}"[:256]
        await bus.publish(seal(order, source=source, cause_id=order.operation_id, time=SystemClock().now()))
        async with asyncio.timeout(wait_s):
            return await answered
    except TimeoutError:
        return (
            f"no outcome of operation {order.operation_id} within {wait_s:g} s; it may be under way. "
            "The agent keeps it in its journal and reports it when it ends"
        )
    finally:
        await listening.stop()


def _lines(report: NodeActionReported) -> list[str]:
    told = [f"{report.node_id} {report.action.value}: {report.outcome.value}; {report.reason.sentence}"]
    told += [f"  $ {command}" for command in report.commands]
    told += [f"  | {line}" for line in report.output.splitlines()[-20:]]
    return [printable(line) for line in told]
