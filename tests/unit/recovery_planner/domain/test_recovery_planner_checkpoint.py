"""The checkpoint that wins is the largest that every required rank confirmed, and that nobody may be overwriting."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from fault_contracts.agent import CheckpointReported
from recovery_planner.domain.checkpoint import STARTS_MAX, choose, note_start
from recovery_planner.domain.checkpoint_history import KINDS_MAX, STEPS_MAX, CheckpointHistory, record
from recovery_planner.domain.gang import GenerationStart


def confirm(
    history: CheckpointHistory,
    step: int,
    *ranks: int,
    version: int = 1,
    kind: str = "model",
    writers: int | None = None,
    path: str = "/ckpt/{step}",
) -> CheckpointHistory:
    for rank in ranks:
        report = CheckpointReported(
            node_id="n",
            job_id="j",
            topology_version=version,
            rank=rank,
            step=step,
            path=path.format(step=step, rank=rank),
            kind=kind,
            writers=writers,
            saved_at=datetime(2030, 1, 1, tzinfo=UTC),
        )
        history = record(history, report)
    return history


EMPTY = CheckpointHistory()
FRESH = (GenerationStart(topology_version=1, step=-1),)


def test_nothing_confirmed_is_a_start_from_scratch() -> None:
    assert choose(EMPTY, FRESH).step is None


def test_rank_that_died_while_writing_does_not_win() -> None:
    history = confirm(EMPTY, 10, 0, 1, 2, 3)
    history = confirm(history, 20, 0, 1, 3)
    chosen = choose(history, FRESH)
    assert chosen.step == 10
    assert "step 20 was begun but not confirmed by all" in chosen.sentence


def test_one_writing_rank_is_enough_when_only_one_ever_writes() -> None:
    assert choose(confirm(confirm(EMPTY, 10, 0), 20, 0), FRESH).step == 20


def test_writers_are_told_when_the_first_checkpoint_is_broken_off() -> None:
    history = confirm(EMPTY, 10, 0, 1, 2, writers=4)
    assert choose(history, FRESH).step is None
    assert choose(confirm(history, 10, 3, writers=4), FRESH).step == 10


def test_path_of_the_lowest_rank() -> None:
    history = confirm(EMPTY, 10, 3, 0, 1, path="/ckpt/{step}/rank{rank}")
    assert choose(history, FRESH).path == "/ckpt/10/rank0"


def test_a_free_kind_is_an_alternative_and_the_model_wins_a_tie() -> None:
    history = confirm(confirm(EMPTY, 10, 0, kind="model", path="/m"), 10, 0, kind="memory", path="/x")
    assert choose(history, FRESH).path == "/m"
    assert choose(confirm(history, 11, 0, kind="memory", path="/x"), FRESH).step == 11


def test_step_that_a_later_generation_may_write_again_is_not_trusted() -> None:
    history = confirm(confirm(EMPTY, 10, 0, 1), 20, 0)
    starts = note_start(FRESH, GenerationStart(topology_version=2, step=10))
    late = confirm(history, 20, 1)
    assert choose(late, starts).step == 10, "the confirmation came after version 2 began behind it"
    half = confirm(late, 20, 0, version=2)
    assert choose(half, starts).step == 10, "halves of two generations are not one checkpoint"
    assert choose(confirm(half, 20, 1, version=2), starts).step == 20


def test_a_start_from_scratch_forgets_everything_before() -> None:
    history = confirm(EMPTY, 10, 0)
    assert choose(history, note_start(FRESH, GenerationStart(topology_version=2, step=-1))).step is None


def test_history_is_bounded_and_keeps_the_newest() -> None:
    history = EMPTY
    for step in range(100):
        history = confirm(history, step, 0)
    kept = history.kinds["model"].confirmations
    assert (len(kept), kept[0].step, kept[-1].step) == (STEPS_MAX, 100 - STEPS_MAX, 99)
    for number in range(KINDS_MAX + 5):
        history = confirm(history, 1, 0, kind=f"kind-{number}")
    assert len(history.kinds) == KINDS_MAX


def test_a_repeat_changes_nothing() -> None:
    history = confirm(EMPTY, 10, 0, 1)
    assert confirm(history, 10, 1) is history


@given(st.lists(st.integers(min_value=-1, max_value=50), min_size=1, max_size=80), st.integers(0, 50), st.data())
def test_bounded_starts_forbid_at_least_what_all_of_them_forbid(
    steps: list[int], step: int, data: st.DataObject
) -> None:
    version = data.draw(st.integers(min_value=1, max_value=len(steps)))
    every = [GenerationStart(topology_version=n, step=s) for n, s in enumerate(steps, start=1)]
    kept: tuple[GenerationStart, ...] = ()
    for start in every:
        kept = note_start(kept, start)
    assert len(kept) <= STARTS_MAX
    chosen = choose(confirm(EMPTY, step, 0, version=version), kept)
    if any(s.topology_version > version and s.step < step for s in every):
        assert chosen.step is None
    elif len(every) <= STARTS_MAX:
        assert chosen.step == step, "a short history must be exact"
