"""One device against its peers: what stands out, what does not, and when nobody can say."""

import pytest

from health_ingest.domain.peer_outlier import Measured, Side, Verdict, Yardstick, compare
from health_ingest.domain.peer_report import PeerPolicy

HEAT = PeerPolicy().yardsticks["gpu_temperature_outlier"]
CLOCK = PeerPolicy().yardsticks["gpu_clock_outlier"]
LINK = PeerPolicy().yardsticks["link_slow"]


def gpu(device: int, value: float, *, load: float | None = 99.0, power: float | None = 690.0) -> Measured:
    return Measured(node_id="n", device_id=f"GPU-{device}", value=value, utilisation_pct=load, power_w=power)


def verdict(own: Measured, others: list[Measured], yardstick: Yardstick = HEAT) -> Verdict:
    return compare(own, others, yardstick, among="of the same node").verdict


def peers(*values: float, load: float | None = 99.0, power: float | None = 690.0) -> list[Measured]:
    return [gpu(place + 1, value, load=load, power=power) for place, value in enumerate(values)]


def test_a_gpu_ten_degrees_above_its_peers_stands_out_and_the_sentence_names_them() -> None:
    found = compare(gpu(0, 72), peers(61, 60, 62, 61, 60, 62, 61), HEAT, among="of job llama")
    assert found.verdict is Verdict.OUTLIER
    assert (found.median, found.gap, found.peers) == (61, 11, 7)
    for named in ("72 °C", "11 °C above the median 61 °C", "7 peers of job llama"):
        assert named in found.sentence


def test_a_small_gap_is_ordinary_however_alike_the_peers_are() -> None:
    assert verdict(gpu(0, 65), peers(61, 61, 61, 61)) is Verdict.ORDINARY


def test_just_below_the_limit_is_neither_an_outlier_nor_well() -> None:
    assert verdict(gpu(0, 69.5), peers(61, 61, 61, 61)) is Verdict.NEAR


def test_among_peers_that_differ_much_a_gap_of_ten_degrees_is_ordinary() -> None:
    spread = peers(50, 54, 58, 62, 66, 70)
    assert verdict(gpu(0, 71), spread) is Verdict.ORDINARY


def test_a_colder_gpu_is_never_a_thermal_outlier() -> None:
    assert verdict(gpu(0, 30), peers(61, 61, 61)) is Verdict.ORDINARY


def test_a_second_sick_gpu_does_not_hide_the_first() -> None:
    both = peers(61, 60, 62, 61, 60, 62, 85)
    assert verdict(gpu(0, 84), both) is Verdict.OUTLIER


def test_the_device_is_not_its_own_peer() -> None:
    own = gpu(0, 90)
    assert compare(own, [own, *peers(60, 61)], HEAT, among="").peers == 2
    assert verdict(own, [own, *peers(60, 61)]) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    "others",
    [
        peers(61, 60),
        peers(61, 60, 62, 61, load=80.0),
        peers(61, 60, 62, 61, load=None),
        peers(61, 60, 62, 61, power=400.0),
    ],
    ids=["too few", "other load", "load untold", "other power"],
)
def test_without_enough_alike_peers_it_is_unknown(others: list[Measured]) -> None:
    found = compare(gpu(0, 90), others, HEAT, among="of the same node")
    assert (found.verdict, found.median) == (Verdict.UNKNOWN, None)


def test_a_device_that_does_not_tell_its_load_is_unknown() -> None:
    assert verdict(gpu(0, 90, load=None), peers(61, 60, 62, 61)) is Verdict.UNKNOWN


def test_untold_power_does_not_exclude_peers() -> None:
    assert verdict(gpu(0, 90, power=None), peers(61, 60, 62, 61)) is Verdict.OUTLIER


def test_a_throttled_gpu_keeps_its_peers_although_it_draws_less() -> None:
    assert verdict(gpu(0, 1_200, power=300.0), peers(1_755, 1_750, 1_740), CLOCK) is Verdict.OUTLIER
    assert verdict(gpu(0, 1_700, power=300.0), peers(1_755, 1_750, 1_740), CLOCK) is Verdict.ORDINARY


def test_clocks_of_idle_gpus_are_not_compared() -> None:
    assert verdict(gpu(0, 210, load=5.0), peers(1_755, 1_755, 1_755, load=5.0), CLOCK) is Verdict.UNKNOWN


def test_a_link_with_half_its_lanes_stands_out() -> None:
    links = [Measured(node_id="n", device_id=f"nic{n}", value=400.0) for n in range(1, 8)]
    slow = Measured(node_id="n", device_id="nic0", value=200.0)
    found = compare(slow, links, LINK, among="of the same node")
    assert found.verdict is Verdict.OUTLIER
    assert "200 Gbit/s below the median 400 Gbit/s" in found.sentence


def test_one_of_eighteen_nvlinks_less_stands_out() -> None:
    links = [Measured(node_id="n", device_id=f"g{n}", value=18 * 200.0) for n in range(1, 8)]
    assert verdict(Measured(node_id="n", device_id="g0", value=17 * 200.0), links, LINK) is Verdict.OUTLIER


def test_a_yardstick_without_a_gap_is_refused() -> None:
    with pytest.raises(ValueError, match="give gap_min"):
        Yardstick(check="x", quantity="x", unit="x", side=Side.ABOVE)
    with pytest.raises(ValueError, match="peers_min is 1"):
        Yardstick(check="x", quantity="x", unit="x", side=Side.ABOVE, gap_min=1, peers_min=1)
