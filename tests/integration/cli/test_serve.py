"""``streamshard serve`` as a process: how it starts, how it fails to, and how it stops."""

import contextlib
import json
import re
import signal
import socket
import sqlite3
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.integration.cli.processes import IN_MEMORY, serving, streamshard
from tests.servers import command


def test_it_serves_on_a_database_and_stops_cleanly_when_told(tmp_path: Path) -> None:
    with serving("--store", f"sqlite:///{tmp_path}/meta.db", "--redis", "memory:") as served:
        alive = httpx.get(served.url + "/livez", trust_env=False)
        served.process.send_signal(signal.SIGTERM)
        code = served.process.wait(timeout=20)

        assert served.process.stderr is not None
        last = served.process.stderr.readlines()[-1]

    assert alive.json() == {"status": "UP"}
    assert code == 0
    assert last.rstrip().endswith("coordinator stopped")


def test_a_second_coordinator_on_the_same_port_says_so_and_fails() -> None:
    with serving(*IN_MEMORY) as served:
        second = streamshard("serve", "--port", served.port, *IN_MEMORY)

    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr == (
        f"Error: --port: port {served.port} of 127.0.0.1 is in use by another program: "
        "stop that one, or choose another port\n"
    )


def test_a_redis_that_is_not_there_is_said_at_once() -> None:
    with serving("--store", "memory:", "--redis", "redis://127.0.0.1:1") as served:
        assert served.process.stderr is not None
        said = served.process.stderr.readline()

    assert "WARNING Redis does not answer at redis://127.0.0.1:1: nothing can be created, granted or scaled" in said


def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "meta.db"
    with serving("--store", f"sqlite:///{path}", "--redis", "memory:") as served:
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(timeout=20)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")

    answer = streamshard("serve", "--port", "0", "--store", f"sqlite:///{path}", "--redis", "memory:")

    assert answer.returncode == 1
    assert answer.stderr.startswith(f"Error: {path} was made by a newer version (schema 99")
    assert len(answer.stderr.splitlines()) == 1
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (99,)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--host", "0.0.0.0"), "accounts come first"),
        (("--lease", "soon"), "--lease: must be a duration"),
        (("--port", "http"), "--port: must be a whole number"),
        (("--store", "mysql://x"), "--store: must be sqlite:///PATH"),
    ],
)
def test_a_bad_option_is_a_usage_error(arguments: tuple[str, ...], told: str) -> None:
    answer = streamshard("serve", *arguments)

    assert answer.returncode == 2
    assert told in answer.stderr
    assert answer.stderr.endswith("Try: streamshard serve --help\n")


def test_a_path_that_can_hold_no_database_is_an_error(tmp_path: Path) -> None:
    answer = streamshard("serve", "--port", "0", "--store", f"sqlite:///{tmp_path}", "--redis", "memory:")

    assert answer.returncode == 1
    assert answer.stderr == f"Error: {tmp_path} is a directory: name a file in it\n"


def test_a_password_is_not_logged() -> None:
    with serving("--store", "memory:", "--redis", "redis://user:hunter2@127.0.0.1:1/0") as served:
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(timeout=20)

        assert served.process.stderr is not None
        assert "hunter2" not in served.process.stderr.read()


def test_a_request_under_way_is_finished_before_it_stops() -> None:
    with serving(*IN_MEMORY) as served, socket.create_connection(("127.0.0.1", int(served.port)), timeout=20) as link:
        link.sendall(b"POST /coord/v1/streams/p HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{")
        time.sleep(0.3)
        served.process.send_signal(signal.SIGTERM)
        late = threading.Timer(0.5, link.sendall, (b"}",))
        late.start()
        with link.makefile("rb") as answers:
            answer = answers.read()
        late.join()
        code = served.process.wait(timeout=20)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"requestedBy: is missing" in answer
    assert code == 0


def test_a_restart_on_the_same_database_goes_on_with_the_same_shards(tmp_path: Path, redis_url: str) -> None:
    arguments = ("--store", f"sqlite:///{tmp_path}/meta.db", "--redis", redis_url)
    with serving(*arguments) as served:
        made = streamshard("streams", "create", "orders", "--shards", "2", environment={"STREAMSHARD_URL": served.url})
        served.process.kill()
    with serving(*arguments) as served:
        shown = streamshard("streams", "describe", "orders", environment={"STREAMSHARD_URL": served.url})
        health = httpx.get(served.url + "/coord/v1/monitoring/health", trust_env=False).json()

    port = urlsplit(redis_url).port
    assert port is not None
    assert (made.returncode, made.stderr, made.stdout) == (0, "", "created orders with 2 shards\n")
    assert [line.split()[:3] for line in shown.stdout.splitlines()[-2:]] == [
        ["0", "orders:0", "OPEN"],
        ["1", "orders:1", "OPEN"],
    ]
    assert (health["store"], health["redis"]) == ("UP", "UP")
    assert [command(port, "EXISTS", f"orders:{shard}") for shard in range(3)] == [":1", ":1", ":0"]


def test_its_log_is_json_where_nobody_looks_and_what_a_request_did_carries_its_id() -> None:
    with serving(*IN_MEMORY, log_format="auto") as served, httpx.Client(base_url=served.url, trust_env=False) as client:
        path, body = "/coord/v1/streams/orders", {"requestedBy": "ann", "initialShardCount": 2}
        forged = client.post(path, json={**body, "requestedBy": "ann\n2026-01-01 INFO forged"})
        made = client.post(path, json=body, headers={"x-request-id": "mine-7"})
        odd = client.get("/livez", headers={"x-request-id": "no\tsane id"})
        time.sleep(1.5)  # a tick tells what was changed
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(timeout=20)
        assert served.process.stderr is not None
        told = [json.loads(line) for line in served.process.stderr]

    assert (forged.status_code, made.status_code, made.headers["x-request-id"]) == (400, 201, "mine-7")
    assert re.fullmatch("[0-9a-f]{16,}", odd.headers["x-request-id"])
    audits = [(each["audit"]["status"], each["requestId"]) for each in told if "audit" in each]
    assert audits == [(400, forged.headers["x-request-id"]), (201, "mine-7")]
    assert [each["stream"] for each in told if each.get("event") == "stream-active"] == ["orders"]
    assert told[-1]["message"] == "coordinator stopped"
