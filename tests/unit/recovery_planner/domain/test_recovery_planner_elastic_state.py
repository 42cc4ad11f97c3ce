"""What a gang remembers of its sizes."""

from recovery_planner.domain.elastic_state import SIZES_MAX, ElasticState, nnodes_at, with_size


def test_the_size_of_a_generation_is_the_last_one_before_it() -> None:
    state = with_size(with_size(ElasticState(), 3, 2, before=4), 7, 4, before=2)
    assert [nnodes_at(state, version, first=4) for version in (1, 2, 3, 6, 7, 9)] == [4, 4, 2, 2, 4, 4]


def test_the_same_size_is_no_change() -> None:
    state = ElasticState()
    assert with_size(state, 3, 4, before=4) is state


def test_what_is_too_long_ago_is_unknown() -> None:
    state = ElasticState()
    for version in range(1, SIZES_MAX + 5):
        state = with_size(state, version, version % 2 + 1, before=version % 2 + 2)
    assert len(state.sizes) == SIZES_MAX
    assert nnodes_at(state, 1, first=4) is None
