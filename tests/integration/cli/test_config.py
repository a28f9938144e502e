"""``streamshard config show``: every setting, where it comes from, and no secret."""

import json
from pathlib import Path

from streamshard.entrypoints.settings import OPTIONS, SECRETS
from tests.integration.cli.processes import streamshard


def test_each_setting_is_shown_with_what_said_it(tmp_path: Path) -> None:
    file = tmp_path / "coordinator.toml"
    file.write_text('lease = "20s"\nport = 1')

    answer = streamshard(
        "config", "show", "--port", "9000", "--config", str(file), environment={"STREAMSHARD_TICK": "2s"}
    )

    rows = {line.split()[0]: line.split()[1:] for line in answer.stdout.splitlines()}
    assert (answer.returncode, answer.stderr) == (0, "")
    assert list(rows) == ["SETTING", *(option.name for option in (*OPTIONS, *SECRETS))]
    assert rows["port"] == ["9000", "--port"]
    assert rows["tick"] == ["2s", "STREAMSHARD_TICK"]
    assert rows["lease"] == ["20s", "lease", "in", str(file)]
    assert rows["heartbeat"] == ["3s", "default"]


def test_passwords_and_tokens_are_masked_wherever_they_come_from(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("redis://u:hunter2@one")
    environment = {
        "STREAMSHARD_STORE_FILE": str(tmp_path / "url"),
        "STREAMSHARD_REDIS": "redis+sentinel://u:hunter2@one/main?sentinel_password=hunter2",
        "STREAMSHARD_TOKEN_SECRET": "hunter2" * 10,
    }

    table, as_json = (streamshard("config", "show", *more, environment=environment) for more in ((), ("-o", "json")))

    shown = {each["name"]: each for each in json.loads(as_json.stdout)["settings"]}
    assert (table.returncode, as_json.returncode) == (0, 0)
    assert "hunter2" not in table.stdout + table.stderr + as_json.stdout
    assert shown["store"] == {
        "name": "store",
        "value": "redis://***@one",
        "layer": "environment",
        "source": "STREAMSHARD_STORE_FILE",
    }
    assert (shown["redis"]["value"], shown["token_secret"]["value"]) == ("redis+sentinel://***@one/main", "***")
    assert shown["port"] == {"name": "port", "value": "8080", "layer": "default", "source": None}


def test_what_serve_would_refuse_is_shown_and_said() -> None:
    answer = streamshard("config", "show", "--lease", "soon\x1b[2J", "--redis", "redis:hunter2@one")

    assert answer.returncode == 2
    assert "lease              soon\\x1b[2J" in answer.stdout
    assert "Error: --redis: must be memory:, or begin with" in answer.stderr
    assert "hunter2" not in answer.stdout + answer.stderr
    assert "\x1b" not in answer.stdout + answer.stderr
