"""The fake library against the real nvidia-ml-py, in processes of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fake_nvml_rig import fake_library

from phalanx_cli.drill import fake_library as builder
from phalanx_cli.drill.fake_library import BuildFailed, NoCompiler, build, environment
from phalanx_cli.drill.fake_state import ControlFile

PROGRAM = """
import ctypes, json
import pynvml as n
def said(call, *arguments):
    try:
        answer = call(*arguments)
    except n.NVMLError as error:
        return type(error).__name__
    return answer
n.nvmlInit()
handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
first = handles[0]
sram, fabric = n.c_nvmlEccSramErrorStatus_v1_t(), n.c_nvmlGpuFabricInfo_v3_t()
pci = n.nvmlDeviceGetPciInfo(first)
fields = n.nvmlDeviceGetFieldValues(first, [230, 193, (161, 3), 999])
banks = said(n.nvmlDeviceGetRowRemapperHistogram, first)
print(json.dumps(dict(
    uuids=[n.nvmlDeviceGetUUID(handle) for handle in handles],
    driver=n.nvmlSystemGetDriverVersion(), bus_id=pci.busId, bus=pci.bus, device=pci.pciDeviceId,
    fields=[[f.fieldId, f.nvmlReturn, f.valueType, f.value.sllVal] for f in fields],
    remap=said(n.nvmlDeviceGetRemappedRows, first),
    sram=[said(n.nvmlDeviceGetSramEccErrorStatus, first, ctypes.byref(sram)), sram.bThresholdExceeded],
    fabric=[said(n.nvmlDeviceGetGpuFabricInfoV, first, ctypes.byref(fabric)), fabric.state, fabric.healthSummary],
    margin=said(n.nvmlDeviceGetMarginTemperature, first), temperature=said(n.nvmlDeviceGetTemperature, first, 0),
    temperature_v=said(n.nvmlDeviceGetTemperatureV, first, 0),
    banks=banks if isinstance(banks, str) else [banks.max, banks.none],
    processes=[p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(first)],
    memory=n.nvmlDeviceGetMemoryInfo(first, version=n.nvmlMemory_v2).total,
)))
"""


def answers(library: Path, state: Path) -> dict:
    """What the program prints when it runs on the library."""
    command, env = [sys.executable, "-c", PROGRAM], environment(library, state)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_machine_without_a_control_file_has_eight_healthy_gpus(tmp_path: Path) -> None:
    said = answers(fake_library(), tmp_path / "absent")
    assert len(set(said["uuids"])) == 8
    assert (said["bus_id"], said["bus"], said["device"]) == ("00000000:10:00.0", 0x10, 0x233010DE)
    assert said["fields"] == [[230, 0, 1, 0], [193, 0, 4, -5], [161, 0, 3, 0], [999, 3, 1, 0]]
    assert (said["remap"], said["sram"], said["fabric"]) == ([0, 0, 0, 0], [0, 0], [0, 3, 1])
    assert (said["temperature"], said["temperature_v"], said["margin"]) == (41, 41, 46)
    assert (said["banks"], said["processes"], said["memory"]) == ([640, 0], [], 85899345920)


def test_what_it_says_stands_in_the_control_file(tmp_path: Path) -> None:
    state = ControlFile(tmp_path / "state")
    state.set({"0.remap_pending": 1, "0.temperature": 93, "0.nvlink3_replay": 17, "0.pids": "11,12"})
    state.set({"0.recovery_action": 2, "sys.count": 2, "sys.node": 7, "0.field_ret.193": 3, "0.sram_threshold": 1})
    said = answers(fake_library(), state.path)
    assert said["uuids"] == ["GPU-00000007-0000-4000-8000-000000000000", "GPU-00000007-0000-4000-8000-000000000001"]
    assert [row[3] for row in said["fields"]] == [2, 0, 17, 0]
    assert said["fields"][1][1] == 3
    assert (said["remap"], said["sram"], said["temperature"]) == ([0, 0, 1, 0], [0, 1], 93)
    assert said["processes"] == [11, 12]


def test_an_old_driver_lacks_the_symbols(tmp_path: Path) -> None:
    said = answers(fake_library(old_driver=True), tmp_path / "absent")
    missing = [said["remap"], said["sram"][0], said["fabric"][0], said["margin"], said["temperature_v"], said["banks"]]
    assert missing == ["NVMLError_FunctionNotFound"] * 6
    assert said["temperature"] == 41
    assert said["fields"][0][1] == 3, "field 230 is not supported"


def test_a_change_that_the_library_could_not_read_is_refused(tmp_path: Path) -> None:
    state = ControlFile(tmp_path / "state")
    state.set({"0.lost": 1})
    for key, value in (("lost", 1), ("0.lost now", 1), ("0.name", "two\nlines"), ("0.name", "")):
        with pytest.raises(ValueError, match=r"no key|no value"):
            state.set({key: value})
    assert state.read() == {"0.lost": "1"}
    state.clear()
    assert state.read() == {}


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "COMPILERS", ("no-such-compiler",))
    with pytest.raises(NoCompiler, match="apt-get install gcc"):
        build(tmp_path)


def test_a_compiler_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho out of memory >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(builder, "find_compiler", lambda: str(broken))
    with pytest.raises(BuildFailed, match="out of memory"):
        build(tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*/*.so.1"))
