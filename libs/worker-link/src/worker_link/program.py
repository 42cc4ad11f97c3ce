"""Runs a script or module as `__main__` inside this process, as `python script.py` and `python -m module` would.

Shared by the nursery's forked workers and the bootstrap of spawned ones. The caller has to be close to the top of the
interpreter's stack and must let SystemExit pass: interpreter shutdown (threads, atexit, flushing) is then Python's own.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.machinery
import os
import runpy
import signal
import sys
import threading
import types
from typing import Any, NoReturn

from worker_link.error_record import record_exception


def run_program(kind: str, program: str, args: list[str]) -> NoReturn:
    """Run the user's program and leave by SystemExit.

    Args:
        kind: `script` or `module`.
        program: path (relative to the current folder is fine) or dotted module name.
        args: the program's own arguments, without its name.
    """
    try:
        if kind == "module":
            _run_module(program, args)
        else:
            _run_script(program, args)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001  this is the top of the user's program
        _die_of(error)
    raise SystemExit(0)


def _run_script(path: str, args: list[str]) -> None:
    sys.argv[:] = [path, *args]
    main = _fresh_main()
    if os.path.isdir(path) or _is_archive(path):
        sys.path.insert(0, path)
        _run_as_main("__main__", alter_argv=False)
        return
    _put_on_path(os.path.dirname(os.path.realpath(path)))
    file = os.path.abspath(path)  # since Python 3.9 __file__ of a script is absolute
    loader = importlib.machinery.SourceFileLoader("__main__", file)
    try:
        source = loader.get_data(file)
    except OSError as error:
        sys.stderr.write(f"{sys.executable}: can't open file {file!r}: [Errno {error.errno}] {error.strerror}\n")
        raise SystemExit(2) from None
    main.__dict__.update(__file__=file, __loader__=loader, __spec__=None, __cached__=None)
    # multiprocessing's spawn finds the script through __main__.__file__ because __spec__ is None, as in `python x.py`.
    code = compile(source, file, "exec", dont_inherit=True)
    exec(code, main.__dict__)  # noqa: S102  running the user's script is this module's purpose


def _run_module(name: str, args: list[str]) -> None:
    sys.argv[:] = ["-m", *args]
    _fresh_main()
    _put_on_path(os.getcwd())
    _run_as_main(name, alter_argv=True)


def _run_as_main(name: str, *, alter_argv: bool) -> None:
    # The interpreter's own entry for `-m` and for folders; unlike run_module it runs in the real __main__ and leaves it
    # there, which atexit handlers, threads and pickling need.
    run: Any = runpy._run_module_as_main  # type: ignore[attr-defined]
    run(name, alter_argv)


def _fresh_main() -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    # multiprocessing remembers the folder it was imported in, to make a relative __main__ path absolute.
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.__dict__["ORIGINAL_DIR"] = os.getcwd()
    return main


def _put_on_path(folder: str) -> None:
    if not sys.flags.safe_path:
        sys.path.insert(0, folder)


def _is_archive(path: str) -> bool:
    import zipfile  # rarely needed, and worth 5 ms of start

    return os.path.isfile(path) and not path.endswith((".py", ".pyw")) and zipfile.is_zipfile(path)


def _die_of(error: BaseException) -> NoReturn:
    """Show and record the exception without our own frames, then leave as the interpreter would."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error.__traceback__ = trace
    unrecorded = record_exception(error, trace)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    if unrecorded:
        _say(unrecorded)  # before the traceback: what follows a traceback is read as part of its message
    try:
        sys.excepthook(type(error), error, trace)
    except BaseException:  # noqa: BLE001  as CPython: a broken hook must not hide the exception
        sys.__excepthook__(type(error), error, trace)
    _end_without_teardown(interrupted=isinstance(error, KeyboardInterrupt))


def _say(line: str) -> None:
    try:
        sys.stderr.write(line + "\n")
    except (
        AttributeError,
        OSError,
        ValueError,
    ):  # the script closed or replaced its stderr; the exit code still counts
        pass


def _end_without_teardown(*, interrupted: bool) -> NoReturn:
    """Leave as the interpreter would after an exception, but without tearing down its modules.

    Threads are joined, atexit handlers run and everything is flushed. Only the destruction of all objects is skipped:
    with torch it takes 300 ms, which would delay the news of the fault, and destructors of a broken process group hang.
    """
    join_threads: Any = threading._shutdown  # type: ignore[attr-defined]
    run_exitfuncs: Any = atexit._run_exitfuncs
    try:
        join_threads()
        run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        ctypes.CDLL(None).fflush(None)
    except BaseException as failure:  # noqa: BLE001  the end goes on, as in the interpreter
        sys.__excepthook__(type(failure), failure, failure.__traceback__)
    if interrupted:
        # By the signal itself, so that a shell can tell.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(1)
