"""The classic bad moments, each as a text file: run, all promises kept, and the end as told."""

from pathlib import Path

import pytest
import sim_run
import sim_story

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    result = sim_run.run(sim_story.read(path.read_text()))
    assert not result.violations, "\n".join(map(str, result.violations))


def test_a_story_that_expects_something_else_fails() -> None:
    text = "job a: nodes 1\nat 5s kill rank 0 of a with signal 9\nexpect a restarts 7\n"
    (broken,) = sim_run.run(sim_story.read(text)).violations
    assert broken.text == "expected a restarts 7, found 1"
