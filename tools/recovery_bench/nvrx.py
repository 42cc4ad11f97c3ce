"""A virtual environment of its own for NVRx's ft_launcher: it sees our torch, and our environment does not see it."""

import asyncio
import sys
import sysconfig
from pathlib import Path

FOLDER = Path(".bench/nvrx").absolute()
PACKAGES = ("defusedxml", "nvidia-ml-py", "pynvml", "psutil", "packaging", "pyyaml")
"""What the wheel asks for, but for torch."""
INSTALL_LIMIT_S = 300.0


class NotInstalled(Exception):
    """The wheel is not to be had; the text is the reason that was given."""


async def python_with_nvrx() -> str:
    """The interpreter, after installing what is missing.

    Raises:
        NotInstalled: with the last line of whoever refused.
    """
    python = str(FOLDER / "bin" / "python")
    await _run(sys.executable, "-m", "venv", str(FOLDER))
    found = await _run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    # Last on the path, so that nothing of ours hides what is installed there; addsitedir, for our own .pth files.
    ours = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (Path(found) / "zz_phalanx_bench.pth").write_text(ours, encoding="utf-8")
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
    await _run(*pip, *PACKAGES, "nvidia-resiliency-ext")
    await _run(python, "-c", "import nvidia_resiliency_ext.fault_tolerance.launcher")
    return python


async def _run(*argv: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, stdin=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(INSTALL_LIMIT_S):
            said = (await process.communicate())[0].decode(errors="replace").strip()
    except TimeoutError:
        raise NotInstalled(f"{argv[1:4]} took longer than {INSTALL_LIMIT_S:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    last = said.splitlines()[-1] if said else ""
    if process.returncode != 0:
        raise NotInstalled(last or f"exit code {process.returncode}")
    return last
