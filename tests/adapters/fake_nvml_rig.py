"""The fake libnvidia-ml.so.1 for tests: built once a session; a machine without a compiler skips and says so."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from phalanx_cli.drill.fake_library import NoCompiler, build


@cache
def _folder() -> Path:
    return Path(mkdtemp(prefix="phalanx-fake-nvml-"))


def fake_library(*, old_driver: bool = False) -> Path:
    """Path of the built library.

    Raises:
        pytest.skip.Exception: no C compiler here.
    """
    try:
        return build(_folder(), old_driver=old_driver)
    except NoCompiler as error:
        pytest.skip(str(error))
