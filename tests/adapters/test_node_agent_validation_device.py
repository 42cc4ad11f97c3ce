"""The tests of a device catch a wrong product and a changed cell, on a real device: the CPU."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (make setup TORCH=none)")

from node_agent.adapters.validation_device import check_matmul, check_memory  # noqa: E402 - after importorskip


def ends(findings: list[dict[str, Any]]) -> set[str]:
    return {found["end"] for found in findings}


def test_a_device_that_computes_right_passes() -> None:
    findings = check_matmul("cpu", size=96, duration_s=0.05)
    assert [found["check"] for found in findings] == ["matmul_float32", "matmul_float64"]
    assert ends(findings) == {"ok"}


@pytest.mark.parametrize(("row", "column"), [(0, 0), (95, 95), (17, 60)])
def test_one_wrong_element_shows_and_its_row_is_named(row: int, column: int) -> None:
    def wrong(a: Any, b: Any) -> Any:
        product = a @ b
        product[row, column] += 1
        return product

    findings = check_matmul("cpu", size=96, duration_s=0.0, multiply=wrong)
    assert ends(findings) == {"corrupt"}
    assert all(f"row {row} " in found["sentence"] for found in findings)


def test_two_errors_that_cancel_in_a_plain_sum_show_as_well() -> None:
    def wrong(a: Any, b: Any) -> Any:
        product = a @ b
        product[5, 1] += 1
        product[5, 2] -= 1
        return product

    assert ends(check_matmul("cpu", size=64, duration_s=0.0, multiply=wrong)) == {"corrupt"}


def test_a_fault_that_comes_later_shows() -> None:
    made = 0

    def sometimes(a: Any, b: Any) -> Any:
        nonlocal made
        made += 1
        product = a @ b
        if made == 3:
            product[1, 1] += 1
        return product

    assert "corrupt" in ends(check_matmul("cpu", size=32, duration_s=30.0, multiply=sometimes)[:1])


def test_memory_that_keeps_what_it_is_given_passes() -> None:
    found = check_memory("cpu", size_bytes=1 << 20)
    assert found["end"] == "ok"
    assert found["values"]["bytes_tested"] == 1 << 20


@pytest.mark.parametrize("bit", [0, 31, 62])
def test_one_flipped_bit_shows_with_its_offset(bit: int) -> None:
    def spoil(block: Any) -> None:
        block[1_000] ^= 1 << bit

    found = check_memory("cpu", size_bytes=1 << 20, spoil=spoil)
    assert found["end"] == "corrupt"
    assert found["values"] == {"offset_bytes": 8_000.0, "cells": 1.0}


def test_memory_that_cannot_be_had_is_unknown() -> None:
    assert check_memory("cpu", size_bytes=1 << 60)["end"] == "unknown"
