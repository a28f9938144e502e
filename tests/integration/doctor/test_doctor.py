"""``streamshard doctor`` on real servers, files and coordinators."""

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from streamshard.adapters.redis_acl import Asked, Role, rules
from streamshard.core.ids import StreamPrefix
from tests.integration.cli.processes import serving, streamshard
from tests.integration.cluster import Cluster, ask, free_ports
from tests.servers import FLAVOURS, Servers

Answer = subprocess.CompletedProcess[str]


def findings(answer: Answer) -> dict[str, Any]:
    """The last of each check."""
    return {each["check"]: each for each in json.loads(answer.stdout)["findings"]}


def doctor(*arguments: str, store: str = "memory:") -> Answer:
    return streamshard("doctor", "--store", store, "-o", "json", *arguments)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_fresh_server_of_any_kind_passes_but_for_what_it_would_lose(servers: Servers, flavour: str) -> None:
    url = servers.url(flavour)

    answer = doctor("--redis", url, store=url)

    found = findings(answer)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert {each["level"] for each in found.values()} == {"OK", "WARN"}
    assert {name for name, each in found.items() if each["level"] == "WARN"} == {"persistence", "coordinator"}
    assert found["persistence"]["do"] == "set appendonly yes"
    assert found["features"]["found"].startswith("XACKDEL" if "Redis 8" in found["version"]["found"] else "no XACKDEL")


def test_the_table_has_one_line_for_each_check(redis_url: str) -> None:
    answer = streamshard("doctor", "--redis", redis_url, "--store", redis_url)

    lines = answer.stdout.splitlines()
    assert lines[0].split() == ["RESULT", "CHECK", "WHERE", "FOUND"]
    assert {line.split()[0] for line in lines[1:]} == {"OK", "WARN"}
    assert next(line for line in lines if "persistence" in line).endswith(" → set appendonly yes")


def test_a_server_that_may_throw_records_away_fails(redis_url: str) -> None:
    port = int(redis_url.rpartition(":")[2].partition("/")[0])
    try:
        ask(port, "CONFIG", "SET", "maxmemory", "500mb", "maxmemory-policy", "allkeys-lru")
        answer = doctor("--redis", redis_url)
    finally:
        ask(port, "CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction")

    assert answer.returncode == 1
    assert findings(answer)["eviction"] == {
        "level": "FAIL",
        "check": "eviction",
        "where": f"127.0.0.1:{port}",
        "found": "allkeys-lru: shards with their records may be thrown away",
        "do": "set maxmemory-policy noeviction",
    }


@pytest.mark.parametrize("role", [Role.COORDINATOR, Role.CONSUMER])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_an_account_of_least_privilege_has_all_that_its_role_needs(servers: Servers, flavour: str, role: Role) -> None:
    url = servers.url(flavour)
    port = int(url.rpartition(":")[2].partition("/")[0])
    release = (8, 2) if ask(port, "COMMAND", "INFO", "XACKDEL")[0] else None
    asked = Asked((role,), (StreamPrefix("orders"),), redis=release)
    assert ask(port, "ACL", "SETUSER", "least", *rules(asked, ">hunter2")) == b"OK"
    try:
        mine = doctor("--redis", f"redis://least:hunter2@127.0.0.1:{port}", "--role", role.value, "--stream", "orders")
        other = doctor("--redis", f"redis://least:hunter2@127.0.0.1:{port}", "--role", role.value, "--stream", "bills")
    finally:
        ask(port, "ACL", "DELUSER", "least")

    assert findings(mine)["account"]["found"] == "may do all that its role needs"
    assert findings(other)["account"]["level"] == "FAIL"
    assert "EVALSHA script 1 bills:0" in findings(other)["account"]["found"].upper().replace(
        "SCRIPT", "script"
    ).replace("BILLS", "bills")
    assert (mine.returncode, other.returncode) == (0, 1)
    assert "hunter2" not in mine.stdout + other.stdout


def test_a_missing_permission_is_named(redis_url: str) -> None:
    port = int(redis_url.rpartition(":")[2].partition("/")[0])
    ask(port, "ACL", "SETUSER", "less", *rules(Asked((Role.CONSUMER,)), ">hunter2"), "-xautoclaim")
    try:
        answer = doctor("--redis", f"redis://less:hunter2@127.0.0.1:{port}", "--role", "consumer")
    finally:
        ask(port, "ACL", "DELUSER", "less")

    assert (answer.returncode, findings(answer)["account"]["found"]) == (1, "may not xautoclaim doctor:0")


