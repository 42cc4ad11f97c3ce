"""One rank by itself: waiting, working, idle, or not seen well enough to say so."""

from __future__ import annotations

import pytest
import stack_dumps

from node_agent.domain.python_traceback import Frame
from node_agent.domain.rank_evidence import ProcessState, RankEvidence, Whereabouts
from node_agent.domain.stack_dump import parse_last_dump
from node_agent.domain.stack_groups import RankStack, classify, stack_of


def read(text: str) -> RankStack:
    stack = stack_of(parse_last_dump(text))
    assert stack is not None
    return stack


SYNCHRONIZE = classify([Frame(file="/env/site-packages/torch/cuda/__init__.py", line=1, function="synchronize")])


@pytest.mark.parametrize(
    ("stack", "cpu_share", "moved", "whereabouts"),
    [
        (read(stack_dumps.ALL_REDUCE), 0.0, False, Whereabouts.WAITING),
        (read(stack_dumps.ALL_REDUCE), None, None, Whereabouts.WAITING),
        (read(stack_dumps.DDP_BACKWARD), 0.0, False, Whereabouts.WAITING),
        (read(stack_dumps.DDP_BACKWARD), 0.9, False, Whereabouts.WORKING),
        (SYNCHRONIZE, 1.0, False, Whereabouts.WAITING),
        (SYNCHRONIZE, 1.0, True, Whereabouts.WORKING),
        (read(stack_dumps.EVALUATE), 0.19, False, Whereabouts.WORKING),
        (read(stack_dumps.EVALUATE), 0.0, True, Whereabouts.WORKING),
        (read(stack_dumps.SLEEP), 0.01, False, Whereabouts.IDLE),
        (read(stack_dumps.SLEEP), 0.01, None, Whereabouts.UNSEEN),
        (read(stack_dumps.SLEEP), None, False, Whereabouts.UNSEEN),
        (None, 0.9, None, Whereabouts.WORKING),
        (None, 0.0, None, Whereabouts.UNSEEN),
        (None, None, None, Whereabouts.UNSEEN),
    ],
)
def test_whereabouts(
    stack: RankStack | None, cpu_share: float | None, moved: bool | None, whereabouts: Whereabouts
) -> None:
    assert RankEvidence(stack=stack, cpu_share=cpu_share, moved=moved).whereabouts is whereabouts


def test_input_and_output_are_work() -> None:
    seen = RankEvidence(stack=read(stack_dumps.TORCH_SAVE), cpu_share=0.0, moved=False, io_bytes=4096)
    assert seen.whereabouts is Whereabouts.WORKING
    assert RankEvidence(io_bytes=0).is_busy is None


@pytest.mark.parametrize(("letter", "state"), [("T", ProcessState.STOPPED), ("t", ProcessState.TRACED)])
def test_letters_of_proc(letter: str, state: ProcessState) -> None:
    assert ProcessState.of(letter) is state


@pytest.mark.parametrize("letter", ["X", "I", "", "RS"])
def test_other_letters_are_unknown(letter: str) -> None:
    assert ProcessState.of(letter) is ProcessState.UNKNOWN
