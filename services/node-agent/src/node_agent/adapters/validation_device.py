"""Does a device compute and remember right? A matrix product with a known result, and patterns in its memory.

Imported by validation_worker only: it needs torch, and the agent must not.

The product is of small whole numbers, so float32 (TF32 included: it keeps 10 bits of an input), float64 and the sums in
between are exact whatever the order, and the result has one right value. It is checked another way than it was made:
Freivalds' test in 64-bit integers on the CPU (C*r = A*(B*r); Freivalds 1977), with no zero in r, so that a single wrong
element always shows. Then the same product again and again, bit for bit: a fault that comes and goes needs time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

ENTRY_MAX = 7
"""Absolute value of an input; 7 * 7 * n stays below 2^24, where float32 stops to count by one, up to n = 342,000."""
CHUNK_BYTES = 64 << 20
"""Of memory compared at a time, so that the comparison does not double what is used."""
PATTERNS = (0, -1, 0x5555555555555555, -0x5555555555555556)
"""All bits clear, all set, and both alternations (memtest86's fixed patterns); each cell's own address comes last."""
_MIX = 0x9E3779B97F4A7C15 - (1 << 64)
"""2^64 / golden ratio, odd: neighbouring addresses get patterns without anything in common (Knuth, TAOCP 3, 6.4)."""

Multiply = Callable[[Any, Any], Any]
Finding = dict[str, Any]


def finding(check: str, end: str, sentence: str, **values: float) -> Finding:
    """One result, as it travels to the coordinator."""
    return {"check": check, "end": end, "sentence": sentence, "values": values}


def multiply(a: Any, b: Any) -> Any:
    """The product, by the library that training uses."""
    return torch.matmul(a, b)


def check_matmul(
    device: str, *, size: int, duration_s: float, seed: int = 1, multiply: Multiply = multiply
) -> list[Finding]:
    """Products in each precision that the device is used with; every finding is ok or corrupt."""
    kinds = [torch.float32, torch.float64]
    if device.startswith("cuda"):
        torch.backends.cuda.matmul.allow_tf32 = True
        # Else cuBLAS may round between the parts of a sum, and there would be several right results.
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        kinds.append(torch.bfloat16)
    return [_check_kind(device, kind, size, duration_s / len(kinds), seed, multiply) for kind in kinds]


def _check_kind(device: str, kind: torch.dtype, size: int, duration_s: float, seed: int, multiply: Multiply) -> Finding:
    name = f"matmul_{str(kind).removeprefix('torch.')}"
    left, right = (_whole_numbers(size, seed + offset) for offset in (0, 1))
    a, b = left.to(device=device, dtype=kind), right.to(device=device, dtype=kind)
    first = multiply(a, b)
    wrong = _wrong_row(left, right, first.cpu(), kind)
    if wrong is not None:
        return finding(name, "corrupt", f"row {wrong} of a {size}x{size} product is wrong (checked in integers)")
    began = time.monotonic()
    rounds = 1
    while time.monotonic() - began < duration_s:
        again = multiply(a, b)
        rounds += 1
        if not torch.equal(again, first):
            row = int((again != first).any(dim=1).nonzero()[0])
            return finding(name, "corrupt", f"product {rounds} of the same {size}x{size} numbers differs in row {row}")
    took_s = max(time.monotonic() - began, 1e-9)
    speed = 2.0 * size**3 * (rounds - 1) / took_s
    sentence = f"{rounds} products of {size}x{size} are right"
    return finding(name, "ok", sentence, rounds=float(rounds), flops_per_s=speed)


def _wrong_row(left: Any, right: Any, product: Any, kind: torch.dtype) -> int | None:
    """The first row that is not what integers say."""
    if kind is torch.bfloat16:
        # Its 8 bits cannot hold the sums: what is right is the exact sum, rounded once (checked against float32's).
        exact = torch.matmul(left.to(torch.float32), right.to(torch.float32)).to(kind)
        bad = (product != exact).any(dim=1)
    else:
        counter = torch.arange(product.shape[1], dtype=torch.int64)
        probe = ((counter * _MIX) >> 44).abs() + 1  # 1 to 2^19: errors in one row that cancel do not cancel here
        bad = (product.to(torch.int64) @ probe) != (left @ (right @ probe))
        bad |= (product != product.round()).any(dim=1)
    return int(bad.nonzero()[0]) if bool(bad.any()) else None


def _whole_numbers(size: int, seed: int) -> Any:
    """A square of numbers from -ENTRY_MAX to ENTRY_MAX: a mixed counter, the same on every machine and version."""
    counter = torch.arange(size * size, dtype=torch.int64) + seed * 1_000_003
    mixed = counter * _MIX
    mixed = (mixed ^ (mixed >> 29)) * _MIX
    return ((mixed >> 40) % (2 * ENTRY_MAX + 1) - ENTRY_MAX).reshape(size, size)


def check_memory(device: str, *, size_bytes: int, spoil: Callable[[Any], None] | None = None) -> Finding:
    """Write each pattern over one large block, read it back. `spoil` is for tests and drills.

    A block that cannot be had is unknown, not bad: another process may use the memory.
    """
    try:
        block = torch.empty(max(size_bytes // 8, 1), dtype=torch.int64, device=device)
    except (RuntimeError, MemoryError) as error:
        return finding("memory_pattern", "unknown", f"no {size_bytes >> 20} MB to test: {str(error).splitlines()[0]}")
    began = time.monotonic()
    for number, fill in enumerate((*PATTERNS, None)):
        for start, part in _chunks(block):
            part.copy_(_pattern(start, part, fill))
        if spoil is not None:
            spoil(block)
        for start, part in _chunks(block):
            wanted = _pattern(start, part, fill)
            if torch.equal(part, wanted):
                continue
            wrong = (part != wanted).nonzero()
            offset = (start + int(wrong[0])) * 8
            sentence = f"pattern {number}: {len(wrong)} cells of 8 bytes changed, the first at offset {offset}"
            return finding("memory_pattern", "corrupt", sentence, offset_bytes=float(offset), cells=float(len(wrong)))
    took_s = max(time.monotonic() - began, 1e-9)
    sentence = f"{len(PATTERNS) + 1} patterns over {size_bytes >> 20} MB came back as written"
    return finding("memory_pattern", "ok", sentence, bytes_tested=float(block.numel() * 8), took_s=took_s)


def _chunks(block: Any) -> Iterator[tuple[int, Any]]:
    cells = CHUNK_BYTES // 8
    for start in range(0, block.numel(), cells):
        yield start, block[start : start + cells]


def _pattern(start: int, part: Any, fill: int | None) -> Any:
    if fill is not None:
        return torch.full_like(part, fill)
    return (torch.arange(part.numel(), dtype=torch.int64, device=part.device) + start) * _MIX


def memory_wanted(device: str, *, asked_bytes: int) -> int:
    """What is asked for, else a quarter of what is free: a validation may run beside something small."""
    if asked_bytes > 0:
        return asked_bytes
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(device)[0]) // 4
    return 256 << 20
