"""Keys over named nodes: by our own ring, and by the one that Envoy builds.

Positions and counts of Envoy's ring are those of its own tests (ring_hash_lb_test.cc).
"""

from collections import Counter

import pytest

from streamshard.core.nodes import NODE_PROTOCOLS, Node, NodeRing, node_ring
from streamshard.core.routing import placing
from streamshard.errors import InvalidRequest
from tests.routed import NODE_VECTORS, NodeVector

LAST = 2**64 - 1
KEYS = [f"job-{number}".encode() for number in range(3_000)]


def envoy(size: int, *weights: int, first_port: int = 90) -> NodeRing:
    nodes = [Node(f"127.0.0.1:{port}", weight) for port, weight in enumerate(weights, start=first_port)]
    return node_ring("envoy-ring-v1", nodes, size)


def drawn(ring: NodeRing) -> list[tuple[str, int]]:
    return [(ring.names[owner][-2:], point) for point, owner in zip(ring.ring.hashes, ring.ring.owners, strict=True)]


def test_every_protocol_for_nodes_has_vectors() -> None:
    assert {vector.protocol for vector in NODE_VECTORS} == set(NODE_PROTOCOLS)


@pytest.mark.parametrize("vector", NODE_VECTORS, ids=lambda v: f"{v.protocol}-{v.key.hex()}-{len(v.nodes)}")
def test_a_vector_is_met(vector: NodeVector) -> None:
    assert node_ring(vector.protocol, vector.nodes, vector.ring_size).node(vector.key) == vector.node


def test_envoys_ring_of_six_hosts_is_the_one_it_publishes() -> None:
    ring = envoy(12, 1, 1, 1, 1, 1, 1)

    assert drawn(ring) == [
        ("94", 833437586790550860),
        ("92", 928266305478181108),
        ("90", 1033482794131418490),
        ("95", 3551244743356806947),
        ("93", 3851675632748031481),
        ("91", 5583722120771150861),
        ("91", 6311230543546372928),
        ("93", 7700377290971790572),
        ("95", 13144177310400110813),
        ("92", 13444792449719432967),
        ("94", 15516499411664133160),
        ("90", 16117243373044804889),
    ]
    assert [ring.ring.owner(h) for h in (0, LAST, 3551244743356806947, 3551244743356806948)] == [4, 4, 5, 3]


def test_each_of_envoys_hosts_has_a_whole_number_of_points() -> None:
    assert drawn(envoy(3, 1, 1, first_port=80)) == [
        ("80", 5454692015285649509),
        ("81", 7859399908942313493),
        ("80", 13838424394637650569),
        ("81", 16064866803292627174),
    ]


def test_envoys_weights_are_points() -> None:
    assert {point: name for name, point in drawn(envoy(6, 1, 2, 3))} == {
        928266305478181108: "92",
        4443673547860492590: "92",
        5583722120771150861: "91",
        6311230543546372928: "91",
        13444792449719432967: "92",
        16117243373044804889: "90",
    }


def test_a_large_weighted_ring_shares_out_hashes_as_envoys_does() -> None:
    ring = envoy(6_144, 1, 2, 3).ring

    hits = Counter(ring.owner(number * (LAST // 6_000)) for number in range(6_000))

    assert Counter(ring.owners) == {0: 1_024, 1: 2_048, 2: 3_072}
    assert hits == {0: 987, 1: 1_932, 2: 3_081}


def test_points_that_make_no_whole_number_are_rounded_along_the_way() -> None:
    assert Counter(envoy(10, 3, 5, 7).ring.owners) == {0: 2, 1: 4, 2: 4}


def test_nodes_named_by_number_are_the_ring_of_shards() -> None:
    ring, place = node_ring("ring-v1", [Node(str(index)) for index in range(5)]), placing("ring-v1", 5)

    assert [ring.node(key) for key in KEYS] == [str(place(key)) for key in KEYS]


def test_the_order_of_the_nodes_has_no_say() -> None:
    nodes = [Node("gateway-b", 2), Node("gateway-a"), Node("gateway-c")]

    rings = [node_ring("ring-v1", order) for order in (nodes, nodes[::-1])]

    assert [rings[0].node(key) for key in KEYS] == [rings[1].node(key) for key in KEYS]


def test_twice_the_weight_is_about_twice_the_keys() -> None:
    shares = node_ring("ring-v1", [Node("a"), Node("b"), Node("c", 2)]).ring.shares()

    assert shares == pytest.approx({0: 0.25, 1: 0.25, 2: 0.5}, abs=0.05)


@pytest.mark.parametrize("protocol", sorted(NODE_PROTOCOLS))
def test_a_node_that_goes_gives_its_keys_away_and_nobody_elses(protocol: str) -> None:
    # A size that is a multiple of both counts of nodes: Envoy's ring grows with a fraction.
    before = node_ring(protocol, [Node("a:1"), Node("b:1"), Node("c:1"), Node("d:1")], 1_200)
    after = node_ring(protocol, [Node("a:1"), Node("b:1"), Node("d:1")], 900)

    moved = {before.node(key) for key in KEYS if before.node(key) != after.node(key)}

    assert moved == {"c:1"}


@pytest.mark.parametrize(
    ("nodes", "size", "said"),
    [
        ([], 1_024, "nodes: there is none"),
        ([Node("a"), Node("b"), Node("a", 2)], 1_024, "nodes: one is named twice"),
        ([Node("")], 1_024, "nodes: '' is no name"),
        ([Node("a\n")], 1_024, r"nodes: 'a\\n' is no name"),
        ([Node("a"), Node("b", 0)], 1_024, "nodes: the weight of b must be 1 or more, not 0"),
        ([Node("a", 10**9), Node("b")], 1_024, "nodes: take .* points on the ring, at most 1048576: use lower weights"),
        ([Node("a")], 0, "minimum ring size: must be from 1 to 1048576, not 0"),
        ([Node("a")], 2**20 + 1, "minimum ring size: must be from 1 to 1048576"),
    ],
)
def test_nodes_that_make_no_ring_are_refused(nodes: list[Node], size: int, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        node_ring("envoy-ring-v1", nodes, size)


def test_a_protocol_for_shards_alone_is_refused_for_nodes() -> None:
    text = "protocol: 'jump-v1' is unknown for nodes, use one of: envoy-ring-v1, ring-v1"

    with pytest.raises(InvalidRequest, match=text):
        node_ring("jump-v1", [Node("a")])
