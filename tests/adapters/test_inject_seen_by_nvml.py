"""What `phalanx inject` promises, held against the real collector on the fake library it writes for."""

import json
import os
from pathlib import Path

import pytest
from fake_nvml_rig import fake_library
from typer.testing import CliRunner

from fault_contracts.payload import Health
from node_agent.adapters.nvml_collector import NvmlCollector, NvmlLimits
from node_agent.adapters.nvml_rounds import RoundLimits
from node_agent.domain.device_directory import Directory
from phalanx_cli.commands.app import app
from phalanx_cli.drill.fake_library import STATE_VARIABLE
from phalanx_cli.drill.fake_state import ControlFile
from phalanx_cli.drill.injection import gpu_of
from service_kit.clock import SystemClock

pytestmark = [pytest.mark.asyncio, pytest.mark.integration]
SHORT = NvmlLimits(whole_every_s=0.0, rounds=RoundLimits(first_answer_s=20.0, gpu_s=1.0, hung_again_s=0.0))

DRILLS = [
    (["xid", "79", "--gpu", "2"], {"gpu_lost"}),
    (["xid", "64", "--gpu", "2"], {"gpu_row_remap_failure"}),
    (["xid", "95", "--gpu", "2"], {"gpu_ecc_uncorrected"}),
    (["ecc", "--gpu", "2"], {"gpu_ecc_uncorrected"}),
    (["ecc", "corrected", "--gpu", "2"], set()),
    (["row-remap", "--gpu", "2"], {"gpu_row_remap_pending"}),
    (["thermal", "--gpu", "2"], {"gpu_temperature", "gpu_hw_thermal"}),
    (["nvlink", "down", "--link", "7", "--gpu", "2"], {"nvlink_state", "nvlink_link"}),
    (["nvlink", "errors", "--link", "7", "--gpu", "2"], {"nvlink_errors"}),
    (["pcie", "--gpu", "2"], {"gpu_pcie_width"}),
    (["gpu-lost", "--gpu", "2"], {"gpu_lost"}),
    (["recovery-action", "2", "--gpu", "2"], {"gpu_recovery_action"}),
    (["hang", "--gpu", "2"], {"nvml_hang"}),
    (["mismatch", "--gpu", "2"], {"driver_mismatch"}),
]


def inject(data_dir: Path, *arguments: str) -> None:
    """Run the command; it has to succeed."""
    done = CliRunner().invoke(app, ["inject", *arguments, "--data-dir", str(data_dir)])
    assert done.exit_code == 0, done.output


async def test_every_drill_shows_as_it_says_and_goes_when_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = ControlFile(tmp_path / "state")
    monkeypatch.setenv(STATE_VARIABLE, str(state.path))
    state.set({"sys.node": 11, "2.pci_bus": 0x3B})
    folder = tmp_path / "hosts" / "node-a"
    folder.mkdir(parents=True)
    card = {"node_id": "node-a", "pid": os.getpid(), "kmsg_path": str(tmp_path / "kmsg"), "fake_state": str(state.path)}
    (folder / "host.json").write_text(json.dumps(card))
    directory = Directory()
    collector = NvmlCollector(
        directory=directory,
        clock=SystemClock(),
        library=str(fake_library()),
        pci_devices=tmp_path / "no-sysfs",
        limits=SHORT,
    )
    try:
        await collector.collect()
        gpu = gpu_of(state.read(), 2)
        known = directory.at_pci(gpu.pci_bus_id)
        assert known is not None
        assert (known.device_id, known.board_serial) == (gpu.uuid, gpu.serial), "the drill names the library's own GPU"
        for arguments, checks in DRILLS:
            inject(tmp_path, *arguments)
            bad = {one.check: one for one in await collector.collect() if one.health is not Health.OK}
            assert bad.keys() == checks, arguments
            named = {one.component_id.split("/")[0] for one in bad.values()}
            assert named <= {gpu.uuid, ""}, arguments
            inject(tmp_path, "clear")
            healed = [one.check for one in await collector.collect() if one.health is not Health.OK]
            assert healed == [], arguments
    finally:
        await collector.close()
