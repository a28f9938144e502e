"""Whoever routes a key meets the vectors: server, command line, producer, threads' producer."""

import asyncio
import base64
import json
import os
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import attrs
import httpx
import pytest
from click.testing import CliRunner

import streamshard
from streamshard import Producer, Published, ScriptedCoordinator, SyncProducer
from streamshard.adapters import hashing
from streamshard.adapters.client.producer import Publishing
from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.core import routing as pure
from streamshard.core.replies import Routing
from streamshard.entrypoints.cli.root import cli
from streamshard.testing.clock import ManualClock, SeededEntropy
from tests.integration.cli.processes import IN_MEMORY, Served, serving
from tests.integration.client.script import ORDERS, memory_streams, routing
from tests.integration.http.service import ASKED
from tests.routed import NODE_VECTORS, VECTORS, NodeVector, Vector

SMALL = 24
"""More shards than these are of no further interest, and take long to make."""


def by_layout(vector: Vector) -> tuple[str, int]:
    return vector.protocol, vector.shards


LAYOUTS = [
    pytest.param(protocol, shards, list(vectors), id=f"{protocol}-{shards}")
    for (protocol, shards), vectors in groupby(sorted(VECTORS, key=by_layout), key=by_layout)
    if shards <= SMALL
]
layouts = pytest.mark.parametrize(("protocol", "shards", "vectors"), LAYOUTS)


def laid_out(protocol: str, shards: int) -> Routing:
    return attrs.evolve(routing(shards), protocol=protocol)


def shards_of(vectors: list[Vector]) -> list[int]:
    return [vector.shard for vector in vectors]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(*IN_MEMORY) as started:
        yield started


def printed(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli, [*arguments, "-o", "json"])
    assert result.exit_code == 0, result.stderr
    told: dict[str, Any] = json.loads(result.stdout)
    return told


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v.protocol}-{v.key.hex()[:24]}-{v.shards}")
def test_the_function_for_applications_meets_them(vector: Vector) -> None:
    assert streamshard.route(vector.protocol, vector.key, vector.shards) == vector.shard


@pytest.mark.parametrize("vector", NODE_VECTORS, ids=lambda v: f"{v.protocol}-{v.key.hex()}-{len(v.nodes)}")
def test_the_function_for_nodes_meets_them(vector: NodeVector) -> None:
    assert hashing.node_ring(vector.protocol, vector.nodes, vector.ring_size).node(vector.key) == vector.node


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 16, 100])
@pytest.mark.parametrize("protocol", sorted(pure.PROTOCOLS))
def test_fast_hashes_change_no_shard(protocol: str, shards: int) -> None:
    fast, slow = hashing.placing(protocol, shards), pure.placing(protocol, shards)
    keys = [os.urandom(length) for length in range(100)]

    assert [fast(key) for key in keys] == [slow(key) for key in keys]


@layouts
def test_the_server_and_the_command_line_meet_them(
    served: Served, protocol: str, shards: int, vectors: list[Vector]
) -> None:
    stream, at = f"s-{protocol}-{shards}", ("--url", served.url)
    printed("streams", "create", stream, "--shards", str(shards), "--routing", protocol, *at)
    asked = f"{served.url}/coord/v1/streams/{stream}/route"

    answers = [
        httpx.get(asked, params={"keyBase64": base64.b64encode(vector.key).decode()}).json() for vector in vectors
    ]
    # NUL ends an argument.
    typed = [vector for vector in vectors if b"\0" not in vector.key]
    shown = [printed("route", os.fsdecode(vector.key), "--stream", stream, *at) for vector in typed]

    assert {answer["routingProtocol"] for answer in (*answers, *shown)} == {protocol}
    assert [answer["shardIndex"] for answer in answers] == shards_of(vectors)
    assert [answer["shardIndex"] for answer in shown] == shards_of(typed)


@layouts
def test_producers_meet_them(protocol: str, shards: int, vectors: list[Vector]) -> None:
    api = ScriptedCoordinator(routings=[laid_out(protocol, shards)])
    log = MemoryShardLog(memory_streams(shards))
    producer = Producer(Publishing(ORDERS), api, log, ManualClock(), SeededEntropy())

    async def scenario() -> tuple[list[int], list[int]]:
        one: list[int] = [(await producer.publish(vector.key, {"n": 1})).shard for vector in vectors]
        many = await producer.publish_many([(vector.key, {"n": 1}) for vector in vectors])
        return one, [result.shard for result in many if isinstance(result, Published)]

    assert asyncio.run(scenario()) == (shards_of(vectors), shards_of(vectors))


@layouts
def test_producers_of_threads_meet_them(protocol: str, shards: int, vectors: list[Vector]) -> None:
    api = ScriptedCoordinator(routings=[laid_out(protocol, shards)])

    with SyncProducer("orders", "billing", api, MemoryShardLog(memory_streams(shards))) as orders:
        published = [orders.publish(vector.key, {"n": 1}).shard for vector in vectors]

    assert published == shards_of(vectors)


@pytest.mark.parametrize("vector", NODE_VECTORS, ids=lambda v: f"{v.protocol}-{v.key.hex()}-{len(v.nodes)}")
def test_the_command_line_meets_those_for_nodes(vector: NodeVector) -> None:
    nodes = [word for node in vector.nodes for word in ("--node", f"{node.name}={node.weight}")]

    told = printed(
        "route",
        vector.key.decode(),
        *nodes,
        "--protocol",
        vector.protocol,
        "--minimum-ring-size",
        str(vector.ring_size),
    )

    assert told == {"node": vector.node, "protocol": vector.protocol}


def test_a_stream_keeps_its_protocol_as_it_grows(served: Served) -> None:
    at = ("--url", served.url)
    printed("streams", "create", "growing", "--shards", "4", "--routing", "ring-v1", "--group", "billing", *at)

    printed("streams", "scale", "growing", "5", "--reason", "load", "--wait", *at)
    described = printed("streams", "describe", "growing", *at)
    asked = f"{served.url}/coord/v1/streams/growing/groups/billing/producer-routing"
    told = httpx.get(asked).json()

    assert (described["routingProtocol"], described["shardCount"]) == ("ring-v1", 5)
    assert (told["routingProtocol"], told["shardCount"]) == ("ring-v1", 5)


def test_an_unknown_protocol_makes_no_stream(served: Served) -> None:
    refused = CliRunner().invoke(cli, ["streams", "create", "odd", "--routing", "envoy-ring-v1", "--url", served.url])
    answer = httpx.post(f"{served.url}/coord/v1/streams/odd", json={**ASKED, "routingProtocol": "crc32"})

    assert refused.exit_code == 2
    assert answer.status_code == 400
    assert answer.json()["message"].startswith("routingProtocol: is unknown: use one of jump-v1, ")
    assert httpx.get(f"{served.url}/coord/v1/streams/odd").status_code == 404


def test_a_ring_of_too_many_shards_makes_no_stream(served: Served) -> None:
    body = {**ASKED, "routingProtocol": "ring-v1", "initialShardCount": 1_025}

    answer = httpx.post(f"{served.url}/coord/v1/streams/vast", json=body)

    assert answer.status_code == 400
    assert "ring-v1 can't route over 1025 shards" in answer.text
