"""Own work is a step without its waits, and nothing is told where nothing is known."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from worker_link import own_work
from worker_link.own_work import OwnWork, watch_gradients


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stands still until it is set."""
    clock = SimpleNamespace(at_s=100.0)
    clock.monotonic = lambda: clock.at_s
    monkeypatch.setattr(own_work, "time", clock)
    return clock


def spend(clock: SimpleNamespace, duration_s: float) -> None:
    clock.at_s += duration_s


def test_waits_are_taken_off(clock: SimpleNamespace) -> None:
    work = OwnWork()
    assert work.finish(100.0) is None
    spend(clock, 0.25)
    with work.waiting():
        spend(clock, 4.0)
    spend(clock, 0.5)
    with work.waiting():
        spend(clock, 4.0)
    assert work.finish(clock.at_s) == 0.75


def test_a_wait_that_fails_was_a_wait(clock: SimpleNamespace) -> None:
    work = OwnWork()
    work.finish(100.0)
    with contextlib.suppress(OSError), work.waiting():
        spend(clock, 8.0)
        raise OSError("peer lost")
    assert work.finish(clock.at_s) == 0.0


def test_what_comes_after_done_is_not_counted_and_waits_before_it_neither(clock: SimpleNamespace) -> None:
    work = OwnWork()
    work.finish(100.0)
    spend(clock, 0.25)
    with work.waiting():
        spend(clock, 2.0)
    work.done()
    spend(clock, 0.25)
    work.done()
    spend(clock, 16.0)
    assert work.finish(clock.at_s) == 0.5


def test_the_mark_of_one_step_is_none_of_the_next(clock: SimpleNamespace) -> None:
    work = OwnWork()
    work.finish(100.0)
    work.done()
    assert work.finish(101.0) == 0.0
    assert work.finish(102.0) is None


def test_a_declared_begin_leaves_out_what_was_before_it(clock: SimpleNamespace) -> None:
    work = OwnWork()
    work.finish(100.0)
    spend(clock, 60.0)  # an evaluation
    work.begin(clock.at_s)
    spend(clock, 0.5)
    work.done()
    assert work.finish(clock.at_s) == 0.5


def test_a_new_generation_has_no_step_before_its_first(clock: SimpleNamespace) -> None:
    work = OwnWork()
    work.finish(100.0)
    work.reset()
    work.done()
    assert work.finish(200.0) is None


@dataclass
class Parameter:
    requires_grad: bool = True
    device: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(type="cpu"))
    hooks: list[Callable[[object], None]] = field(default_factory=list)

    def register_hook(self, hook: Callable[[object], None]) -> None:
        self.hooks.append(hook)


def model(*parameters: Parameter) -> SimpleNamespace:
    return SimpleNamespace(parameters=lambda: iter(parameters), modules=lambda: iter(()))


def test_gradients_of_the_first_parameters_end_the_own_work(clock: SimpleNamespace) -> None:
    work, parameters = OwnWork(), [Parameter(requires_grad=False), *(Parameter() for _ in range(9))]
    assert watch_gradients(work, model(*parameters))
    assert [len(parameter.hooks) for parameter in parameters] == [0, 1, 1, 1, 1, 0, 0, 0, 0, 0]
    work.finish(100.0)
    spend(clock, 0.25)
    assert parameters[4].hooks[0]("gradient") is None
    spend(clock, 0.25)
    assert parameters[1].hooks[0]("gradient") is None
    spend(clock, 5.0)
    assert work.finish(clock.at_s) == 0.5


def test_gradients_of_a_gpu_are_not_watched() -> None:
    on_gpu = Parameter(device=SimpleNamespace(type="cuda"))
    with pytest.warns(UserWarning, match="busy_s"):
        assert not watch_gradients(OwnWork(), model(Parameter(), on_gpu))
    assert on_gpu.hooks == []


def test_a_model_without_gradients_is_not_watched() -> None:
    with pytest.warns(UserWarning, match="no parameter"):
        assert not watch_gradients(OwnWork(), model(Parameter(requires_grad=False)))
