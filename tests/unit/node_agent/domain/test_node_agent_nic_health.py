"""What a network port's looks mean: gone, flapping, slow, noisy, missing, or simply not in use."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from fault_contracts.payload import Health
from node_agent.domain.nic_health import FLAP_WINDOW_S, NicWatch
from node_agent.domain.nic_reading import LinkKind, LinkReading, NetworkReading
from node_agent.domain.observation import Observation

AT = datetime(2026, 1, 1, tzinfo=UTC)


def rdma(number: int = 0, **changes: object) -> LinkReading:
    link = LinkReading(
        kind=LinkKind.RDMA,
        name=f"mlx5_{number}/1",
        adapter=f"mlx5_{number}",
        device_id=f"0c42:a103:00a1:000{number}",
        pci_bus_id=f"0000:5{number}:00",
        model="MT4129",
        up=True,
        state="4: ACTIVE, 5: LinkUp",
        gbps=400.0,
        downs=0,
        errors={"symbol_error": 0},
    )
    return replace(link, **changes)


def look(watch: NicWatch, *links: LinkReading, now_s: float = 0.0, **more: tuple[str, ...]) -> list[Observation]:
    return watch.judge(NetworkReading(links=links, **more), now_s=now_s, at=AT)


def of(told: list[Observation], check: str) -> Observation:
    (found,) = [one for one in told if one.check == check]
    return found


def test_a_port_is_named_by_its_guid_and_its_place() -> None:
    link = of(look(NicWatch(), rdma()), "nic_link")
    assert (link.component_id, link.health) == ("0c42:a103:00a1:0000", Health.OK)
    assert link.attributes["pci_bus_id"] == "0000:50:00"
    assert rdma(0, name="mlx5_0/2").component_id == "0c42:a103:00a1:0000/2"
    assert rdma(0, kind=LinkKind.ETHERNET, name="eth0").component_id == "eth0"


def test_a_link_that_went_is_bad_and_well_again_when_it_is_back() -> None:
    watch = NicWatch()
    look(watch, rdma())
    down = of(look(watch, rdma(up=False, state="1: DOWN, 2: Polling", gbps=None), now_s=10), "nic_link")
    assert down.health is Health.BAD
    assert down.detail == "mlx5_0/1: down, and it was up before (1: DOWN, 2: Polling)"
    assert of(look(watch, rdma(downs=1), now_s=20), "nic_link").health is Health.OK


def test_a_port_that_never_had_a_link_is_not_in_use() -> None:
    watch = NicWatch()
    told = look(watch, rdma(up=False, downs=0), rdma(1, up=True))
    assert {one.component_id for one in told if one.check == "nic_link"} == {"0c42:a103:00a1:0001"}


def test_the_kernels_count_of_downs_knows_of_a_link_before_this_agent() -> None:
    assert of(look(NicWatch(), rdma(up=False, downs=1)), "nic_link").health is Health.BAD


def test_an_interface_that_was_switched_off_is_nobodys_fault() -> None:
    watch = NicWatch()
    eth = rdma(kind=LinkKind.ETHERNET, name="eth0", adapter="eth0")
    look(watch, eth)
    assert not [one for one in look(watch, replace(eth, wanted=False, up=None), now_s=10) if one.check == "nic_link"]


def test_a_state_that_is_not_told_is_unknown() -> None:
    watch = NicWatch()
    look(watch, rdma())
    assert of(look(watch, rdma(up=None, state=""), now_s=10), "nic_link").health is Health.UNKNOWN


def test_three_returns_in_the_window_are_a_flapping_link() -> None:
    watch = NicWatch()
    look(watch, rdma())
    healths = []
    for turn in range(1, 4):
        look(watch, rdma(up=False, downs=turn), now_s=turn * 20)
        healths.append(of(look(watch, rdma(downs=turn), now_s=turn * 20 + 10), "nic_flap").health)
    assert healths == [Health.OK, Health.OK, Health.BAD]
    assert of(look(watch, rdma(downs=3), now_s=61 + FLAP_WINDOW_S), "nic_flap").health is Health.OK


def test_flaps_between_two_looks_are_counted_by_the_kernel() -> None:
    watch = NicWatch()
    look(watch, rdma(downs=7))
    flap = of(look(watch, rdma(downs=10), now_s=10), "nic_flap")
    assert (flap.health, flap.values["returns"]) == (Health.BAD, 3)


def test_a_driver_loaded_anew_is_no_flap() -> None:
    watch = NicWatch()
    look(watch, rdma(downs=7))
    assert of(look(watch, rdma(downs=0), now_s=10), "nic_flap").values["returns"] == 0


def test_a_link_slower_than_it_was_is_bad() -> None:
    watch = NicWatch()
    look(watch, rdma())
    slow = of(look(watch, rdma(gbps=100.0), now_s=10), "nic_rate")
    assert (slow.health, slow.detail) == (Health.BAD, "mlx5_0/1: 100 Gb/s; it had 400")


def test_a_link_slower_than_most_of_its_model_is_bad_and_two_alone_prove_nothing() -> None:
    links = [rdma(number, gbps=200.0 if number == 0 else 400.0) for number in range(4)]
    slow = next(one for one in look(NicWatch(), *links) if one.check == "nic_rate")
    assert (slow.health, slow.detail) == (Health.BAD, "mlx5_0/1: 200 Gb/s; most ports of this model have 400")
    others = [rdma(0, gbps=200.0), rdma(1), rdma(2), rdma(3, model="other")]
    assert {one.health for one in look(NicWatch(), *others) if one.check == "nic_rate"} == {Health.OK}


def test_errors_are_held_against_the_bit_error_rate() -> None:
    watch = NicWatch()
    look(watch, rdma(errors={"symbol_error": 1_000}))
    # 400 Gb/s at 1e-12 for 60 s: 24 errors.
    assert of(look(watch, rdma(errors={"symbol_error": 1_024}), now_s=60), "nic_errors").health is Health.OK
    noisy = of(look(watch, rdma(errors={"symbol_error": 1_049}), now_s=120), "nic_errors")
    assert (noisy.health, noisy.values["errors"]) == (Health.BAD, 25)
    assert "symbol_error +25" in noisy.detail


def test_counters_that_begin_anew_are_a_new_epoch() -> None:
    watch = NicWatch()
    look(watch, rdma(errors={"symbol_error": 5_000}))
    assert not [one for one in look(watch, rdma(errors={"symbol_error": 3}), now_s=60) if one.check == "nic_errors"]
    assert of(look(watch, rdma(errors={"symbol_error": 4}), now_s=120), "nic_errors").health is Health.OK


def test_adapters_are_counted_against_what_was_there_first() -> None:
    watch = NicWatch()
    assert of(look(watch, rdma(0), rdma(1)), "nic_count").health is Health.OK
    gone = of(look(watch, rdma(0), now_s=10), "nic_count")
    assert (gone.health, gone.detail) == (Health.BAD, "rdma adapters: 1 of 2 there at the start; gone: mlx5_1")
    all_gone = of(look(watch, rdma(kind=LinkKind.ETHERNET, name="eth0", adapter="eth0"), now_s=20), "nic_count")
    assert all_gone.values == {"adapters": 0, "expected": 2}


def test_adapters_are_counted_against_the_operators_number() -> None:
    assert of(look(NicWatch(expected=8), rdma()), "nic_count").detail == "rdma adapters: 1 of 8 expected"
    assert of(look(NicWatch(expected=1), rdma()), "nic_count").health is Health.OK
    assert of(look(NicWatch(expected=1)), "nic_count").health is Health.BAD


def test_a_machine_without_adapters_says_nothing() -> None:
    assert look(NicWatch()) == []


def test_an_adapter_without_a_driver_is_told() -> None:
    told = of(look(NicWatch(), rdma(), driverless=("0000:60:00",)), "nic_count")
    assert (told.health, told.detail) == (Health.BAD, "rdma adapters: no driver has taken 0000:60:00")
