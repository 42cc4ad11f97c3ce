"""What stands behind an allocation on a GPU that failed."""

from __future__ import annotations

import pytest

from fault_attribution.derive.user_gpu_memory import gpu_memory, size_bytes
from fault_attribution.engine import Engine
from fault_attribution.evidence_line import EvidenceLine, Source
from fault_attribution.loading.rule_files import load_rules

_NEW = "CUDA out of memory. Tried to allocate {tried}. GPU 3 has a total capacity of 80.00 GiB of which {free} is free."
_OLD = (
    "CUDA out of memory. Tried to allocate {tried} (GPU 0; 16.00 GiB total capacity; {own} already allocated; "
    "{free} free; {own} reserved in total by PyTorch)"
)


_ENGINE = Engine(load_rules())


def _kinds(text: str) -> set[str]:
    line = EvidenceLine(text=text, source=Source.WORKER_STDERR, node="n1", rank=0, stream="a", number=1)
    return {each.kind for each in gpu_memory(_ENGINE.diagnose([line]).findings)}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (_OLD.format(tried="2.00 GiB", own="15.00 GiB", free="500.00 MiB"), "oom_by_itself"),
        (_OLD.format(tried="2.00 GiB", own="1.00 GiB", free="500.00 MiB"), "oom_held_by_others"),
        (_OLD.format(tried="20.00 MiB", own="1.00 GiB", free="14.00 GiB"), "oom_with_free_memory"),
        (_OLD.format(tried="200.00 GiB", own="1.00 GiB", free="14.00 GiB"), "oom_request_too_large"),
        (
            _NEW.format(tried="2.00 GiB", free="1.00 GiB")
            + " Process 7 has 70.00 GiB memory in use. Including non-PyTorch memory, this process has 8.00 GiB memory"
            " in use.",
            "oom_held_by_others",
        ),
        (
            _NEW.format(tried="2.00 GiB", free="1.00 GiB")
            + " Including non-PyTorch memory, this process has 78.00 GiB memory in use.",
            "oom_by_itself",
        ),
    ],
)
def test_who_holds_the_memory(text: str, kind: str) -> None:
    assert _kinds(text) == {kind}


def test_without_its_own_use_nothing_is_concluded() -> None:
    assert _kinds(_NEW.format(tried="2.00 GiB", free="1.00 GiB")) == set()
    assert _kinds("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 0 bytes") == set()


def test_a_reading_of_a_full_device() -> None:
    assert _kinds("memory.used=80000 MiB memory.total=81559 MiB") == {"gpu_memory_full"}
    assert _kinds("memory.used=800 MiB memory.total=81559 MiB") == set()


def test_sizes() -> None:
    assert size_bytes("1.50 GiB") == 1.5 * (1 << 30)
    assert size_bytes("512 bytes") == 512
    assert size_bytes("a lot") is None
    assert size_bytes("1.2.3 GiB") is None
