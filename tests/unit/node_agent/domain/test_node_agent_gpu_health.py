"""A machine's GPUs over several looks: who is missing, what is new, what an absent feature says."""

import pytest
from gpu_scene import Story, found, gpu, not_ok

from fault_contracts.payload import Health
from node_agent.domain.gpu_health import Expected
from node_agent.domain.gpu_look import LIMITS
from node_agent.domain.gpu_reading import NvmlCode, code_name
from node_agent.domain.gpu_state_health import FABRIC_COMPLETED, FABRIC_STATES
from node_agent.domain.recovery_action import RECOVERY_ACTIONS, recovery_action

BAD, OK, UNKNOWN = Health.BAD, Health.OK, Health.UNKNOWN


def test_eight_healthy_gpus_are_ok_in_everything() -> None:
    told = Story().look(*(gpu(index) for index in range(8)))
    assert not_ok(told) == {}
    assert len({one.identity for one in told}) == len(told)
    assert found(told, "gpu_count").values == {"gpus": 8, "gpus_expected": 8}
    assert found(told, "gpu_temperature", "GPU-3").attributes == {
        "pci_bus_id": "0000:13:00",
        "index": "3",
        "name": "H100",
    }


def test_what_a_gpu_does_not_have_is_no_observation() -> None:
    absent = ("ecc_volatile_uncorrected", "ecc_volatile_corrected", "remap_pending", "remap_failure", "recovery_action")
    bare = gpu(
        numbers=dict.fromkeys(absent),
        by_link={"nvlink_up": None, "nvlink_replay": None, "nvlink_recovery": None, "nvlink_crc": None},
        errors=dict.fromkeys((*absent, "nvlink_up"), NvmlCode.NOT_SUPPORTED),
    )
    checks = {one.check for one in Story().look(bare)}
    assert checks.isdisjoint({"gpu_ecc_uncorrected", "gpu_row_remap_pending", "nvlink_state", "gpu_recovery_action"})
    assert "gpu_temperature" in checks


def test_what_exists_and_cannot_be_read_is_unknown_and_says_why() -> None:
    sick = gpu(numbers={"temperature_c": None}, errors={"temperature_c": NvmlCode.UNKNOWN})
    told = found(Story().look(sick), "gpu_temperature")
    assert (told.health, told.detail) == (UNKNOWN, "temperature_c could not be read: NVML says UNKNOWN (999)")


def test_a_lost_gpu_is_named_by_what_it_said_before() -> None:
    story = Story()
    story.look(gpu(0), gpu(1))
    told = story.look(gpu(0), gpu(1, uuid="", pci_bus_id="", identity={}, lost=NvmlCode.GPU_IS_LOST))
    assert not_ok(told) == {("GPU-1", "gpu_lost"): BAD}
    assert found(told, "gpu_lost", "GPU-1").attributes["pci_bus_id"] == "0000:11:00"


def test_a_gpu_that_is_no_longer_listed_is_lost_and_the_count_is_bad() -> None:
    story = Story()
    story.look(gpu(0), gpu(1), gpu(2))
    told = story.look(gpu(0), gpu(1, uuid="GPU-2", pci_bus_id="0000:12:00"))  # indexes shift
    assert not_ok(told) == {("GPU-1", "gpu_lost"): BAD, ("", "gpu_count"): BAD}
    assert not_ok(story.look(gpu(0), gpu(1), gpu(2))) == {}


def test_a_gpu_that_was_left_out_is_not_lost() -> None:
    story = Story()
    story.look(gpu(0), gpu(1))
    assert not_ok(story.look(gpu(0), count=2, not_read=["0000:11:00"])) == {}


def test_a_gpu_that_cannot_be_opened_for_another_reason_is_unknown() -> None:
    assert not_ok(Story().look(gpu(lost=NvmlCode.UNKNOWN))) == {("GPU-0", "gpu_lost"): UNKNOWN}


@pytest.mark.parametrize(
    ("expected", "wanted"),
    [(Expected(gpus=8), 8), (Expected(gpus_on_bus=4), 4), (Expected(gpus=2, gpus_on_bus=4), 2), (Expected(), 2)],
)
def test_the_operator_comes_before_the_bus_and_the_bus_before_the_first_look(expected: Expected, wanted: int) -> None:
    told = found(Story(expected).look(gpu(0), gpu(1)), "gpu_count")
    assert (told.values["gpus_expected"], told.health) == (wanted, OK if wanted == 2 else BAD)


