"""What it means that NVML cannot be used, and who tells an Xid."""

import pytest
from gpu_scene import T0

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.counter_deltas import Counters, growth
from node_agent.domain.gpu_reading import NvmlCode
from node_agent.domain.nvml_access import Hang, answers, exhausted, hangs, has_no_gpu, refused, works
from node_agent.domain.xid_witness import HELD_S, XidEvent, XidWitness


@pytest.mark.parametrize("code", [NvmlCode.LIBRARY_NOT_FOUND, NvmlCode.DRIVER_NOT_LOADED])
def test_a_machine_without_a_gpu_has_nothing_to_say(code: int) -> None:
    assert has_no_gpu(code, ())
    assert has_no_gpu(code, None), "sysfs cannot be read either"
    assert not has_no_gpu(code, ("0000:10:00",))


@pytest.mark.parametrize(
    ("code", "check", "health", "words"),
    [
        (NvmlCode.DRIVER_NOT_LOADED, "gpu_driver", Health.BAD, "not loaded"),
        (NvmlCode.LIBRARY_NOT_FOUND, "gpu_driver", Health.UNKNOWN, "NVIDIA_DRIVER_CAPABILITIES"),
        (NvmlCode.LIB_RM_VERSION_MISMATCH, "driver_mismatch", Health.BAD, "no GPU is at fault"),
        (NvmlCode.GPU_IS_LOST, "gpu_driver", Health.BAD, "a GPU is lost"),
        (NvmlCode.UNKNOWN, "gpu_driver", Health.BAD, "UNKNOWN (999)"),
    ],
)
def test_a_refusal_names_what_is_wrong(code: int, check: str, health: Health, words: str) -> None:
    [told] = refused(code, "nvmlInit", ("0000:10:00", "0000:11:00"), T0)
    assert (told.component, told.check, told.health) == (Component.DRIVER, check, health)
    assert words in told.detail
    assert told.attributes["gpus_on_bus"] == "0000:10:00,0000:11:00"


def test_a_mismatch_is_told_even_where_no_gpu_is_seen_and_ends_when_nvml_works() -> None:
    [bad] = refused(NvmlCode.LIB_RM_VERSION_MISMATCH, "nvmlInit", (), T0)
    good = {one.identity: one for one in works("580", "13", T0)}
    assert good[bad.identity].health is Health.OK


def test_a_hang_is_of_a_gpu_or_of_the_driver_and_ends_under_the_same_name() -> None:
    of_gpu, of_driver = hangs(
        [Hang(pci_bus_id="0000:12:00", uuid="GPU-2", index=2, limit_s=10), Hang(limit_s=30)], 1, T0
    )
    assert (of_gpu.component, of_gpu.component_id, of_driver.component) == (Component.GPU, "GPU-2", Component.DRIVER)
    assert "1 reading processes hang" in of_gpu.detail
    assert {of_gpu.identity, of_driver.identity} <= {one.identity for one in answers([("GPU-2", "0000:12:00")], T0)}
    assert exhausted(2, T0).identity == of_driver.identity


def test_counters_of_another_boot_say_nothing_about_growth() -> None:
    before = Counters(epoch="a", at=T0, values={"x": 1})
    assert growth(None, before).over_s is None
    assert growth(before, Counters(epoch="b", at=T0, values={"x": 9})).of("x") is None
    grown = growth(before, Counters(epoch="a", at=T0, values={"x": 4, "new": 7}))
    assert (grown.of("x"), grown.of("new"), grown.per_s("x")) == (3, None, None)


GPU = frozenset({"GPU-1", "0000:11:00"})


def event(code: int = 94, devices: frozenset[str] = GPU) -> XidEvent:
    return XidEvent(devices=devices, code=code)


def test_an_event_that_the_kernel_log_tells_too_is_dropped_whoever_comes_first() -> None:
    witness = XidWitness()
    witness.kernel_told(["0000:11:00"], 94, now_s=10.0)
    witness.nvml_told(event(), now_s=10.5)
    witness.nvml_told(event(48), now_s=11.0)
    witness.kernel_told(["GPU-1"], 48, now_s=12.9)
    assert witness.due(100.0) == ()
    assert witness.confirmed == 2


def test_an_event_that_only_nvml_tells_is_told_once_with_its_count() -> None:
    witness = XidWitness()
    for now_s in (10.0, 10.5, 11.0):
        witness.nvml_told(event(), now_s=now_s)
    assert witness.next_due_s() == 10.0 + HELD_S
    assert witness.due(10.0 + HELD_S - 0.1) == ()
    [told] = witness.due(10.0 + HELD_S)
    assert told.count == 3
    assert witness.next_due_s() is None


def test_another_code_another_gpu_or_another_time_is_another_event() -> None:
    witness = XidWitness()
    witness.nvml_told(event(), now_s=10.0)
    witness.kernel_told(["GPU-1"], 95, now_s=10.1)
    witness.kernel_told(["GPU-2"], 94, now_s=10.1)
    assert len(witness.due(20.0)) == 1
    witness.kernel_told(["GPU-1"], 94, now_s=20.0)
    witness.nvml_told(event(), now_s=20.0 + HELD_S + 0.1)
    assert len(witness.due(30.0)) == 1
