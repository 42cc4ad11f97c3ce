"""The names that frameworks give their checkpoints are read; what is still being written is not taken for one."""

import pytest

from node_agent.domain.checkpoint_pattern import DEFAULT_PATTERN, BadPattern, parse_pattern


def read(path: str, pattern: str = "") -> tuple[int, int | None] | None:
    match = (parse_pattern(pattern) if pattern else DEFAULT_PATTERN).match(path)
    return None if match is None else (match.step, match.rank)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-500", 500),
        ("iter_0000100", 100),
        ("step_100.pt", 100),
        ("epoch=3-step=1200.ckpt", 1_200),
        ("model-v1.2-step100.pt", 100),
        ("ckpt_100.h5", 100),
        ("global_step2000", 2_000),
        ("500", 500),
        ("latest", None),
        ("step_100.pt.tmp", None),
        ("step_100.tmp", None),
        ("tmp-checkpoint-100", None),
        (".step_100.pt", None),
        ("step_100.pt~", None),
        ("step_100.tmp.1234", None),
        ("step_100.pt.sha256", None),
        ("step_99999999999999999999.pt", None),
    ],
)
def test_default_names(name: str, step: int | None) -> None:
    found = read(name)
    assert (None if found is None else found[0]) == step


def test_each_rank_writes_its_own() -> None:
    pattern = "step_{step}/rank_{rank}.pt"
    assert read("step_20/rank_003.pt", pattern) == (20, 3)
    assert read("step_20.tmp/rank_3.pt", pattern) is None
    match = parse_pattern(pattern).match("step_20/rank_003.pt")
    assert match is not None
    assert match.rank_span == (13, 16)


@pytest.mark.parametrize(
    "text",
    ["", "ckpt", "{step}/{step}", "{step}{rank}{rank}", "/abs/{step}", "../{step}", "a/b/c/d/{step}", "*a*b*{step}"],
)
def test_a_pattern_that_cannot_be_used_is_refused(text: str) -> None:
    with pytest.raises(BadPattern):
        parse_pattern(text)
