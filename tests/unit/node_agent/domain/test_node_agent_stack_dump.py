"""faulthandler's text, as real processes wrote it: whole, several in a row, torn, and cut."""

from __future__ import annotations

import pytest
import stack_dumps

from node_agent.domain.stack_dump import parse_dumps, parse_last_dump


def test_the_main_thread_is_found_among_others() -> None:
    dump = parse_last_dump(stack_dumps.ALL_REDUCE_WITH_THREAD)
    assert dump is not None
    assert dump.unread_lines == 0
    assert [thread.current for thread in dump.threads] == [False, True]
    assert dump.main is dump.threads[1]
    assert [frame.function for frame in dump.main.frames] == [
        "all_reduce",
        "wrapper",
        "train_allreduce",
        "train_thread",
        "<module>",
    ]
    assert dump.main.frames[0].line == 3252


def test_a_worker_of_the_nursery_has_a_main_thread() -> None:
    dump = parse_last_dump(stack_dumps.FROM_NURSERY)
    assert dump is not None
    assert dump.main is not None
    assert dump.main.frames[0].function == "evaluate"


@pytest.mark.parametrize(
    ("text", "innermost"), [(stack_dumps.PYTHON_312, "_wait_for_tstate_lock"), (stack_dumps.PYTHON_313, "wait")]
)
def test_four_dumps_in_one_file(text: str, innermost: str) -> None:
    dumps = parse_dumps(text)
    assert [dump.unread_lines for dump in dumps] == [0, 0, 0, 0]
    plain, deep, collecting, joining = (dump.main for dump in dumps)
    assert plain is not None
    assert plain.frames[0].function == "evaluate"
    assert deep is not None
    assert (deep.frames[0].function, deep.cut, len(deep.frames)) == ("evaluate", True, 100)
    assert collecting is not None
    assert collecting.frames[0].function == "__del__"
    # Another thread caught the signal: current does not mean main.
    assert joining is not None
    assert (joining.frames[0].function, joining.current) == (innermost, False)
    assert parse_last_dump(text) == dumps[3]


def test_a_dump_appended_to_another_one_begins_with_its_own_threads() -> None:
    text = stack_dumps.ALL_REDUCE + stack_dumps.ALL_REDUCE_WITH_THREAD
    assert [len(dump.threads) for dump in parse_dumps(text)] == [1, 2]


@pytest.mark.parametrize("length", range(0, len(stack_dumps.ALL_REDUCE_WITH_THREAD), 37))
def test_a_torn_dump_never_shows_another_thread_as_main(length: int) -> None:
    dump = parse_last_dump(stack_dumps.ALL_REDUCE_WITH_THREAD[:length])
    if dump is not None:
        assert dump.main is None


def test_threads_beyond_faulthandlers_limit_hide_the_main_one() -> None:
    thread = stack_dumps.ALL_REDUCE_WITH_THREAD.partition("Current")[0]
    many = "".join(thread.replace("0x00007f8d", f"0x{index:08x}") for index in range(100)) + "...\n"
    dump = parse_last_dump(many)
    assert dump is not None
    assert (len(dump.threads), dump.main, dump.unread_lines) == (100, None, 0)


def test_names_of_threads_as_of_python_3_14() -> None:
    text = stack_dumps.ALL_REDUCE.replace("80 (most", "80 [python] (most")
    assert "[python]" in text
    dump = parse_last_dump(text)
    assert dump is not None
    assert dump.main is not None


def test_what_is_no_dump() -> None:
    assert parse_dumps("") == ()
    assert parse_last_dump("step 3 loss 0.5\nstep 4 loss 0.4\n") is None


def test_foreign_lines_are_counted_and_unknown_places_are_read() -> None:
    text = stack_dumps.SLEEP.replace("  File", "oops\n  File ???, line ??? in gone\n  File", 1)
    dump = parse_last_dump(text)
    assert dump is not None
    assert dump.unread_lines == 1
    assert dump.main is not None
    assert (dump.main.frames[0].file, dump.main.frames[0].line) == ("???", 0)