def test_a_server_that_is_not_there_or_refuses_the_password_fails_without_showing_it(redis_url: str) -> None:
    port = redis_url.rpartition(":")[2].partition("/")[0]
    for url in (f"redis://u:hunter2@127.0.0.1:{free_ports()[0]}", f"redis://u:hunter2@127.0.0.1:{port}"):
        answer = doctor("--redis", url)

        assert (answer.returncode, findings(answer)["reach"]["level"]) == (1, "FAIL")
        assert "hunter2" not in answer.stdout + answer.stderr


def test_every_master_of_a_cluster_is_looked_at_and_where_the_shards_lie(cluster: Cluster) -> None:
    answer = doctor("--redis", cluster.url, "--stream", "orders=64", "--stream", "one=1")

    told = json.loads(answer.stdout)["findings"]
    masters = sorted(f"127.0.0.1:{node.port}" for node in cluster.masters)
    assert answer.returncode == 0
    for check in ("version", "scripts", "account", "eviction", "persistence", "connections"):
        assert (check, sorted(each["where"] for each in told if each["check"] == check)) == (check, masters)
    slots = {each["where"]: each for each in told if each["check"] == "slots"}
    assert (slots["orders"]["level"], slots["one"]["level"]) == ("OK", "OK")
    assert sum(int(part.split()[1]) for part in slots["orders"]["found"].split(", ")) == 64


def test_the_file_with_the_metadata_is_looked_at_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "meta.db"
    with serving("--store", f"sqlite:///{path}", "--redis", "memory:") as served:
        running = doctor("--redis", "memory:", "--url", served.url, store=f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    newer = doctor("--redis", "memory:", store=f"sqlite:///{path}")
    path.write_bytes(b"no database" * 1000)
    broken = doctor("--redis", "memory:", store=f"sqlite:///{path}")

    found = findings(running)
    assert (found["database"]["found"], found["journal"]["found"]) == ("sound", "wal")
    assert (found["coordinator"]["level"], found["health"]["level"]) == ("OK", "OK")
    assert found["version"]["found"].endswith(", as here")
    assert (newer.returncode, findings(newer)["schema"]["do"]) == (1, "run that version")
    assert (broken.returncode, findings(broken)["database"]["level"]) == (1, "FAIL")


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    answer = doctor("--redis", "memory:", store=f"sqlite:///{tmp_path}/meta.db")

    assert findings(answer)["database"]["found"].startswith("not there yet")
    assert list(tmp_path.iterdir()) == []


def test_a_coordinator_that_was_named_and_does_not_answer_fails() -> None:
    answer = doctor("--redis", "memory:", "--url", f"http://127.0.0.1:{free_ports()[0]}")

    assert (answer.returncode, findings(answer)["coordinator"]["level"]) == (1, "FAIL")


def test_the_streams_of_a_coordinator_are_looked_for_in_the_cluster(cluster: Cluster) -> None:
    with serving("--store", "memory:", "--redis", cluster.url) as served:
        made = streamshard("streams", "create", "orders", "--shards", "16", "--url", served.url)
        answer = doctor("--redis", cluster.url, "--url", served.url)

    slots = [each for each in json.loads(answer.stdout)["findings"] if each["check"] == "slots"]
    assert made.returncode == 0
    assert [each["where"] for each in slots] == ["orders"]


def test_it_reads_the_file_that_serve_is_told(tmp_path: Path) -> None:
    file = tmp_path / "coordinator.toml"
    file.write_text('redis = "memory:"\nstore = "memory:"')

    answer = streamshard("doctor", "--config", str(file))
    wrong = streamshard("doctor", "--config", "/nowhere")

    assert [line.split()[:2] for line in answer.stdout.splitlines()[1:3]] == [["WARN", "memory"]] * 2
    assert (wrong.returncode, wrong.stderr.splitlines()[-1]) == (2, "Try: streamshard config show")


def test_bad_arguments_are_usage_errors() -> None:
    codes = [
        streamshard("doctor", *arguments).returncode
        for arguments in (("--stream", "orders=0"), ("--redis", "http://x"), ("--role", "king"))
    ]

    assert codes == [2, 2, 2]
