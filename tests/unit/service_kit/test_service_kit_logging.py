"""Log events: JSON with ids for machines, readable for people, and the library's records too."""

import json
import logging
import subprocess
import sys

import pytest
import structlog

from service_kit.logging import configure_logging, get_logger
from service_kit.settings import LogFormat


@pytest.fixture(autouse=True)
def _restore() -> object:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_an_event_is_one_json_line_with_its_ids(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(service="planner", log_format=LogFormat.JSON)
    log = get_logger("a.module")
    log.info("incident_opened", incident_id="i-1", job_id="j")
    log.debug("not_shown")
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("bug_found")
    logging.getLogger("some.library").warning("watch %s", "out")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["incident_opened", "bug_found", "library_log"]
    assert lines[0].items() >= {"service": "planner", "module": "a.module", "incident_id": "i-1", "job_id": "j"}.items()
    assert lines[0]["at"].endswith("Z")
    assert "ValueError: no" in lines[1]["exception"]
    assert lines[2]["text"] == "watch out"


def test_the_readable_form_shows_a_traceback_without_local_variables(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(service="planner", log_format=LogFormat.CONSOLE)
    password = "hunter2"  # noqa: F841 - must not be shown
    try:
        raise ValueError("no")
    except ValueError:
        get_logger("a.module").exception("bug_found")
    shown = capsys.readouterr().err
    assert "ValueError: no" in shown
    assert "'hunter2'" not in shown.replace('password = "hunter2"', "")


@pytest.mark.parametrize(
    ("first", "shown"), [("service_kit.logging", "False True"), ("rich.console, service_kit.logging", "True True")]
)
def test_logging_does_not_pull_in_rich_and_does_not_hide_it(first: str, shown: str) -> None:
    code = (
        f"import sys, {first}; print('rich' in sys.modules, end=' '); import rich.console; print('rich' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ended.stdout.strip() == shown
