"""What each part of a recovery costs: measured where this project can measure it, else a published floor.

Nothing here was measured on GPUs by us. A floor is what a system is known to have reached at that size; nobody's
restart is simulated as cheaper.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path

_GPUS = (2_048, 4_096, 8_192, 16_384)
_HOT_UPDATE_S = (46.0, 51.0, 54.0, 65.0)
_REQUEUE_S = (454.0, 545.0, 635.0, 768.0)
"""ByteRobust (2509.16293), table 7, by GPUs: processes anew on the same machines; the job given back and scheduled."""
_STANDBY_SPEEDUP = 10.87
"""Its warm standby machines against requeue."""
FILE_BYTES_MAX = 4 << 20
SILENT_S = 4_289.0
"""Until wrong numbers are noticed and dealt with, whoever runs the job: mean of ByteRobust's table 6 for NaN."""


class MeasurementRefused(Exception):
    """A file of measurements cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Seconds of `make bench-recovery` over its floor: four gloo ranks on two CPU cores, no GPU."""

    phalanx_over_floor_s: float = 0.112
    torchrun_over_floor_s: float = 6.953
    source: str = "docs/benchmarks.md, 5 rounds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Costs at the size of the job, in seconds.

    Attributes:
        processes_s: all processes of the job anew where they are, NCCL and the checkpoint's load included.
        standby_s: the same with a machine that stood by, warm, in the place of another.
        requeue_s: the job scheduled anew.
        sticky_s: a job that was restarted on a broken machine runs so long before it fails again.
        reset_s, reboot_s: a GPU reset; a reboot until the agent is back.
        gate_round_s: one round of the validation before return.
        gate_power: share of defective machines that one round finds.
        checkpoint_s, checkpoint_block_s: training between two checkpoints, and how long one holds it up.
    """

    processes_s: float
    standby_s: float
    requeue_s: float
    measured: Measured = Measured()
    sticky_s: float = 60.0
    reset_s: float = 120.0
    reboot_s: float = 900.0
    gate_round_s: float = 1_200.0
    gate_power: float = 0.70
    checkpoint_s: float = 30.0
    checkpoint_block_s: float = 0.04

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            ValueError: which value.
        """
        if not 0 <= self.gate_power <= 1:
            raise ValueError(f"gate_power is {self.gate_power:g}; it must be 0 to 1")
        if self.checkpoint_s <= 0:
            raise ValueError(f"checkpoint_s is {self.checkpoint_s:g}; it must be above zero")
        if self.checkpoint_block_s < 0:
            raise ValueError(f"checkpoint_block_s is {self.checkpoint_block_s:g}; it must be 0 or more")


def floors(gpus: int) -> tuple[float, float, float]:
    """Processes, standby and requeue for a job of so many GPUs; between and beyond the published sizes by log2."""
    requeue_s = _between(gpus, _REQUEUE_S)
    return _between(gpus, _HOT_UPDATE_S), requeue_s / _STANDBY_SPEEDUP, requeue_s


def _between(gpus: int, values: tuple[float, ...]) -> float:
    place = min(max(bisect_left(_GPUS, gpus), 1), len(_GPUS) - 1)
    low, high = math.log2(_GPUS[place - 1]), math.log2(_GPUS[place])
    part = (math.log2(max(gpus, 1)) - low) / (high - low)
    value = values[place - 1] + part * (values[place] - values[place - 1])
    # Below the smallest published size the line would go on down to nothing; that is no floor.
    return max(value, values[0]) if gpus < _GPUS[0] else value


def read_measured(path: Path) -> Measured:
    """The medians of a recovery.json of `make bench-recovery`, rank killed until the first step of all.

    Raises:
        MeasurementRefused: cannot be read, or the cells are not there.
    """
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise MeasurementRefused(f"{path}: is larger than {FILE_BYTES_MAX} bytes")
        figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
        seconds = {
            who: float(figures[f"{who} kill"]["first step"]["median_s"]) for who in ("phalanx", "torchrun", "floor")
        }
    except OSError as error:
        raise MeasurementRefused(f"{path}: cannot be read: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        text = "needs the cells torchrun, phalanx and floor of the fault kill"
        raise MeasurementRefused(f"{path}: {text} ({type(error).__name__}: {error})") from error
    return Measured(
        phalanx_over_floor_s=max(0.0, seconds["phalanx"] - seconds["floor"]),
        torchrun_over_floor_s=max(0.0, seconds["torchrun"] - seconds["floor"]),
        source=path.name,
    )
