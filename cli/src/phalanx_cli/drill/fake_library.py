"""Builds our own libnvidia-ml.so.1 (fake_nvml.c), on demand, for tests and drills on machines without a GPU.

`python -m phalanx_cli.drill.fake_library FOLDER` builds it there and prints its path.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

LIBRARY_NAME = "libnvidia-ml.so.1"
"""What nvidia-ml-py loads; it is the SONAME as well, because the loader recognises a loaded library by that."""
STATE_VARIABLE = "PHALANX_FAKE_NVML_STATE"
"""Names the control file to the library. Read before every call, so one process can change what another sees."""
COMPILERS = ("cc", "gcc", "clang")
_BUILD_LIMIT_S = 120.0
"""It takes half a second; a machine that swaps may need longer."""
_FLAGS = ("-std=gnu11", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{LIBRARY_NAME}", "-pthread")


class NoCompiler(Exception):
    """This machine has no C compiler; the text says what to install."""


class BuildFailed(Exception):
    """The compiler refused the source; the text is what it said."""


def build(folder: Path, *, old_driver: bool = False) -> Path:
    """The library's path below `folder`; built there when this source has not been built yet.

    Args:
        folder: cache; several processes may build into it at the same time.
        old_driver: leave out the functions that came with later drivers, so that looking them up fails.

    Raises:
        NoCompiler: nothing to build with.
        BuildFailed: the compiler's own words.
    """
    source = resources.files("phalanx_cli.drill").joinpath("fake_nvml.c").read_bytes()
    flags = [*_FLAGS, *(["-DPHALANX_OLD_DRIVER"] if old_driver else [])]
    digest = hashlib.sha256(source + "\0".join(flags).encode()).hexdigest()[:16]
    library = folder / f"fake-nvml-{digest}" / LIBRARY_NAME
    if library.exists():
        return library
    compiler = find_compiler()
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as workplace:
        source_file, built = Path(workplace) / "fake_nvml.c", Path(workplace) / LIBRARY_NAME
        source_file.write_bytes(source)
        command = [compiler, *flags, "-o", str(built), str(source_file)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_LIMIT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise BuildFailed(f"{compiler} did not finish in {_BUILD_LIMIT_S:.0f} s") from error
        if done.returncode != 0:
            raise BuildFailed(f"{' '.join(command)}\n{done.stderr.strip()}")
        # Complete or absent: somebody else may be loading it.
        built.replace(library)
    return library


def find_compiler() -> str:
    """Path of a C compiler.

    Raises:
        NoCompiler: none of the usual names is on the PATH.
    """
    for name in COMPILERS:
        found = shutil.which(name)
        if found is not None:
            return found
    raise NoCompiler(
        f"no C compiler ({', '.join(COMPILERS)}) on the PATH: the fake {LIBRARY_NAME} cannot be built. "
        "On Debian or Ubuntu: apt-get install gcc libc6-dev"
    )


def environment(library: Path, state: Path, inherited: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a process needs to find the fake library in the place of the real one; it has to be set before its start."""
    env = dict(os.environ if inherited is None else inherited)
    folders = [str(library.parent), *(folder for folder in env.get("LD_LIBRARY_PATH", "").split(":") if folder)]
    return {**env, "LD_LIBRARY_PATH": ":".join(folders), STATE_VARIABLE: str(state)}


def main(arguments: list[str]) -> int:
    """Build it for a shell; returns the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m phalanx_cli.drill.fake_library FOLDER\n")
        return 2
    try:
        sys.stdout.write(f"{build(Path(arguments[0]).absolute())}\n")
    except (NoCompiler, BuildFailed, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
