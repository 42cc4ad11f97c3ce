"""Readings of GPUs: bits, counters, links."""

from __future__ import annotations

from fault_attribution.derive.gpu_readings import gpu_readings
from fault_attribution.finding import Finding, Role


def _read(kind: str, *, number: int = 1, at_s: float | None = None, device: str = "0", **captures: str) -> Finding:
    return Finding(
        finding_id=f"{kind}:{number}:{captures}:{at_s}", kind=kind, role=Role.CONTEXT, node="n1", device=device,
        captures=captures, text=f"line {number}", stream="s", number=number, at_s=at_s,
    )  # fmt: skip


def _kinds(*findings: Finding) -> list[str]:
    return sorted(each.kind for each in gpu_readings(findings))


def test_each_bit_of_the_clock_reasons_is_its_own_fact() -> None:
    assert _kinds(_read("gpu_clock_mask", mask="128")) == ["gpu_power_brake"]
    assert _kinds(_read("gpu_clock_mask", mask="0x0000000000000048")) == ["gpu_hw_slowdown", "gpu_hw_thermal"]
    assert _kinds(_read("gpu_clock_mask", mask="1")) == []


def test_a_throttle_lasts_when_it_is_seen_minutes_apart_on_the_same_gpu() -> None:
    early, late = _read("gpu_clock_mask", mask="128", at_s=5), _read("gpu_clock_mask", mask="128", number=2, at_s=130)
    assert "throttle_lasts" in _kinds(early, late)
    other = _read("gpu_clock_mask", mask="128", number=2, at_s=130, device="1")
    assert "throttle_lasts" not in _kinds(early, other)
    soon = _read("gpu_clock_mask", mask="128", number=2, at_s=65)
    assert "throttle_lasts" not in _kinds(early, soon)


def test_a_counter_means_something_when_it_is_not_zero() -> None:
    assert _kinds(_read("gpu_counter", name="ecc_uncorrected", value="0")) == []
    assert _kinds(_read("gpu_counter", name="ecc_uncorrected", value="2")) == ["gpu_ecc_counted"]
    assert _kinds(_read("gpu_counter", name="ecc_corrected", value="177")) == ["gpu_ecc_corrected"]
    assert _kinds(_read("gpu_counter", name="ecc_corrected", value="9604118233")) == ["gpu_ecc_storm"]


def test_growth_is_by_value_and_needs_no_order_in_time() -> None:
    low, high = (_read("gpu_counter", name="ecc_corrected", value=value, number=int(value)) for value in ("5", "20005"))
    for order in ([low, high], [high, low]):
        found = [each for each in gpu_readings(order) if each.kind == "gpu_ecc_storm"]
        assert [each.captures["grew"] for each in found] == ["yes"]


def test_a_slow_link_is_idle_or_broken_by_what_stands_in_its_line() -> None:
    now, most = (_read("gpu_reading", name=f"pcie_generation_{name}", value=value) for name, value in
                 (("now", "1"), ("max", "5")))  # fmt: skip
    assert _kinds(now, most, _read("gpu_reading", name="utilisation", value="0")) == ["gpu_pcie_idle"]
    assert _kinds(now, most, _read("gpu_reading", name="utilisation", value="99")) == ["gpu_pcie_generation"]
    assert _kinds(now, most, _read("gpu_pstate", pstate="P0")) == ["gpu_pcie_generation"]
    assert _kinds(now, most) == []
    assert _kinds(now, _read("gpu_reading", name="pcie_generation_max", value="5", number=2)) == []


def test_power_at_its_limit_and_a_narrow_link() -> None:
    draw = _read("gpu_reading", name="power_w", value="398.9")
    assert _kinds(draw, _read("gpu_reading", name="power_limit_w", value="400.00")) == ["gpu_power_at_limit"]
    assert _kinds(draw, _read("gpu_reading", name="power_limit_w", value="700.00")) == []
    narrow = [
        _read("gpu_reading", name="pcie_width_now", value="4"),
        _read("gpu_reading", name="pcie_width_max", value="16"),
    ]
    assert _kinds(*narrow) == ["gpu_pcie_width"]


def test_numbers_that_are_none_are_passed_over() -> None:
    assert _kinds(_read("gpu_clock_mask", mask="x"), _read("gpu_counter", name="ecc_uncorrected", value="N/A")) == []
