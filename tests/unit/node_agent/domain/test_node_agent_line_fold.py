"""Storms are folded without loss, and in the same places whoever reads them."""

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.kernel_finding import KernelFinding
from node_agent.domain.kmsg_record import KmsgRecord
from node_agent.domain.line_fold import FoldedLine, LineFold


def finding(device: str = "0000:3b:00", *, location: str = "", pid: int | None = None) -> KernelFinding:
    return KernelFinding(
        component=Component.GPU,
        device=device,
        check="xid_95",
        health=Health.BAD,
        sentence="",
        location=location,
        pid=pid,
    )


def record(sequence: int, at_s: float) -> KmsgRecord:
    return KmsgRecord(facility=0, sequence=sequence, since_boot_us=int(at_s * 1e6), text="")


def counted(told: list[FoldedLine]) -> list[tuple[int, int]]:
    return [(line.sequence, line.count) for line in told]


def test_the_first_is_told_at_once_and_the_rest_of_the_second_as_one() -> None:
    fold = LineFold()
    told = [line for n in range(100) for line in fold.take(finding(), record(n, 10 + n / 1_000))]
    assert counted(told) == [(0, 1)]
    assert fold.due(10_999_999) == []
    assert counted(fold.due(11_000_000)) == [(1, 99)]
    assert len(fold) == 0


def test_counts_add_up_over_a_long_storm_of_many_kinds() -> None:
    fold = LineFold(kinds_max=16)
    told: list[FoldedLine] = []
    for n in range(50_000):
        told += fold.take(finding(location=f"unit{n % 29}"), record(n, n / 7_000))
        assert len(fold) <= 16
    told += fold.flush()
    assert sum(line.count for line in told) == 50_000
    assert len({line.sequence for line in told}) == len(told)


def test_29_kinds_in_memory_for_29_are_two_a_second() -> None:
    fold = LineFold()
    told = [line for n in range(80_000) for line in fold.take(finding(location=str(n % 29)), record(n, 5 + n / 80_000))]
    told += fold.flush()
    assert sum(line.count for line in told) == 80_000
    assert len(told) <= 2 * 29


def test_another_process_or_device_is_another_kind() -> None:
    fold = LineFold()
    told = [
        line
        for n, each in enumerate((finding(pid=1), finding(pid=2), finding("0000:5e:00", pid=1)))
        for line in fold.take(each, record(n, 1))
    ]
    assert counted(told) == [(0, 1), (1, 1), (2, 1)]


def test_a_second_reading_cuts_the_windows_in_the_same_places() -> None:
    records = [record(n, 3 + n * 0.07) for n in range(200)]
    live, again = LineFold(), LineFold()
    first: list[FoldedLine] = []
    for each in records:
        first += live.take(finding(), each)
        first += live.due(each.since_boot_us)  # live, the reader is drained after each line
    first += live.flush()
    second = [line for each in records for line in again.take(finding(), each)] + again.flush()
    assert counted(first) == counted(second)


def test_times_that_go_back_are_another_boot_s() -> None:
    fold = LineFold()
    fold.take(finding(), record(1, 5_000))
    fold.take(finding(), record(2, 5_000.1))
    told = fold.take(finding(), record(1, 3))
    assert counted(told) == [(2, 1), (1, 1)]
