"""Tracebacks as text: the right exception, and one fingerprint for one mistake."""

from __future__ import annotations

from node_agent.domain.python_traceback import Frame, fingerprint, normalise, parse_last_traceback

TEXT = """\
step 4 loss 0.1
Traceback (most recent call last):
  File "/home/a/train.py", line 8, in step
    x = load(n)
        ^^^^^^^
KeyError: 'n'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/a/train.py", line 20, in <module>
    main()
  File "<frozen runpy>", line 88, in _run_code
  File "/home/a/train.py", line 12, in main
    step(7)
  File "/venv/lib/python3.11/site-packages/torch/x.py", line 3, in forward
    raise torch.OutOfMemoryError(m)
torch.OutOfMemoryError: CUDA out of memory. Tried 20.00 MiB
GPU 0 has 3 left

[rank0] shutting down
"""


def test_last_block_of_a_chain_is_the_exception() -> None:
    parsed = parse_last_traceback(TEXT.splitlines())
    assert parsed is not None
    assert parsed.type == "OutOfMemoryError"
    assert parsed.message == "CUDA out of memory. Tried 20.00 MiB\nGPU 0 has 3 left"
    assert [f.function for f in parsed.frames] == ["<module>", "_run_code", "main", "forward"]
    assert [f.source for f in parsed.frames] == ["main()", "", "step(7)", "raise torch.OutOfMemoryError(m)"]


def test_no_or_torn_traceback_is_none() -> None:
    assert parse_last_traceback(["loss 1", "ValueError: no header"]) is None
    assert parse_last_traceback(TEXT.splitlines()[:13]) is None
    assert parse_last_traceback([]) is None


def test_bare_and_syntax_errors() -> None:
    bare = parse_last_traceback(
        ["Traceback (most recent call last):", '  File "t.py", line 1, in f', "    f()", "KeyboardInterrupt"]
    )
    assert bare is not None
    assert (bare.type, bare.message) == ("KeyboardInterrupt", "")
    syntax = parse_last_traceback(
        [
            "Traceback (most recent call last):",
            '  File "t.py", line 1',
            "    x = (",
            "        ^",
            "SyntaxError: '(' was never closed",
        ]
    )
    assert syntax is not None
    assert (syntax.type, syntax.frames[0].function) == ("SyntaxError", "<module>")


def frame(**changes: object) -> Frame:
    return Frame(**{"file": "/home/a/train.py", "line": 3, "function": "step", "source": "f(x[3])", **changes})  # type: ignore[arg-type]


def test_same_mistake_elsewhere_has_the_same_fingerprint() -> None:
    here = fingerprint("ValueError", "at 0x7f rank 0", [frame()])
    library = frame(file="/x/site-packages/torch/y.py", line=1, source="raise E")
    assert fingerprint("ValueError", "at 0x8e rank 3", [frame(file="/scratch/b/train.py", line=90)]) == here
    assert fingerprint("ValueError", "", [frame(), library]) == here


def test_other_mistakes_have_other_fingerprints() -> None:
    here = fingerprint("ValueError", "m", [frame()])
    others = [
        fingerprint("KeyError", "m", [frame()]),
        fingerprint("ValueError", "m", [frame(function="load")]),
        fingerprint("ValueError", "m", [frame(source="g(x)")]),
        fingerprint("ValueError", "m", [frame(file="/home/a/data.py")]),
        fingerprint("ValueError", "m", []),
    ]
    assert len({here, *others}) == 6


def test_normalise_takes_out_what_differs_between_runs() -> None:
    a = normalise("cannot open /data/a/b-1.bin at 0x7fabc, 17 bytes")
    assert a == normalise("cannot open /mnt/c/d-2.bin  at 0x1, 4 bytes")
    assert "data" not in a
