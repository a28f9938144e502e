"""``streamshard dlq`` against a real server."""

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from streamshard.adapters.streams.opening import link
from streamshard.core.dead_letters import DeadLetter, written
from streamshard.core.ids import GroupName, RecordId, ShardIndex
from streamshard.entrypoints.cli.root import cli

BINARY = {b"n": b"1", b"\xff": b"\x00\r\n"}


class Letters:
    """A server with dead letters of ``orders``, and commands against it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, *commands: tuple[str | bytes, ...]) -> list[object]:
        async def scenario() -> list[object]:
            there = link(self.url, limit=1)
            try:
                return await there.exchange(commands)
            finally:
                await there.close()

        return asyncio.run(scenario())

    def bury(self, *shards: int) -> None:
        letters = [
            DeadLetter(f"why\n{shard}", 3, GroupName("billing"), ShardIndex(shard), RecordId("7-0"), BINARY)
            for shard in shards
        ]
        for n, letter in enumerate(letters, 1):
            words = [word for pair in written(letter).items() for word in pair]
            self.ask(("XADD", "orders:dlq", f"{n}-0", *words))

    def __call__(self, *arguments: str) -> Result:
        return CliRunner(env={"STREAMSHARD_REDIS": self.url}).invoke(cli, ["dlq", *arguments])

    def left(self) -> list[str]:
        result = self("list", "orders", "-o", "json")
        return [letter["id"] for letter in json.loads(result.stdout)["deadLetters"]]


@pytest.fixture(params=["valkey", "cluster"])
def run(request: pytest.FixtureRequest) -> Letters:
    """On one server, and on a cluster."""
    where: str = request.getfixturevalue("redis_url" if request.param == "valkey" else "cluster")
    letters = Letters(where if isinstance(where, str) else where.url)
    letters.bury(0, 1, 1)
    letters.ask(("XADD", "orders:0", "1-0", "first", "1"))
    return letters


def test_they_are_listed_page_by_page(run: Letters) -> None:
    first = run("list", "orders", "--limit", "2").stdout.splitlines()
    rest = run("list", "orders", "--after", "2-0").stdout.splitlines()

    assert [line.split() for line in first] == [
        ["ID", "GROUP", "SHARD", "RECORD", "DELIVERIES", "REASON"],
        ["1-0", "billing", "0", "7-0", "3", "why", "0"],
        ["2-0", "billing", "1", "7-0", "3", "why", "1"],
        ["3", "in", "all"],
    ]
    assert [line.split()[0] for line in rest[:2]] == ["ID", "3-0"]


def test_there_may_be_none(run: Letters) -> None:
    result = run("list", "shop", "-o", "json")

    assert (json.loads(result.stdout), result.exit_code) == ({"size": 0, "deadLetters": []}, 0)


def test_one_is_shown_whatever_its_octets_are(run: Letters) -> None:
    shown = run("show", "orders", "1-0")
    value = json.loads(run("show", "orders", "1-0", "-o", "json").stdout)

    assert [line.split(maxsplit=1) for line in shown.stdout.splitlines()[-3:]] == [
        ["FIELD", "VALUE"],
        ["n", "1"],
        ["\\xff", "\\x00\\r\\n"],
    ]
    assert value["fields"] == [
        {"name": "n", "value": "1"},
        {"name": {"base64": "/w=="}, "value": "\x00\r\n"},
    ]


def test_one_is_published_again_and_dropped(run: Letters) -> None:
    result = run("redrive", "orders", "1-0")

    (rows,) = run.ask(("XRANGE", "orders:0", "-", "+"))
    assert (result.stdout, result.exit_code) == ("redrove 1 dead letters of orders\n", 0)
    assert isinstance(rows, list)
    assert rows[-1][1] == [b"n", b"1", b"\xff", b"\x00\r\n"]
    assert run.left() == ["2-0", "3-0"]


def test_a_shard_that_is_gone_is_no_place_to_publish_to(run: Letters) -> None:
    refused = run("redrive", "orders", "--all")
    left = run.left()
    moved = run("redrive", "orders", "--all", "--shard", "0")

    assert (refused.exit_code, left) == (4, ["2-0", "3-0"])
    assert "orders:1: there is no such shard any more, so 2-0 stays" in refused.stderr
    assert (moved.exit_code, run.left()) == (0, [])
    assert run.ask(("EXISTS", "orders:1"), ("XLEN", "orders:0")) == [0, 4]


def test_they_are_dropped_by_id_or_all(run: Letters) -> None:
    asked = run("drop", "orders", "2-0")
    one = run("drop", "orders", "2-0", "--yes")
    left = run.left()
    all_of_them = run("drop", "orders", "--all", "--yes")

    assert (asked.exit_code, one.exit_code, left) == (2, 0, ["1-0", "3-0"])
    assert "to drop dead letters of orders destroys something" in asked.stderr
    assert (all_of_them.stdout, run.left()) == ("dropped 2 dead letters of orders\n", [])


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("show", "orders", "9-0"), 3, "orders:dlq: there is no dead letter 9-0"),
        (("redrive", "orders", "9-0"), 3, "orders:dlq: there is no dead letter 9-0"),
        (("show", "orders", "nine"), 2, "ID: must be the id of a dead letter"),
        (("list", "orders", "--after", "$"), 2, "ID: must be the id of a dead letter"),
        (("redrive", "orders"), 2, "ID: name dead letters by their ids, or say --all"),
        (("drop", "orders", "1-0", "--all", "--yes"), 2, "ID: name dead letters by their ids, or say --all"),
        (("list", "or{d}ers"), 2, "STREAM"),
        (("list", "orders", "--redis", "http://user:secret@here"), 2, "--redis can't be used: it begins with none of"),
        (("list", "orders", "--redis", "redis://127.0.0.1:1"), 6, "Redis can't be reached"),
    ],
)
def test_what_can_t_be_done_is_said_with_an_exit_code(
    run: Letters, arguments: tuple[str, ...], code: int, why: str
) -> None:
    result = run(*arguments)

    assert (result.exit_code, result.stdout) == (code, "")
    assert why in result.stderr
    assert "secret" not in result.stderr


def test_a_stranger_s_entry_is_left_alone(run: Letters) -> None:
    run.ask(("XADD", "orders:dlq", "9-0", "a", "b"))

    run("drop", "orders", "--all", "--yes")

    assert run.ask(("XLEN", "orders:dlq")) == [1]
