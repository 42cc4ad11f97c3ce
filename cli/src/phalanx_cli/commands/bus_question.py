"""What commands that only ask the bus share: each failure is one line and an exit code."""

from __future__ import annotations

import getpass
import socket
import sys
from collections.abc import Callable

from phalanx_cli.foreign_text import printable
from phalanx_cli.stack import developer
from phalanx_cli.stack.errors import StackError
from service_kit.secret_texts import without_secrets

EXIT_UNAVAILABLE = 69
EXIT_BAD_SETTINGS = 78


def answer(command: str, question: Callable[[], int]) -> int:
    """Ask; returns the exit code of the command, `question`'s own when it was answered."""
    # Imported here: `phalanx --help` must not wait for the bus client.
    from pydantic import ValidationError

    from service_kit.errors import ServiceError

    try:
        return question()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return fail(command, f"bad setting {'.'.join(map(str, first['loc']))}: {first['msg']}", EXIT_BAD_SETTINGS)
    except StackError as error:
        return fail(command, str(error), developer.EXIT_FAILED)
    except ServiceError as error:
        return fail(command, str(error), EXIT_UNAVAILABLE)
    except KeyboardInterrupt:
        return developer.EXIT_INTERRUPTED


def hush_log(command: str) -> None:
    """Keep the bus client's log lines from a person; they are for services. Called once a bus is to be asked."""
    from service_kit.logging import configure_logging

    configure_logging(service=f"phalanx {command}", level="error")


def fail(command: str, text: str, code: int) -> int:
    """Say what went wrong; returns the exit code. The text may quote a server or a message."""
    sys.stderr.write(f"phalanx {command}: {printable(without_secrets(text))}\n")
    return code


def who() -> str:
    """Whoever runs this, for the record."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"  # a container without a passwd entry
    return f"{user}@{socket.gethostname()}"
