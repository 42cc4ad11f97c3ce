"""Whom a gang waits for, and ids that do not change over retries."""

from planner_story import Story

from recovery_planner.domain.gang import operation_id


def test_nobody_is_awaited_while_it_runs() -> None:
    assert Story().run("a", "b").gang.awaited == ()


def test_who_has_not_stopped_is_awaited_unless_it_is_gone() -> None:
    story = Story(nnodes=3).run("a", "b", "c")
    story.die("a", 0)
    assert story.gang.awaited == ("a", "b", "c")
    story.stop("a")
    story.lose("b")
    assert story.gang.awaited == ("c",)


def test_who_has_not_started_is_awaited() -> None:
    story = Story()
    story.report("a")
    story.report("b")
    story.start("b")
    assert story.gang.awaited == ("a",)


def test_operation_ids_differ_in_every_part() -> None:
    base = ("job", "incident", 1, "stop_workers", 1)
    ids = {operation_id(*base)}
    for other in (
        ("job2", "incident", 1, "stop_workers", 1),
        ("job", "incident2", 1, "stop_workers", 1),
        ("job", "incident", 2, "stop_workers", 1),
        ("job", "incident", 1, "start_workers", 1),
        ("job", "incident", 1, "stop_workers", 2),
    ):
        ids.add(operation_id(*other))
    assert len(ids) == 6
    assert operation_id(*base) == operation_id(*base)
