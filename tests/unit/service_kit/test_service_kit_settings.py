"""Settings come from the environment, and a bad one is named."""

import pytest
from pydantic import ValidationError

from service_kit.lifecycle import bad_settings_text
from service_kit.settings import BusSettings


def test_defaults_need_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NATS_URL", "REDIS_URL", "PHALANX_CLUSTER"):
        monkeypatch.delenv(name, raising=False)
    settings = BusSettings()
    assert (settings.nats_url, settings.redis_url, settings.cluster) == ("nats://127.0.0.1:4222", "", "local")
    assert (settings.http_host, settings.http_port, settings.ready_file) == ("127.0.0.1", 0, None)


def test_each_field_can_be_given_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in BusSettings.model_fields.values():
        variable = field.validation_alias.choices[0]  # type: ignore[union-attr]
        assert isinstance(variable, str)
        assert f"[{variable}]" in (field.description or ""), "its docstring names it"
    monkeypatch.setenv("NATS_URL", "nats://elsewhere:1")
    monkeypatch.setenv("PHALANX_HTTP_PORT", "9000")
    settings = BusSettings()
    assert (settings.nats_url, settings.http_port) == ("nats://elsewhere:1", 9000)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PHALANX_HTTP_PORT", "70000"),
        ("PHALANX_LOG_LEVEL", "loud"),
        ("PHALANX_CLUSTER", ""),
        ("PHALANX_STREAM_STORAGE", "tape"),
        ("PHALANX_CONNECT_LIMIT", "-1"),
        ("NATS_INBOX_PREFIX", "phx.cmd"),
    ],
)
def test_a_bad_value_names_its_variable_but_not_the_value(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValidationError) as failure:
        BusSettings()
    text = bad_settings_text("a-service", failure.value)
    assert text.startswith("a-service: bad settings\n")
    assert variable in text
    if value not in ("", "-1"):
        assert value not in text


def test_two_identities_are_one_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_CREDS", "/creds")
    monkeypatch.setenv("NATS_NKEY_SEED", "SUA-very-secret")
    with pytest.raises(ValidationError) as failure:
        BusSettings()
    assert "one identity" in bad_settings_text("a-service", failure.value)
    assert "very-secret" not in bad_settings_text("a-service", failure.value)
    monkeypatch.delenv("NATS_CREDS")
    assert "very-secret" not in repr(BusSettings())
