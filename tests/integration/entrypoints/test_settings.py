"""What ``serve`` may be told, and how it says what is wrong."""

from pathlib import Path

import pytest

from streamshard.core.ids import Millis
from streamshard.core.timing import Timing
from streamshard.entrypoints.settings import OPTIONS, ServeSettings, duration, serve_settings, without_password
from streamshard.errors import ConfigurationError


def refusal(arguments: dict[str, str | None], environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        serve_settings(arguments, environment or {})
    return caught.value.message


def test_nothing_said_means_the_defaults() -> None:
    assert serve_settings({}, {}) == ServeSettings()


def test_an_argument_wins_over_the_environment_and_that_over_the_default() -> None:
    environment = {"STREAMSHARD_PORT": "9000", "STREAMSHARD_STORE": "memory:"}

    settings = serve_settings({"port": "9001", "store": None}, environment)

    assert (settings.port, settings.store, settings.host) == (9001, "memory:", "127.0.0.1")


def test_durations_become_milliseconds() -> None:
    arguments = {"lease": "3s", "heartbeat": "500ms", "tick": "0.2", "rebalance_timeout": "1m", "routing_lease": "4s"}

    assert serve_settings(arguments, {}).timing == Timing(
        lease_ms=Millis(3_000),
        heartbeat_ms=Millis(500),
        tick_ms=Millis(200),
        rebalance_timeout_ms=Millis(60_000),
        routing_lease_ms=Millis(4_000),
    )


@pytest.mark.parametrize(
    ("text", "length"), [("15s", 15_000), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000), ("1.5", 1_500)]
)
def test_a_duration_has_a_unit_or_is_in_seconds(text: str, length: int) -> None:
    assert duration(text) == length


@pytest.mark.parametrize("text", ["", "s", "-1s", "0", "0.4ms", "1d", "1e3s", "ten", "1 s", "inf"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration such as 15s or 500ms"):
        duration(text)


def test_all_that_is_wrong_is_said_at_once_with_where_it_came_from() -> None:
    assert refusal({"port": "99999", "lease": "soon"}, {"STREAMSHARD_TICK": "0"}) == (
        "--port: must be a whole number from 0 to 65535, not '99999'; "
        "--lease: must be a duration such as 15s or 500ms, at least 1 ms, not 'soon'; "
        "STREAMSHARD_TICK: must be a duration such as 15s or 500ms, at least 1 ms, not '0'"
    )


def test_a_lease_too_short_for_its_heartbeats_is_told_in_arguments() -> None:
    message = refusal({"lease": "2s", "heartbeat": "1s"})

    assert message.startswith("--lease: leaves clients")
    assert message.endswith("lengthen --lease or shorten --heartbeat")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1"])
def test_without_accounts_only_this_machine_is_served(host: str) -> None:
    assert "accounts come first" in refusal({"host": host})


@pytest.mark.parametrize(("host", "bound"), [("localhost", "127.0.0.1"), ("127.0.0.9", "127.0.0.9"), ("::1", "::1")])
def test_loopback_addresses_are_served(host: str, bound: str) -> None:
    assert serve_settings({"host": host}, {}).host == bound


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host", "example.com"),
        ("store", "sqlite:///"),
        ("store", "postgres://x"),
        ("store", "redis://"),
        ("store", "redis://:pw@one:1,two:2"),
        ("store", "redis+cluster://:pw@one:1,"),
        ("store", "redis+cluster://:pw@one:notaport"),
        ("redis", "redis+cluster://one:1/2"),
        ("redis", "http://127.0.0.1"),
        ("redis", "redis://"),
        ("redis", "redis://:pw@127.0.0.1:notaport"),
        ("default_shards", "0"),
        ("default_shards", "16385"),
        ("default_shards", "٣"),
        ("metrics_members", "-1"),
        ("metrics_members", "100001"),
        ("metrics_shards", "16385"),
        ("port", "-1"),
    ],
)
def test_a_bad_value_is_refused_by_its_argument(name: str, value: str) -> None:
    message = refusal({name: value})

    assert message.startswith(f"--{name.replace('_', '-')}: ")
    assert "pw" not in message


@pytest.mark.parametrize(
    "url", ["redis://one", "rediss://u:p@one:1/3", "redis+cluster://one:1,two:2", "rediss+cluster://:p@[::1]:1"]
)
def test_metadata_may_be_in_redis_or_in_a_cluster_of_it(url: str) -> None:
    assert serve_settings({"store": url}, {}).store == url


@pytest.mark.parametrize(
    "url",
    [
        "unix:///run/redis.sock",
        "rediss://u:p@one:1/3",
        "redis+cluster://one:1,two:2",
        "redis+sentinel://u:p@one,two:1/main/2?sentinel_password=x",
    ],
)
def test_shards_may_be_on_a_socket_behind_tls_in_a_cluster_or_behind_sentinels(url: str) -> None:
    assert serve_settings({"redis": url}, {}).redis == url


def test_a_url_may_be_in_a_file_so_that_no_list_of_processes_shows_its_password(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("redis://u:secret@one\n")

    settings = serve_settings({}, {"STREAMSHARD_STORE_FILE": str(file), "STREAMSHARD_REDIS_FILE": str(file)})

    assert (settings.store, settings.redis) == ("redis://u:secret@one",) * 2


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"STREAMSHARD_REDIS_FILE": "/nowhere"}, "STREAMSHARD_REDIS_FILE: the file can't be read: No such file"),
        (
            {"STREAMSHARD_REDIS_FILE": "/dev/null", "STREAMSHARD_REDIS": "redis://one"},
            "STREAMSHARD_REDIS_FILE: is set beside STREAMSHARD_REDIS",
        ),
    ],
)
def test_a_file_that_can_t_be_read_or_is_one_too_many_is_named(environment: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        serve_settings({}, environment)

    assert why in refused.value.message


def test_a_kubernetes_service_link_is_no_port() -> None:
    assert serve_settings({}, {"STREAMSHARD_PORT": "tcp://10.0.0.1:8080"}).port == 8080


def test_every_default_is_what_the_settings_say() -> None:
    said = {option.name: option.default for option in OPTIONS}

    assert serve_settings(said, {}) == ServeSettings()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://127.0.0.1:6379/2", "redis://127.0.0.1:6379/2"),
        ("redis://user:secret@host:1/0", "redis://***@host:1/0"),
        ("redis://host:1?password=secret", "redis://host:1"),
        ("redis://:s%40cret@host", "redis://***@host"),
        ("redis+sentinel://u:secret@one,two:2/main/1?sentinel_password=other", "redis+sentinel://***@one,two:2/main/1"),
        ("redis+cluster://user:secret@one:1,two:2", "redis+cluster://***@one:1,two:2"),
        ("memory:", "memory:"),
        ("sqlite:////data/odd?name#1.db", "sqlite:////data/odd?name#1.db"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown
