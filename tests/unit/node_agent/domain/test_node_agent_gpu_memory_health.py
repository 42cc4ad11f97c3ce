"""ECC counts as deltas, and what waits for a reset."""

import pytest
from gpu_scene import Story, found, gpu, not_ok

from fault_contracts.payload import Health
from node_agent.domain.gpu_memory_health import COUNTERS
from node_agent.domain.gpu_reading import NvmlCode

BAD, OK, UNKNOWN = Health.BAD, Health.OK, Health.UNKNOWN


def uncorrected(count: int) -> object:
    return gpu(numbers={"ecc_volatile_uncorrected": count})


def test_an_uncorrected_error_is_bad_when_it_is_new_and_good_afterwards() -> None:
    story = Story()
    looks = [found(story.look(uncorrected(count)), "gpu_ecc_uncorrected") for count in (0, 2, 2, 3)]  # type: ignore[arg-type]
    assert [look.health for look in looks] == [OK, BAD, OK, BAD]
    assert [look.values.get("added") for look in looks] == [None, 2, 0, 1]


def test_an_error_from_before_the_first_look_is_old() -> None:
    story = Story()
    first = found(story.look(uncorrected(2)), "gpu_ecc_uncorrected")  # type: ignore[arg-type]
    assert (first.health, first.old) == (BAD, True)
    then = found(story.look(uncorrected(2)), "gpu_ecc_uncorrected")  # type: ignore[arg-type]
    assert (then.health, then.old) == (OK, False)


def test_a_counter_that_went_back_was_reset_and_all_it_shows_is_new() -> None:
    story = Story()
    story.look(uncorrected(5))  # type: ignore[arg-type]
    told = found(story.look(uncorrected(1)), "gpu_ecc_uncorrected")  # type: ignore[arg-type]
    assert (told.health, told.values["added"]) == (BAD, 1)


def test_a_new_driver_begins_a_new_epoch() -> None:
    story = Story()
    story.look(uncorrected(1), driver="580")  # type: ignore[arg-type]
    told = found(story.look(uncorrected(4), driver="590"), "gpu_ecc_uncorrected")  # type: ignore[arg-type]
    assert (told.health, told.old) == (BAD, True)
    assert "added" not in told.values


def test_corrected_errors_are_never_bad() -> None:
    story = Story()
    story.look(gpu())
    told = found(story.look(gpu(numbers={"ecc_volatile_corrected": 10_000})), "gpu_ecc_corrected")
    assert (told.health, told.values["added"]) == (OK, 10_000)
    assert set(COUNTERS) <= set(gpu().numbers)


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("remap_pending", "gpu_row_remap_pending"),
        ("remap_failure", "gpu_row_remap_failure"),
        ("banks_none", "gpu_row_remap_banks"),
        ("sram_threshold", "gpu_sram_threshold"),
        ("retired_pages_pending", "gpu_retired_pages"),
    ],
)
def test_a_flag_is_bad_as_long_as_it_stands(name: str, check: str) -> None:
    story = Story()
    for value, health in ((0, {}), (1, {("GPU-0", check): BAD}), (1, {("GPU-0", check): BAD}), (0, {})):
        assert not_ok(story.look(gpu(numbers={name: value}))) == health


def test_a_corrupted_inforom_is_bad_and_an_unreadable_one_unknown() -> None:
    for code, health in ((NvmlCode.CORRUPTED_INFOROM, BAD), (NvmlCode.UNKNOWN, UNKNOWN)):
        told = Story().look(gpu(numbers={"inforom": None}, errors={"inforom": code}))
        assert not_ok(told) == {("GPU-0", "gpu_inforom"): health}
