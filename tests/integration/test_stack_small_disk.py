"""A stack with its own servers starts on a small disk: what nats-server reserves must fit."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_contracts.registry import STREAMS, Bucket
from phalanx_cli.stack.services import EMBEDDED_STREAM_BYTES_MAX, SERVICES
from phalanx_cli.stack.stack import Stack
from service_kit.jetstream.streams import bucket_config, stream_config
from service_kit.settings import BusSettings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

FREE_BYTES = 1_280 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with 1.25 GiB free; memory is used only for what is written."""
    path = tmp_path / "small"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={FREE_BYTES}", "none", str(path)]
    mounted = subprocess.run(command, check=False, capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small disk here: {mounted.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def test_the_sum_of_reservations_fits_three_quarters_of_it() -> None:
    settings = BusSettings(stream_bytes_max=EMBEDDED_STREAM_BYTES_MAX)
    reserved = sum(stream_config(spec, settings)["max_bytes"] for spec in STREAMS)
    reserved += sum(bucket_config(bucket, settings)["max_bytes"] for bucket in Bucket)
    assert reserved <= FREE_BYTES * 3 // 4


@pytest.mark.asyncio
async def test_a_stack_starts_on_it(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PHALANX_STREAM_BYTES_MAX", raising=False)
    async with Stack(small_disk / "stack", "small", services=SERVICES[:1], redis_url=None) as stack:
        names = [record.name for record in stack.processes]
        assert "health-ingest" in names, "it creates every stream and bucket before it is ready"
