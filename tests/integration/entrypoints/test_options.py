"""Where settings come from: the command line, the environment, a file, in that order."""

from pathlib import Path

import pytest

from streamshard.core.ids import Millis
from streamshard.entrypoints.options import OTHERS, Found, Layer, Option, Sources
from streamshard.entrypoints.settings import OPTIONS, ServeSettings, serve_settings, shown
from streamshard.errors import ConfigurationError

REDIS = next(option for option in OPTIONS if option.name == "redis")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "coordinator.toml"


def refusal(arguments: dict[str, str | None], environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        serve_settings(arguments, environment or {})
    return caught.value.message


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(file: Path) -> None:
    file.write_text('port = 1\nlease = "30s"\ndefault_shards = 4\nstore = "memory:"')
    environment = {"STREAMSHARD_PORT": "2", "STREAMSHARD_LEASE": "20s", "STREAMSHARD_CONFIG": str(file)}

    settings = serve_settings({"port": "3"}, environment)

    assert (settings.port, settings.timing.lease_ms, settings.default_shards) == (3, Millis(20_000), 4)
    assert (settings.store, settings.host) == ("memory:", "127.0.0.1")


def test_the_file_of_the_command_line_wins_over_that_of_the_environment(file: Path) -> None:
    file.write_text("port = 7")

    assert serve_settings({"config": str(file)}, {"STREAMSHARD_CONFIG": "/nowhere"}).port == 7


def test_numbers_in_the_file_are_seconds_where_a_duration_is_meant(file: Path) -> None:
    file.write_text("lease = 20\ntick = 0.5")

    timing = serve_settings({"config": str(file)}, {}).timing

    assert (timing.lease_ms, timing.tick_ms) == (20_000, 500)


def test_every_default_can_be_written_into_the_file(file: Path) -> None:
    file.write_text("".join(f'{option.name} = "{option.default}"\n' for option in OPTIONS))

    assert serve_settings({"config": str(file)}, {}) == ServeSettings()


def test_a_secret_may_be_in_a_file_that_the_file_names(file: Path, tmp_path: Path) -> None:
    (tmp_path / "url").write_text("redis://u:secret@one\n")
    file.write_text(f'redis_file = "{tmp_path / "url"}"')

    assert serve_settings({"config": str(file)}, {}).redis == "redis://u:secret@one"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rebalance-timeout = 1", "'rebalance-timeout' in {path}: is no setting: did you mean rebalance_timeout?"),
        ("leese = 1", "'leese' in {path}: is no setting: did you mean lease?"),
        ("config = 'x'", "'config' in {path}: is no setting"),
        ("[serve]\nport = 1", "'serve' in {path}: is no setting"),
        ('"\\u001b[2J" = 1', "'\\x1b[2J' in {path}: is no setting: there are host, port"),
        ("port = [1]", "port in {path}: must be a string or a number"),
        ("port = 'x'", "port in {path}: must be a whole number from 0 to 65535, not 'x'"),
        ("port = 1\nport = 2", "--config: the file '{path}' is no TOML: Cannot overwrite a value"),
        ("port", "--config: the file '{path}' is no TOML: "),
        ("redis = 'memory:'\nredis_file = '/dev/null'", "redis_file in {path}: is set beside redis: unset one"),
        ("store_file = '/nowhere'", "store_file in {path}: the file can't be read: No such file"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_with_its_place(file: Path, text: str, why: str) -> None:
    file.write_text(text)

    assert why.format(path=file) in refusal({"config": str(file)})


@pytest.mark.parametrize(
    ("arguments", "environment", "source"),
    [({"config": "/nowhere"}, {}, "--config"), ({}, {"STREAMSHARD_CONFIG": "/nowhere"}, "STREAMSHARD_CONFIG")],
)
def test_a_file_that_is_not_there_is_an_error(
    arguments: dict[str, str | None], environment: dict[str, str], source: str
) -> None:
    assert refusal(arguments, environment) == (
        f"{source}: the file '/nowhere' can't be read: No such file or directory"
    )


def test_a_file_in_another_encoding_is_an_error_that_shows_nothing_of_it(file: Path) -> None:
    file.write_bytes(b"redis = '\xff-secret'")

    assert refusal({"config": str(file)}) == f"--config: the file '{file}' is no TOML: it is not UTF-8"


@pytest.mark.parametrize(
    ("variable", "meant"),
    [("LEESE", "LEASE"), ("REDIS_URL", "REDIS"), ("HEARTBEATS", "HEARTBEAT"), ("STORE_FIEL", "STORE_FILE")],
)
def test_a_variable_that_is_nearly_a_setting_s_is_an_error(variable: str, meant: str) -> None:
    assert refusal({}, {f"STREAMSHARD_{variable}": "x"}) == (
        f"STREAMSHARD_{variable}: is no setting: did you mean STREAMSHARD_{meant}?"
    )


def test_variables_of_other_programs_and_of_kubernetes_are_left_alone() -> None:
    names = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT_8080_TCP", "PORT_8080_TCP_ADDR", "REDIS_PORT")
    environment = {f"STREAMSHARD_{name}": "x" for name in (*names, "WHATEVER")} | {"STREAM_LEASE": "x", "LEASE": "x"}

    assert serve_settings({}, environment) == ServeSettings()


def test_no_variable_that_somebody_else_reads_is_taken_for_a_mistake() -> None:
    sources = Sources(OPTIONS, {}, {f"STREAMSHARD_{name}": "x" for name in OTHERS if name != "CONFIG"})

    assert sources.problems == []


@pytest.mark.parametrize(
    ("option", "text", "printed"),
    [
        (REDIS, "redis://u:hunter2@one", "redis://***@one"),
        (REDIS, "redis:hunter2@one", "(not shown: it is no such URL, and may hold a password)"),
        (Option("key", "none", "", secret=True), "hunter2", "***"),
        (Option("key", "none", "", secret=True), "none", "none"),
    ],
)
def test_nothing_secret_is_shown(option: Option, text: str, printed: str) -> None:
    found = Found(option, text, Layer.ARGUMENT, option.argument)

    assert (shown(found), "hunter2" in repr(found)) == (printed, False)