def test_a_quick_look_tells_what_changes_quickly_and_forgets_nothing() -> None:
    story = Story()
    story.look(gpu(numbers={"ecc_volatile_uncorrected": 0}))
    quick = {"temperature_c": 90, "power_mw": 1, "clock_reasons": 1, "recovery_action": 2}
    told = story.look(gpu(numbers=dict.fromkeys(HEALTHY_NAMES) | quick, by_link=dict.fromkeys(LINK_NAMES)), whole=False)
    assert not_ok(told) == {("GPU-0", "gpu_temperature"): BAD, ("GPU-0", "gpu_recovery_action"): BAD}
    assert found(told, "gpu_temperature").values["slowdown_c"] == 89, "the limit of the full look"
    assert "gpu_ecc_uncorrected" not in {one.check for one in told}
    told = story.look(gpu(numbers={"ecc_volatile_uncorrected": 3}))
    assert found(told, "gpu_ecc_uncorrected").values["added"] == 3


HEALTHY_NAMES = tuple(gpu().numbers)
LINK_NAMES = tuple(gpu().by_link)


def test_reset_required_is_said_wherever_it_was_answered() -> None:
    story = Story()
    assert not_ok(story.look(gpu(lost=NvmlCode.RESET_REQUIRED))) == {("GPU-0", "gpu_reset_required"): BAD}
    told = story.look(gpu(numbers={"temperature_c": None}, errors={"temperature_c": NvmlCode.RESET_REQUIRED}))
    assert found(told, "gpu_reset_required").health is BAD


@pytest.mark.parametrize(("value", "word"), [(2, "node_reboot"), (5, "recover_imex_domain"), (99, "value_99")])
def test_the_drivers_wish_has_a_name_even_when_it_is_new(value: int, word: str) -> None:
    told = found(Story().look(gpu(numbers={"recovery_action": value})), "gpu_recovery_action")
    assert (told.health, told.attributes["recovery_action"], told.values["action"]) == (BAD, word, value)


def test_codes_have_names() -> None:
    assert (code_name(15), code_name(77)) == ("GPU_IS_LOST (15)", "nvmlReturn 77")


def test_mig_and_processes_are_told_and_are_no_fault() -> None:
    sliced = gpu(
        numbers={"mig_mode": 1, "mig_pending": 0, "processes": 200},
        slices=("7/0 MIG-a", "8/0 MIG-b"),
        pids=tuple(range(100_000, 100_200)),
    )
    told = Story().look(sliced)
    assert not_ok(told) == {}
    assert found(told, "gpu_mig").detail == "MIG is on, with 2 instances; the other mode waits for a reset"
    pids = found(told, "gpu_processes").attributes["pids"]
    assert pids.startswith("100000,")
    assert pids.endswith(",…")
    assert len(pids) < 512


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"fabric_state": 1}, "registration is not started"),
        ({"fabric_status": 999}, "registration failed with UNKNOWN (999)"),
        ({"fabric_mask": 0xA9}, "bandwidth is degraded"),
        ({"fabric_mask": 0x5AA}, "too few NVLinks"),
        ({"fabric_mask": 0xAA, "fabric_summary": 3}, "its health is of limited capacity"),
    ],
)
def test_a_fabric_that_is_not_whole_says_what_is_wrong(numbers: dict[str, int], words: str) -> None:
    told = found(Story().look(gpu(numbers=numbers)), "gpu_fabric")
    assert (told.health, told.detail) == (BAD, f"fabric: {words}")


def test_no_fabric_is_no_observation() -> None:
    assert "gpu_fabric" not in {one.check for one in Story().look(gpu(numbers={"fabric_state": 0}))}


def test_every_fabric_state_but_one_is_a_finding() -> None:
    states = {state: found(Story().look(gpu(numbers={"fabric_state": state})), "gpu_fabric") for state in FABRIC_STATES}
    assert {state for state, told in states.items() if told.health is OK} == {FABRIC_COMPLETED}


def test_names_of_the_drivers_wishes_are_distinct() -> None:
    assert len({recovery_action(value) for value in (*RECOVERY_ACTIONS, 8, 9)}) == len(RECOVERY_ACTIONS) + 2


def test_limits_of_a_quick_look_are_those_of_the_full_one() -> None:
    story = Story()
    story.look(gpu(numbers={"slowdown_c": 60}))
    told = story.look(gpu(numbers=dict.fromkeys(LIMITS) | {"temperature_c": 61}), whole=False)
    assert found(told, "gpu_temperature").health is BAD
