"""``streamshard repair``: what was deleted behind the coordinators' back comes back while they go on."""

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.integration.cli.processes import Served, serving, streamshard
from tests.integration.cluster import Cluster, ask
from tests.integration.stores.redis_rig import Server, server
from tests.servers import Servers

INDEX = "streamshard:streams"


@pytest.fixture
def redis(servers: Servers) -> Iterator[Server]:
    with server(servers.binary("valkey")) as started:
        yield started


def test_a_lost_index_is_rebuilt_while_a_coordinator_runs(redis: Server) -> None:
    with serving("--store", redis.url, "--redis", redis.url) as served:
        create(served, "orders", "invoices")
        redis.ask("DEL", INDEX)
        lost = listed(served)

        answer = streamshard("repair", "index", "--store", redis.url)

        assert (lost, listed(served)) == ([], ["invoices", "orders"])
    assert (answer.returncode, answer.stdout) == (0, "2 streams in the index\ninvoices\norders\n")


def test_an_index_of_another_kind_or_about_to_expire_is_made_good(redis: Server) -> None:
    with serving("--store", redis.url, "--redis", redis.url) as served:
        create(served, "orders")
        redis.ask("SET", INDEX, "no set", "PX", 100_000)
        streamshard("repair", "index", "--store", redis.url)
        after_another_kind = listed(served)
        redis.ask("PEXPIRE", INDEX, 100_000)

        answer = streamshard("repair", "index", "-o", "json", environment={"STREAMSHARD_STORE": redis.url})

    assert after_another_kind == ["orders"]
    assert json.loads(answer.stdout) == {"streams": ["orders"]}
    assert redis.ask("PTTL", INDEX) == -1


def test_the_index_of_a_cluster_is_rebuilt_from_every_master(servers: Servers) -> None:
    names = [f"stream-{number}" for number in range(8)]
    with Cluster(servers.binary("valkey")) as cluster:
        with serving("--store", cluster.url, "--redis", "memory:") as served:
            create(served, *names)
            for node in cluster.masters:
                ask(node.port, "DEL", INDEX)

            answer = streamshard("repair", "index", "--store", cluster.url, "-o", "json")

            assert listed(served) == names
    assert json.loads(answer.stdout) == {"streams": names}


@pytest.mark.parametrize(
    ("store", "code", "told"),
    [
        ("memory:", 2, "--store: only metadata in Redis has an index"),
        ("sqlite:///meta.db", 2, "--store: only metadata in Redis has an index"),
        ("mysql://x", 2, "--store: must be sqlite:///PATH"),
        ("redis://127.0.0.1:1", 1, "the metadata store at 127.0.0.1:1 can't be reached"),
    ],
)
def test_what_has_no_index_is_refused_in_one_sentence(store: str, code: int, told: str) -> None:
    answer = streamshard("repair", "index", "--store", store)

    assert (answer.returncode, answer.stdout) == (code, "")
    assert answer.stderr.startswith(f"Error: {told}")
    assert len(answer.stderr.splitlines()) == 1


def create(served: Served, *names: str) -> None:
    for name in names:
        body = {"requestedBy": "ann", "initialShardCount": 1}
        assert httpx.post(f"{served.url}/coord/v1/streams/{name}", json=body, trust_env=False).status_code == 201


def listed(served: Served) -> list[str]:
    answer = httpx.get(served.url + "/coord/v1/streams", trust_env=False).json()
    return [stream["streamPrefix"] for stream in answer["streams"]]
