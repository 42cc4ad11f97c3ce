"""Other forms of one incident: nothing is lost but what the variant is there to lose."""

import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

from attribution_bench.incidents import Event
from attribution_bench.variants import (
    NOISE_LINES,
    Variant,
    halved,
    interleaved,
    jittered,
    renamed,
    shuffled_within_offset,
    with_noise,
    without_offsets,
)

EVENTS = [
    Event(source="kmsg", node="n1", offset_s=0, line="NVRM: Xid (PCI:0000:84:00): 13, pid=4711, name=python"),
    Event(source="kmsg", node="n1", offset_s=0, line="NVRM: Xid (PCI:0000:84:00): 43, pid=4711, on n1 at 12:30:45"),
    Event(source="worker-stderr", node="n10", rank=3, offset_s=4, line="peer 10.0.0.7:4711 of n1 closed; 8.9.2.26"),
    Event(source="exit", node="n10", rank=3, offset_s=4, line="failed (exitcode: 1) local_rank: 3 (pid: 999) n1"),
    Event(source="k8s", line="pod x of n10 bound to 169.254.0.1, GPU-01234567-89ab-cdef-0123-456789abcdef"),
]


def texts(events: list[Event]) -> Counter[str]:
    return Counter(each.line for each in events)


@pytest.mark.parametrize("variant", [jittered, without_offsets, shuffled_within_offset, interleaved])
def test_order_and_clocks_change_and_no_line_does(variant: Variant) -> None:
    assert texts(variant(EVENTS, Random(1))) == texts(EVENTS)


def test_the_same_seed_gives_the_same_variant() -> None:
    assert renamed(EVENTS, Random(5)) == renamed(EVENTS, Random(5))
    assert jittered(EVENTS, Random(5)) != jittered(EVENTS, Random(6))


def test_jitter_is_bounded_and_the_file_follows_the_clocks() -> None:
    found = jittered(EVENTS, Random(2))
    assert [each.offset_s or 0.0 for each in found] == sorted(each.offset_s or 0.0 for each in found)
    for each in found:
        (old,) = [old for old in EVENTS if old.line == each.line]
        assert (each.offset_s is None) == (old.offset_s is None)
        assert abs((each.offset_s or 0) - (old.offset_s or 0)) <= 30


def test_interleaving_keeps_the_order_within_a_stream() -> None:
    seen = set()
    for seed in range(20):
        found = interleaved(EVENTS, Random(seed))
        seen.add(tuple(each.line for each in found))
        assert found.index(EVENTS[0]) < found.index(EVENTS[1])
    assert len(seen) > 5


def test_names_are_replaced_everywhere_by_the_same_new_one_and_what_means_something_stays() -> None:
    found = renamed(EVENTS, Random(3))
    first, second, third, fourth, fifth = (each.line for each in found)
    n1, n10 = found[0].node, found[2].node
    assert n1 != "n1"
    assert n10 != "n10"
    assert n1 != n10
    assert "4711" not in first
    assert "84:00" not in first
    assert "0000:" in first
    assert first.split("):")[0] == second.split("):")[0]
    assert f"on {n1} at 12:30:45" in second
    assert "10.0.0.7" not in third
    assert f"of {n1} closed" in third
    assert "; 8.9.2.26" in third
    assert ":4711" in third, "a port is no pid"
    assert "exitcode: 1" in fourth
    assert "local_rank: 3" in fourth
    assert "999" not in fourth
    assert n10 in fifth
    assert "169.254.0.1" in fifth
    assert "01234567" not in fifth


def test_half_of_the_evidence_is_half_of_it_in_order() -> None:
    found = halved(EVENTS, Random(4))
    assert len(found) == 3
    assert [EVENTS.index(each) for each in found] == sorted(EVENTS.index(each) for each in found)
    assert halved(EVENTS[:1], Random(4)) == EVENTS[:1]


def test_noise_is_put_between_and_takes_places_of_the_incident() -> None:
    found = with_noise([("worker-stdout", "step 1"), ("kmsg", "usb")])(EVENTS, Random(1))
    assert len(found) == len(EVENTS) + NOISE_LINES
    assert [each for each in found if each in EVENTS] == EVENTS
    assert {each.rank for each in found if each.line == "step 1"} == {3}
    assert {each.rank for each in found if each.line == "usb"} == {None}
