"""A strike lands inside the gate or not at all, whenever it comes."""

import random
import threading
import time

import pytest

from worker_link.strike import RestartRequested, StrikeGate, call_inside


def work(seconds: float) -> None:
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        pass


def test_a_strike_never_lands_behind_the_gate() -> None:
    """5000 blocks that end about when they are struck: each strike lands inside or is taken back."""
    gate = StrikeGate()
    rng = random.Random(7)
    going = threading.Event()
    version = 0
    stop = False

    def striker() -> None:
        while not stop:
            going.wait(1)
            going.clear()
            wanted = version
            end_s = time.perf_counter() + rng.random() * 100e-6
            while time.perf_counter() < end_s:
                pass
            gate.abort(wanted)

    thread = threading.Thread(target=striker)
    thread.start()
    landed = 0
    try:
        for version in range(1, 5001):
            going.set()
            landed += not call_inside(gate, version, lambda: work(50e-6)).returned
            for _ in range(20):  # would raise here
                pass
    finally:
        stop = True
        going.set()
        thread.join()
    assert 0 < landed < 5000, "both ways must have happened for the test to mean something"


def test_an_abort_before_the_entry_is_found_at_the_entry() -> None:
    gate = StrikeGate()
    assert gate.abort(3) is False
    with pytest.raises(RestartRequested):
        gate.enter(3)
    gate.leave()
    gate.enter(4)
    assert gate.strike(3) is False, "an order about an older version does not touch the newer one"
    gate.leave()


def test_code_that_swallows_the_first_strike_is_struck_again() -> None:
    gate = StrikeGate()
    swallowed = threading.Event()
    inside = threading.Event()

    def again() -> None:
        inside.wait(5)
        assert gate.abort(1)
        swallowed.wait(5)
        assert gate.strike(1)

    thread = threading.Thread(target=again)
    thread.start()
    strikes = 0
    try:
        gate.enter(1)
        inside.set()
        while True:
            try:
                time.sleep(0.001)
            except BaseException:
                strikes += 1
                swallowed.set()
                if strikes == 2:
                    raise
    except RestartRequested:
        pass  # the second strike, which the code above lets through
    gate.leave()
    thread.join()
    assert strikes == 2
    assert gate.strike(1) is False


def test_an_except_exception_does_not_swallow_it() -> None:
    assert not issubclass(RestartRequested, Exception)
