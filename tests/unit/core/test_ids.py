"""Versions grow by one, rings forget the oldest nonce, keys read as people write them."""

from streamshard.core.ids import (
    LINEAGES_KEPT,
    RING_SIZE,
    GroupKey,
    GroupName,
    Lineage,
    Nonce,
    ShardIndex,
    StreamPrefix,
    Version,
    extend_ring,
    next_version,
    remember_lineages,
    stream_key,
)


def test_the_next_version_stays_in_its_lineage() -> None:
    version = Version(Lineage("l1"), 7, Nonce("n7"))

    assert next_version(version, Nonce("n8")) == Version(Lineage("l1"), 8, Nonce("n8"))


def test_a_ring_remembers_nonces_oldest_first() -> None:
    assert extend_ring((Nonce("n1"),), Nonce("n2")) == ("n1", "n2")
    assert extend_ring((), Nonce("n1")) == ("n1",)


def test_a_full_ring_forgets_its_oldest_nonce() -> None:
    full = tuple(Nonce(f"n{number}") for number in range(RING_SIZE))

    extended = extend_ring(full, Nonce("new"))

    assert extended == (*full[1:], "new")
    assert len(extended) == RING_SIZE


def test_lineages_are_remembered_once_each_and_the_oldest_is_forgotten_first() -> None:
    many = tuple(Lineage(f"l{number}") for number in range(LINEAGES_KEPT))

    assert remember_lineages((), Lineage("a"), Lineage("b"), Lineage("a")) == ("a", "b")
    assert remember_lineages(many, many[3], Lineage("new")) == (*many[1:], "new")


def test_a_group_key_reads_as_a_path() -> None:
    assert str(GroupKey(StreamPrefix("orders"), GroupName("billing"))) == "orders/billing"


def test_group_keys_are_ordered_by_stream_and_then_by_group() -> None:
    one, two, three = (
        GroupKey(StreamPrefix(prefix), GroupName(group)) for prefix, group in [("a", "z"), ("b", "a"), ("b", "c")]
    )

    assert sorted([three, one, two]) == [one, two, three]


def test_a_shard_key_is_the_prefix_and_the_index() -> None:
    assert stream_key(StreamPrefix("orders:eu"), ShardIndex(4)) == "orders:eu:4"
