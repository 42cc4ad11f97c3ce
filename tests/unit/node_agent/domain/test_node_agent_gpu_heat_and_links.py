"""Temperatures, clocks, PCIe and NVLink against their limits."""

import pytest
from gpu_scene import Story, found, gpu, not_ok

from fault_contracts.payload import Health
from node_agent.domain.gpu_heat_health import SOFTWARE_THERMAL_S
from node_agent.domain.gpu_pcie_health import REPLAYS_PER_MINUTE_MAX
from node_agent.domain.nvlink_health import CRC_PER_S_MAX, links_of_peers

BAD, OK = Health.BAD, Health.OK


@pytest.mark.parametrize(
    ("numbers", "bad"),
    [
        ({"temperature_c": 88, "margin_c": 1}, False),
        ({"temperature_c": 89, "margin_c": 1}, True),
        ({"temperature_c": 80, "margin_c": 0}, True),
        ({"temperature_c": 80, "margin_c": None, "slowdown_c": None}, False),
    ],
)
def test_a_gpu_is_hot_at_its_own_limit(numbers: dict[str, int], bad: bool) -> None:
    told = found(Story().look(gpu(numbers=numbers)), "gpu_temperature")
    assert (told.health is BAD) is bad


def test_memory_is_hot_at_its_limit() -> None:
    assert not_ok(Story().look(gpu(numbers={"memory_temperature_c": 95}))) == {("GPU-0", "gpu_memory_temperature"): BAD}


@pytest.mark.parametrize(
    ("reasons", "checks"),
    [
        (0x1 | 0x2 | 0x4 | 0x10, []),  # idle, application clocks, power cap, sync boost
        (0x8, ["gpu_hw_slowdown"]),
        (0x48, ["gpu_hw_thermal"]),
        (0x88, ["gpu_power_brake"]),
        (0xC8, ["gpu_hw_thermal", "gpu_power_brake"]),
        (0x20, []),  # at the first look it is a moment
    ],
)
def test_each_reason_for_slow_clocks_is_its_own_check(reasons: int, checks: list[str]) -> None:
    told = not_ok(Story().look(gpu(numbers={"clock_reasons": reasons})))
    assert sorted(check for _, check in told) == checks


def test_software_slowing_for_heat_is_bad_when_it_lasts() -> None:
    story = Story()
    warm, cool = gpu(numbers={"clock_reasons": 0x20}), gpu()
    assert not_ok(story.look(warm)) == {}
    assert not_ok(story.look(warm, after_s=SOFTWARE_THERMAL_S - 1)) == {}
    assert not_ok(story.look(warm, after_s=1, whole=False)) == {("GPU-0", "gpu_sw_thermal"): BAD}
    assert not_ok(story.look(cool)) == {}
    assert not_ok(story.look(warm)) == {}, "it begins anew"


def test_fewer_lanes_are_bad_and_a_low_generation_only_under_load_and_twice() -> None:
    story = Story()
    assert not_ok(story.look(gpu(numbers={"pcie_width": 8}))) == {("GPU-0", "gpu_pcie_width"): BAD}
    assert not_ok(story.look(gpu(numbers={"pcie_generation": 1}))) == {}, "idle"
    busy = gpu(numbers={"pcie_generation": 3, "clock_reasons": 0x0, "utilization_percent": 99})
    assert not_ok(story.look(busy)) == {}, "it may be speeding up"
    assert not_ok(story.look(busy)) == {("GPU-0", "gpu_pcie_generation"): BAD}


def test_replays_are_bad_by_their_rate() -> None:
    story = Story()
    limit = int(REPLAYS_PER_MINUTE_MAX)
    assert not_ok(story.look(gpu(numbers={"pcie_replay": 5_000}))) == {}, "nobody knows since when"
    assert not_ok(story.look(gpu(numbers={"pcie_replay": 5_000 + limit}), after_s=60)) == {}
    told = story.look(gpu(numbers={"pcie_replay": 5_000 + 2 * limit + 1}), after_s=60)
    assert not_ok(told) == {("GPU-0", "gpu_pcie_replay"): BAD}


def test_a_link_that_was_up_is_missed_and_told_by_itself_until_it_is_back() -> None:
    story = Story()
    story.look(gpu())
    told = story.look(gpu(by_link={"nvlink_up": (1, 0, 1, 1)}))
    assert not_ok(told) == {("GPU-0", "nvlink_state"): BAD, ("GPU-0/nvlink1", "nvlink_link"): BAD}
    assert found(told, "nvlink_state").attributes["links_down"] == "1"
    assert found(told, "nvlink_link").attributes["gpu_uuid"] == "GPU-0"
    told = story.look(gpu())
    assert not_ok(told) == {}
    assert found(told, "nvlink_link").component_id == "GPU-0/nvlink1"


def test_a_link_that_the_others_have_is_missed_from_the_first_look() -> None:
    told = Story().look(*(gpu(index) for index in range(3)), gpu(3, by_link={"nvlink_up": (1, 1, 0, 1)}))
    assert ("GPU-3", "nvlink_state") in not_ok(told)


def test_links_that_nobody_ever_had_are_not_missed() -> None:
    bridge_less = [gpu(index, by_link={"nvlink_up": (0, 0, 0, 0)}) for index in range(4)]
    assert not_ok(Story().look(*bridge_less)) == {}
    two = [gpu(0), gpu(1, by_link={"nvlink_up": (0, 0, 0, 0)})]
    assert links_of_peers(two) == {}, "of two nobody can say who is right"


def test_link_errors_count_from_the_first_but_for_crc() -> None:
    story = Story()
    story.look(gpu(by_link={"nvlink_replay": (9, 9, 9, 9), "nvlink_crc": (7, 7, 7, 7)}))
    quiet = {"nvlink_replay": (9, 9, 9, 9), "nvlink_crc": (7, 7, int(7 + CRC_PER_S_MAX * 30), 7)}
    assert not_ok(story.look(gpu(by_link=quiet))) == {}, "a hundred a second are accepted"
    told = story.look(gpu(by_link={"nvlink_replay": (9, 9, 9, 10), "nvlink_crc": (7, 7, 99_999, 7)}))
    errors = found(told, "nvlink_errors")
    assert (errors.health, errors.attributes["links"]) == (BAD, "2,3")
    assert errors.detail == "1 replay errors and over 100 CRC errors a second on NVLinks 2,3 since the last look"
