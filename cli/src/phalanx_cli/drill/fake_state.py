"""The control file of the fake library: what its GPUs answer. Read by fake_nvml.c before every call.

One line a key, `<gpu index>.<key> <value>` or `sys.<key> <value>`; without a line the GPU is healthy.

For the system: count (GPUs, 8), node (a number that makes the identities of this machine its own), driver_version,
nvml_version, nvlink_generation (5 gives the counters of NVLink 5), init_err (nvmlReturn of nvmlInit),
err.<symbol> (nvmlReturn of one function), slow_ms.<symbol>.

For a GPU: lost, reset_required, slow_ms (every call), slow_ms.<symbol>, err.<symbol>, uuid, serial, name, pci_bus,
board_part_number; ecc_mode, ecc_{volatile,aggregate}_{corrected,uncorrected}, sram_threshold, sram_uncorrected,
remap_{corrected,uncorrected,pending,failure}, banks_{max,partial,low,none}, retired_pages, retired_pages_pending;
temperature, memory_temperature, margin, shutdown, slowdown, memory_max, gpu_max, clock_reasons, power_mw,
power_limit_mw, utilization, sm_clock; pcie_{gen,gen_max,width,width_max,replay}; nvlinks (number),
nvlink<N>_{down,replay,recovery,crc,crc_data,ecc} and with NVLink 5 nvlink<N>_{malformed,integrity,recovery_failed,...};
fabric_{state,status,mask,summary}; mig, mig_pending, mig_instances; pids (1,2,3); recovery_action (field 230);
field.<id>, field_ret.<id>; event_seq, event_type, event_data (an event comes for every growth of event_seq).
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

Values = dict[str, str]
KEY_PATTERN = re.compile(r"(?:sys|\d{1,2})\.[A-Za-z0-9_.]{1,56}", re.ASCII)
VALUE_MAX = 95
"""Characters; the buffers of fake_nvml.c."""
ENTRIES_MAX = 2_048
"""As in fake_nvml.c, which ignores what comes later."""


class ControlFile:
    """Reads and changes a control file. A change is whole or not there; two writers do not lose each other's."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Values:
        """Everything that it says; empty when there is no file."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        pairs = (line.split(maxsplit=1) for line in lines)
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}

    def set(self, values: Mapping[str, object]) -> Values:
        """Add or replace keys; the new content.

        Raises:
            ValueError: a key or a value that the library could not read.
        """
        return self.change(lambda current: current | {key: str(value) for key, value in values.items()})

    def clear(self) -> None:
        """Every GPU is healthy again."""
        self.change(lambda _: {})

    def change(self, changed: Callable[[Values], Values]) -> Values:
        """Replace the content by a function of it.

        Raises:
            ValueError: as set().
        """
        with self._alone():
            values = changed(self.read())
            _check(values)
            fresh = self.path.with_name(self.path.name + ".new")
            fresh.write_text("".join(f"{key} {value}\n" for key, value in values.items()), encoding="utf-8")
            os.replace(fresh, self.path)
        return values

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_name(self.path.name + ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _check(values: Values) -> None:
    for key, value in values.items():
        if not KEY_PATTERN.fullmatch(key):
            raise ValueError(f"{key!r} is no key of the control file: <gpu index>.<key> or sys.<key>")
        if not value.strip() or len(value) > VALUE_MAX or not value.isprintable():
            raise ValueError(f"{key}: {value!r} is no value: 1 to {VALUE_MAX} printable characters")
    if len(values) > ENTRIES_MAX:
        raise ValueError(f"{len(values)} keys; the fake library reads {ENTRIES_MAX}")
