"""No secret is left in a text that is logged or shown, in the forms that secrets of ours and of others have."""

import json
import logging
from collections.abc import Iterator
from io import StringIO

import pytest
import structlog

from service_kit.logging import configure_logging, get_logger
from service_kit.secret_texts import without_secrets
from service_kit.settings import LogFormat

# Made up for this test, in the forms of the real ones.
SEED = "SU" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" + "ABCDEFGHIJKLMNOPQRSTUVWX"
PASSWORD = "hunter2hunter2"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"
PEM = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\n-----END PRIVATE KEY-----"
CASES = [
    (f"cannot reach nats://alice:{PASSWORD}@bus:4222, nor tls://{PASSWORD}@b:4222", PASSWORD),
    (f"redis://:{PASSWORD}@cache:6379/0 timed out", PASSWORD),
    (f"bad seed {SEED}", SEED),
    (f"-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------", SEED),
    (f"header Authorization: Bearer {PASSWORD}", PASSWORD),
    (f"{{'Authorization': 'Basic {PASSWORD}'}}", PASSWORD),
    (f"jwt {JWT} expired", JWT),
    (f"loaded {PEM} from disk", "MIGHAgEAMBMGByqGSM49"),
    (json.dumps({"key": PEM}), "MIGHAgEAMBMGByqGSM49"),
    (f"PHALANX_SIGNALS_TOKEN={PASSWORD}", PASSWORD),
    (f'{{"password": "{PASSWORD}"}}', PASSWORD),
    (f"https://x/?api_key={PASSWORD}&b=1", PASSWORD),
]


@pytest.mark.parametrize(("text", "secret"), CASES)
def test_the_secret_is_gone_and_the_rest_is_there(text: str, secret: str) -> None:
    shown = without_secrets(text)
    assert secret not in shown
    assert "***" in shown
    assert without_secrets(shown).count("***") >= 1, "done twice, it is still done"


@pytest.mark.parametrize(
    "text",
    [
        "nats://127.0.0.1:4222 does not answer",
        "rank 3 on node-7: ValueError: token has 12 characters",
        "mail to alice@example.org about https://example.org/a@b",
        "device GPU-8f6d2c1e-0000-1111-2222-333344445555, SUM of losses 4.2",
        "a token of every subject: phx.evt.agent.step.v1.local.job",
        "",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert without_secrets(text) == text


def test_the_time_is_bounded() -> None:
    """Each would need hours if a part of the pattern could be tried in many ways."""
    for text in ("://" * 20_000, "eyJ" + "a" * 60_000, "-----BEGIN " + "A " * 30_000, "token" * 20_000, "S" * 60_000):
        without_secrets(text)


@pytest.fixture
def log_stream() -> Iterator[StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield StringIO()
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize("log_format", [LogFormat.JSON, LogFormat.CONSOLE])
def test_no_log_line_has_a_secret_or_an_escape_of_others(log_stream: StringIO, log_format: LogFormat) -> None:
    configure_logging(service="a-service", log_format=log_format, stream=log_stream)
    log = get_logger("a.module")
    for text, _ in CASES:
        log.info("connecting", error=text, nested={"given": [text]})
        logging.getLogger("a.library").error("failed: %s", text)
        try:
            raise OSError(text)
        except OSError:
            log.exception("failed")
    log.info("shown", text="\x1b]0;owned\x07\nforged")
    written = log_stream.getvalue()
    if log_format is LogFormat.JSON:
        assert [json.loads(line)["event"] for line in written.splitlines()][-1] == "shown"
    for _, secret in CASES:
        assert secret not in written
    assert "\x1b]0" not in written
    assert written.count("***") >= 3 * len(CASES)
