"""The developer's stack: `phalanx up`, `down` and `status` as functions that print and return an exit code.

| function | 0 | 1 | 3 | 130 |
|---|---|---|---|---|
| `up` | runs and is healthy | did not start, or runs and is not healthy | | Ctrl-C, nothing is left |
| `down` | nothing runs | something could not be ended, or is not ours to end | | |
| `status` | all healthy | partly | not running | |
"""

import fcntl
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from phalanx_cli.stack.errors import StackError, with_log_tail
from phalanx_cli.stack.guard import GuardedProcess, ProcessSpec
from phalanx_cli.stack.identity import ProcessIdentity
from phalanx_cli.stack.remains import end_remains
from phalanx_cli.stack.server import START_TIMEOUT_S
from phalanx_cli.stack.services import SERVICE_START_TIMEOUT_S, SERVICES, ServiceSpec
from phalanx_cli.stack.state import StackOwner, StackPhase, StackState, read_state, remove_state
from phalanx_cli.stack.status import Health, stack_status, status_table
from phalanx_cli.stack.supervisor import ERROR_FILE, supervisor_argv
from service_kit.foreign_text import printable_lines

DEFAULT_DATA_DIR = Path(".phalanx")

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_NOT_RUNNING = 3
"""As `systemctl status` says it (LSB, iniscrptact: program is not running)."""
EXIT_INTERRUPTED = 130

UP_TIMEOUT_S = START_TIMEOUT_S + SERVICE_START_TIMEOUT_S + 5.0
"""The supervisor keeps both limits itself; this one only catches a supervisor that hangs."""

DOWN_GRACE_S = 15.0
"""Services, then servers, each with its own grace in the supervisor; after this the supervisor is killed."""

_FIRST_WAIT_S = 0.02
_LONGEST_WAIT_S = 0.2


def up(
    data_dir: Path = DEFAULT_DATA_DIR,
    *,
    cluster: str = "local",
    nats_url: str | None = None,
    redis_url: str | None = None,
    services: Sequence[ServiceSpec] = SERVICES,
    console: Console | None = None,
) -> int:
    """Start the stack and leave it running; started already, say so. URLs default to NATS_URL and REDIS_URL."""
    console = console or Console()
    data_dir = data_dir.absolute()
    try:
        with _one_command(data_dir):
            state = read_state(data_dir)
            if state is None or not state.owner_identity.is_alive():
                with console.status("starting the stack"):
                    _start_supervisor(data_dir, cluster, services, nats_url=nats_url, redis_url=redis_url)
            elif state.owner is StackOwner.RUN:
                raise StackError(f"{data_dir} is used by a running `phalanx run` (pid {state.owner_identity.pid})")
            else:
                console.print("The stack runs already.")
    except StackError as error:
        _print_error(console, error)
        return EXIT_FAILED
    except KeyboardInterrupt:
        console.print("Interrupted; nothing was left running.")
        return EXIT_INTERRUPTED
    return status(data_dir, console=console)


def down(data_dir: Path = DEFAULT_DATA_DIR, *, console: Console | None = None) -> int:
    """Stop the stack in order and verify that nothing of it is left."""
    console = console or Console()
    data_dir = data_dir.absolute()
    if not data_dir.is_dir():
        console.print("The stack is not running.")
        return EXIT_OK
    try:
        with _one_command(data_dir):
            console.print(_stop(data_dir))
    except StackError as error:
        _print_error(console, error)
        return EXIT_FAILED
    return EXIT_OK


def status(data_dir: Path = DEFAULT_DATA_DIR, *, console: Console | None = None) -> int:
    """Print each process with pid, address, health, age and log."""
    console = console or Console()
    try:
        state = read_state(data_dir.absolute())
    except StackError as error:
        _print_error(console, error)
        return EXIT_FAILED
    if state is None or not _anything_runs(state):
        console.print("The stack is not running.")
        return EXIT_NOT_RUNNING
    statuses = stack_status(state)
    console.print(status_table(state.cluster, statuses))
    return EXIT_OK if all(status.health is Health.OK for status in statuses) else EXIT_FAILED


