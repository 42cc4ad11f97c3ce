"""What is here against what should be."""

from fault_contracts.payload import Health
from node_agent.domain.validation_topology import ExpectedDevices, SeenDevices, compare

TWO = frozenset({"0000:1b:00", "0000:3b:00"})
SEEN = SeenDevices(gpu_pci=TWO, driver_pci=TWO, gpu_uuids=frozenset({"GPU-1", "GPU-2"}), nics=frozenset({"mlx5_0"}))


def healths(seen: SeenDevices, **expected: object) -> dict[str, Health]:
    """Check to health."""
    return {line.check: line.health for line in compare(seen, ExpectedDevices(**expected))}  # type: ignore[arg-type]


def test_all_there() -> None:
    assert healths(SEEN, gpus=2, nics=1, gpu_pci=TWO, gpu_uuids=frozenset({"GPU-1", "GPU-2"})) == {
        "gpu_count": Health.OK,
        "nic_count": Health.OK,
        "gpu_pci": Health.OK,
        "gpu_uuid": Health.OK,
    }


def test_a_gpu_that_the_driver_lost_is_bad_whatever_is_expected() -> None:
    lost = SeenDevices(gpu_pci=TWO, driver_pci=frozenset({"0000:1b:00"}))
    assert healths(lost)["gpu_driver"] is Health.BAD
    assert healths(lost, gpus=2)["gpu_count"] is Health.BAD


def test_gpus_without_a_driver_cannot_work() -> None:
    assert healths(SeenDevices(gpu_pci=TWO), gpus=2)["gpu_driver"] is Health.BAD


def test_another_gpu_in_the_slot_is_named() -> None:
    [line] = compare(SEEN, ExpectedDevices(gpu_uuids=frozenset({"GPU-1", "GPU-7"})))
    assert line.health is Health.BAD
    assert "missing: GPU-7" in line.sentence
    assert "not expected: GPU-2" in line.sentence


def test_more_than_expected_is_not_as_expected() -> None:
    assert healths(SEEN, nics=0)["nic_count"] is Health.BAD


def test_without_an_expectation_nothing_is_known() -> None:
    [line] = compare(SEEN, ExpectedDevices())
    assert (line.health, line.counts) == (Health.UNKNOWN, False)
