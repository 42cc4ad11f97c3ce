"""A drill from end to end: `phalanx inject` on a host role with fake GPUs, seen on the bus and by `phalanx node`."""

from collections.abc import Callable
from pathlib import Path

import pytest
from host_cast import Machine, Told, host_process, node_row, phalanx, told_on

from fault_contracts.health import SignalObserved, SignalsObserved
from fault_contracts.inventory import InventoryReported
from fault_contracts.payload import Health
from phalanx_cli.drill.fake_library import STATE_VARIABLE, NoCompiler, build
from phalanx_cli.stack.nats_server import NatsServer

pytestmark = [pytest.mark.integration, pytest.mark.asyncio, pytest.mark.timeout(300)]
GPU3 = "GPU-00000000-0000-4000-8000-000000000003"


def gpu3_lost_is(health: Health) -> Callable[[SignalsObserved], bool]:
    """A sweep that says so."""
    return lambda sweep: any(
        (one.component_id, one.check, one.health) == (GPU3, "gpu_lost", health) for one in sweep.samples
    )


async def signals(told: Told, check: str) -> list[SignalObserved]:
    """Of one check, as the stream has them."""
    return [one for one in await told.all(SignalObserved) if one.check == check]


async def test_an_injected_xid_79_names_the_gpu_and_is_told_once(
    tmp_path: Path, nats_server: NatsServer, unique_name: str
) -> None:
    try:
        library = build(tmp_path / "library")
    except NoCompiler as error:
        pytest.skip(str(error))
    machine, url = Machine(tmp_path), nats_server.url
    told = await told_on(url, unique_name)
    log = tmp_path / "kmsg"
    log.touch()
    env = {
        "PHALANX_NVML": "on",
        "PHALANX_NVML_LIBRARY": str(library),
        STATE_VARIABLE: str(tmp_path / "gpus"),
        "PHALANX_KMSG": str(log),
    }
    try:
        async with host_process(machine, url=url, cluster=unique_name, **env):
            await told.until(gpu3_lost_is(Health.OK))
            drill = ("inject", "xid", "79", "--gpu", "3", "--witness", "both", "--data-dir", str(machine.data))
            code, text = await phalanx(url, unique_name, *drill)
            assert code == 0, text
            xid = await node_row(url, unique_name, "xid_79", "bad")
            assert (xid["component_id"], xid["source"]) == (GPU3, "kmsg")
            await told.until(gpu3_lost_is(Health.BAD))
            inventories = await told.all(InventoryReported)
            assert {one.device_id for one in inventories[-1].devices if one.kind == "gpu"} >= {GPU3}
            witnesses = {one.attributes.get("witness") for one in await signals(told, "xid_79")}
            assert "nvml" not in witnesses, "NVML's event is the same Xid again"
            code, text = await phalanx(url, unique_name, "inject", "clear", "--data-dir", str(machine.data))
            assert code == 0, text
            before = len(await told.all(SignalsObserved))
            await told.until(gpu3_lost_is(Health.OK), after=before)
    finally:
        await told.connection.close()