def running_stack(data_dir: Path = DEFAULT_DATA_DIR) -> StackState | None:
    """Return the stack that runs on a data folder, for commands that want its URLs, or none.

    Raises:
        StackError: its state cannot be read.
    """
    state = read_state(data_dir.absolute())
    return state if state is not None and state.owner_identity.is_alive() else None


def _start_supervisor(
    data_dir: Path, cluster: str, services: Sequence[ServiceSpec], *, nats_url: str | None, redis_url: str | None
) -> None:
    urls = {"NATS_URL": nats_url, "REDIS_URL": redis_url}
    error_path, log_path = data_dir / ERROR_FILE, data_dir / "logs" / "supervisor.log"
    error_path.unlink(missing_ok=True)
    spec = ProcessSpec(
        name="supervisor",
        argv=supervisor_argv(data_dir, cluster, services),
        log_path=log_path,
        env={**os.environ, **{name: url for name, url in urls.items() if url is not None}},
        dies_with_parent=False,
    )
    supervisor = GuardedProcess(spec)
    try:
        deadline, wait_s = time.monotonic() + UP_TIMEOUT_S, _FIRST_WAIT_S
        while not _is_ready(data_dir, supervisor.identity):
            if supervisor.returncode is not None:
                if error_path.exists():
                    raise StackError(error_path.read_text(encoding="utf-8").strip())
                sentence = f"the supervisor ended before the stack was ready ({supervisor.ending})"
                raise with_log_tail(sentence, log_path, from_offset=supervisor.log_offset)
            if time.monotonic() > deadline:
                sentence = f"the stack was not ready within {UP_TIMEOUT_S:g} s"
                raise with_log_tail(sentence, log_path, from_offset=supervisor.log_offset)
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
    except BaseException:
        supervisor.stop(DOWN_GRACE_S)
        end_remains(read_state(data_dir))
        raise
    supervisor.release()


def _is_ready(data_dir: Path, supervisor: ProcessIdentity | None) -> bool:
    state = read_state(data_dir)
    return state is not None and state.owner_identity == supervisor and state.phase is StackPhase.READY


def _stop(data_dir: Path) -> str:
    """Stop what runs and return the sentence that says what happened."""
    state = read_state(data_dir)
    if state is None or not _anything_runs(state):
        remove_state(data_dir)
        return "The stack is not running."
    owner = state.owner_identity
    if state.owner is StackOwner.RUN and owner.is_alive():
        raise StackError(f"this stack belongs to a running `phalanx run` (pid {owner.pid}): end that one")
    how = "The stack is stopped."
    owner.signal(signal.SIGTERM)
    if not owner.wait_gone(DOWN_GRACE_S):
        owner.signal(signal.SIGKILL)
        owner.wait_gone(DOWN_GRACE_S)
        how = f"The stack did not end within {DOWN_GRACE_S:g} s and was killed."
    # Read again: a service may have been restarted, under a new pid, while the owner was ending.
    survivors = {*end_remains(state), *end_remains(read_state(data_dir))}
    if owner.is_alive() or survivors:
        pids = sorted({owner.pid} | {identity.pid for identity in survivors})
        raise StackError(f"these processes of the stack cannot be ended: {', '.join(map(str, pids))}")
    remove_state(data_dir)
    return how


def _anything_runs(state: StackState) -> bool:
    return any(identity.is_alive() for identity in (state.owner_identity, *state.identities()))


@contextmanager
def _one_command(data_dir: Path) -> Iterator[None]:
    """Let one `up` or `down` at a time work on a data folder; the next one waits."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(data_dir / "command.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StackError(f"the data folder {data_dir} cannot be used: {error}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _print_error(console: Console, error: StackError) -> None:
    # Log lines and paths are printed as they are: a bracket in them is not markup, and they are not wrapped.
    console.print(f"error: {printable_lines(str(error))}", style="red", markup=False, highlight=False, soft_wrap=True)
