"""A stop of an earlier life is owed its answer only while nothing newer was obeyed."""

from node_agent.domain.fence import NOTHING_SEEN, owed, point_of
from service_kit.testing.messages import a_fence, a_stop


def test_a_stop_that_was_the_last_word_is_owed() -> None:
    stop = a_stop(1).data
    assert owed(stop, point_of(stop))
    assert owed(stop, NOTHING_SEEN)


def test_a_stop_is_not_owed_after_a_newer_start() -> None:
    stop = a_stop(1).data
    newer = stop.model_copy(update={"fence": a_fence(1, topology_version=2)})
    assert not owed(stop, point_of(newer))
