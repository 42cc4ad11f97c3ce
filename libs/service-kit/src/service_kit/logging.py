"""Structured logs to stderr: an event name and ids as fields, JSON for machines, one readable line on a terminal.

The last step takes secrets out of the written line, whoever put them in. On a terminal, foreign text is made printable
(JSON escapes it anyway).
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from service_kit.foreign_text import printable_lines
from service_kit.secret_texts import without_secrets
from service_kit.settings import LogFormat


def _load_without_rich() -> Any:
    """Import structlog, which would import rich for tracebacks that we do not use: 6 MB in every agent and service.

    A None in sys.modules makes the import fail the way that structlog expects where rich is not installed. Whoever
    imports rich afterwards (the cli) gets it.
    """
    known = "rich" in sys.modules
    if not known:
        sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        return importlib.import_module("structlog")
    finally:
        if not known:
            del sys.modules["rich"]


if TYPE_CHECKING:
    import structlog

    Logger: TypeAlias = structlog.typing.FilteringBoundLogger
else:
    structlog = _load_without_rich()
    Logger = structlog.typing.FilteringBoundLogger


def configure_logging(
    *, service: str, level: str = "info", log_format: LogFormat = LogFormat.AUTO, stream: TextIO | None = None
) -> None:
    """Set up the process's logging, once, in main. Records of the standard library go the same way.

    Args:
        service: goes into every event.
        level: debug | info | warning | error.
        log_format: AUTO looks at the stream.
        stream: where to; None is stderr. The launcher names a file: its terminal belongs to the job.
    """
    target = stream or sys.stderr
    number = logging.getLevelName(level.upper())
    as_json = log_format is LogFormat.JSON or (log_format is LogFormat.AUTO and not target.isatty())
    renderer: Any = structlog.processors.JSONRenderer(sort_keys=False) if as_json else _console()
    chain: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.StackInfoRenderer(),
    ]
    if as_json:
        chain.append(structlog.processors.format_exc_info)
    else:
        chain.append(_printable_values)
    structlog.configure(
        processors=[*chain, renderer, _redacted],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(target),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[_ToStructlog()], force=True)


def get_logger(name: str) -> Logger:
    """A logger whose events carry the name of the module that wrote them."""
    logger: Logger = structlog.get_logger(module=name)
    return logger


def _console() -> structlog.dev.ConsoleRenderer:
    # The default traceback (rich, where it is installed) takes half a second on the loop and prints local variables.
    return structlog.dev.ConsoleRenderer(pad_event_to=24, exception_formatter=structlog.dev.plain_traceback)


def _printable_values(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: printable_lines(value) if isinstance(value, str) else value for name, value in event.items()}


def _redacted(_logger: Any, _method: str, line: Any) -> str:
    # structlog types each step as one that takes the event; after the renderer it is a line.
    return without_secrets(str(line))


class _ToStructlog(logging.Handler):
    """Hands records of libraries that use the standard library's logging to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger(module=record.name).log(
            record.levelno, "library_log", text=record.getMessage(), exc_info=record.exc_info
        )
