"""Who has to confirm, when generations had different sizes."""

import pytest

from recovery_planner.domain.rank_set import RankSet
from recovery_planner.domain.required_ranks import SIZES_MAX, least_writers, note_writer, required_of


def test_writers_are_known_by_size_and_bounded() -> None:
    by_world: dict[int, RankSet] = {}
    for size in range(1, SIZES_MAX + 10):
        by_world = note_writer(by_world, size, 0)
    assert len(by_world) == SIZES_MAX
    assert note_writer({}, None, 3) == {}


def test_with_one_size_it_is_whoever_ever_confirmed() -> None:
    assert required_of({4: ((0, 3),)}, ((0, 5),), 4) == ((0, 5),)
    assert required_of({4: ((0, 3),), 2: ((0, 0),)}, ((0, 3),), 2) == ((0, 0),)
    assert required_of({4: ((0, 3),), 2: ((0, 0),)}, ((0, 3),), None) == ((0, 3),)


@pytest.mark.parametrize(
    ("by_world", "world_size", "expected"),
    [
        ({4: ((0, 3),)}, 2, (2, True)),
        ({4: ((0, 0),)}, 2, (1, False)),
        ({8: ((0, 0), (4, 4))}, 4, (2, False)),
        ({8: ((0, 3),)}, 2, (2, False)),
        ({1: ((0, 0),)}, 2, (0, False)),
        ({4: ((0, 3),)}, 4, (0, False)),
        ({4: ((0, 3),)}, None, (0, False)),
    ],
)
def test_what_other_sizes_say(by_world: dict[int, RankSet], world_size: int | None, expected: tuple[int, bool]) -> None:
    assert least_writers(by_world, world_size) == expected
