"""The URL of a shared cache is never an argument, and never shown."""

from pathlib import Path

import pytest

from encoder_server import cli
from encoder_server.cache_options import URL_VARIABLE

SECRET = "redis://:hunter2@redis.example:6379/0"


def test_a_url_comes_from_a_file_or_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(SECRET)
    by_file = cli.read_settings(["serve", str(tmp_path), f"--cache-redis-url-file={tmp_path / 'url'}"], {})
    by_name = cli.read_settings(["serve", str(tmp_path)], {URL_VARIABLE: SECRET})
    assert by_file.redis is not None
    assert by_name.redis is not None
    assert (by_file.redis.url, by_file.redis.url_file) == (None, tmp_path / "url")
    assert (by_name.redis.url, by_name.redis.url_file) == (SECRET, None)
    assert "hunter2" not in f"{by_file} {by_name!r}"
    assert cli.read_settings(["serve", str(tmp_path)], {}).redis is None


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (["--cache-redis-url-file=/"], {}, "is not a file that can be read"),
        (["--cache-redis-url-file=/etc/hostname"], {URL_VARIABLE: SECRET}, "only one"),
        ([], {URL_VARIABLE: "http://hunter2@x"}, "no redis://"),
        (["--cache-redis-scope=a b"], {}, "--cache-redis-scope"),
        (["--cache-redis-ttl-seconds=nan"], {}, "--cache-redis-ttl-seconds"),
        (["--cache-redis-timeout-seconds=0"], {}, "--cache-redis-timeout-seconds"),
        (["--cache-redis-max-entry-bytes=0"], {}, "--cache-redis-max-entry-bytes"),
    ],
)
def test_bad_usage_is_one_line_without_the_password(
    arguments: list[str],
    environment: dict[str, str],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as refused:
        cli.read_settings(["serve", str(tmp_path), *arguments], environment)
    shown = capsys.readouterr().err
    assert refused.value.code == 2
    assert says in shown
    assert shown.count("\n") == 1
    assert "hunter2" not in shown
