from __future__ import annotations

import pytest

from encoder_operator.settings import Settings, SettingsError


def test_an_empty_environment_watches_everything_and_scrapes_replicas_itself() -> None:
    assert Settings.from_environment({}) == Settings(
        prometheus_address=None, watch_namespaces=(), http_port=8080, log_level="INFO"
    )


def test_what_the_chart_writes_is_read() -> None:
    environment = {
        "ENCODERPOOL_PROMETHEUS_ADDRESS": "http://prometheus:9090/",
        "ENCODERPOOL_WATCH_NAMESPACES": "b, a,,a",
        "ENCODERPOOL_HTTP_PORT": "9000",
        "ENCODERPOOL_LOG_LEVEL": "debug",
    }
    assert Settings.from_environment(environment) == Settings(
        prometheus_address="http://prometheus:9090",
        watch_namespaces=("a", "b"),
        http_port=9000,
        log_level="DEBUG",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENCODERPOOL_PROMETHEUS_ADDRESS", "prometheus:9090"),
        ("ENCODERPOOL_HTTP_PORT", "0"),
        ("ENCODERPOOL_HTTP_PORT", "http"),
        ("ENCODERPOOL_LOG_LEVEL", "LOUD"),
        ("ENCODERPOOL_LOG_LEVEL", "NOTSET"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        Settings.from_environment({name: value})
