"""Bodies of operators: what is understood, and what a refusal says."""

import json
from typing import Any

import pytest

from streamshard.core.admin import Author, CreateGroup, CreateStream, GroupSpec, Scale
from streamshard.core.ids import GroupKey, GroupName, ReshardingId, StreamPrefix
from streamshard.entrypoints.http import wire
from streamshard.errors import InvalidRequest

ORDERS = StreamPrefix("orders")
BILLING = GroupKey(ORDERS, GroupName("billing"))
AUTHOR = Author("ops", "growth")
ASKED = {"requestedBy": "ops", "reason": "growth"}


def body(**fields: Any) -> bytes:
    return json.dumps({**ASKED, **fields}).encode()


def refusal(raw: bytes) -> str:
    with pytest.raises(InvalidRequest) as caught:
        wire.decode_scale(raw)
    return caught.value.message


def test_a_create_becomes_a_command_with_its_groups() -> None:
    decoded = wire.decode_create_stream(
        body(initialShardCount=4, consumerGroups=["billing", "audit"], startFrom="latest", adopt=True)
    )

    assert decoded.command(ORDERS, AUTHOR, default=12, limit=100) == CreateStream(
        prefix=ORDERS,
        author=AUTHOR,
        shard_count=4,
        groups=(GroupSpec(GroupName("billing"), "$"), GroupSpec(GroupName("audit"), "$")),
        adopt=True,
    )


def test_a_create_without_a_count_gets_the_coordinators_default() -> None:
    decoded = wire.decode_create_stream(body())

    assert decoded.command(ORDERS, AUTHOR, default=12, limit=100) == CreateStream(ORDERS, AUTHOR, 12)


def test_a_group_without_a_count_takes_what_the_stream_has() -> None:
    decoded = wire.decode_create_group(body(startFrom="5", allowLegacyMembers=True))

    assert decoded.command(BILLING, AUTHOR, limit=100) == CreateGroup(
        key=BILLING, author=AUTHOR, spec=GroupSpec(BILLING.group, "5-0", allow_legacy=True)
    )


def test_a_scale_becomes_a_command() -> None:
    decoded = wire.decode_scale(body(targetShardCount=0, stopProducers=True, ignoreForeignGroups=["old"]))
    resharding = ReshardingId("reshard-1")

    assert decoded.command(ORDERS, AUTHOR, resharding, limit=100) == Scale(
        prefix=ORDERS,
        author=AUTHOR,
        target=0,
        resharding_id=resharding,
        ignore_foreign_groups=(GroupName("old"),),
        stop_producers=True,
    )


def test_fields_of_later_versions_are_ignored() -> None:
    decoded = wire.decode_scale(body(targetShardCount=3, colour="blue", nested={"a": [1, {}]}))

    assert decoded == wire.decode_scale(body(targetShardCount=3))


def test_an_ignored_number_may_be_of_any_length() -> None:
    long = body(targetShardCount=3).replace(b"{", b'{"unknown": ' + b"1" * 5_000 + b", ", 1)

    assert wire.decode_scale(long) == wire.decode_scale(body(targetShardCount=3))


@pytest.mark.parametrize("count", [True, False, 1.0, 1e3, "4", None, [4], {}, -1, 2**53, 10**30])
def test_only_whole_numbers_from_zero_are_counts(count: object) -> None:
    message = refusal(body(targetShardCount=count))

    assert message == "targetShardCount: must be a whole number of shards, at least 0"


@pytest.mark.parametrize("count", [0, -1, True, 2.5, "2"])
def test_a_stream_begins_with_at_least_one_shard(count: object) -> None:
    with pytest.raises(InvalidRequest, match="initialShardCount: must be a whole number of shards, at least 1"):
        wire.decode_create_stream(body(initialShardCount=count))


def test_more_shards_than_the_coordinator_allows_are_refused_by_name() -> None:
    decoded = wire.decode_scale(body(targetShardCount=10**9))

    with pytest.raises(InvalidRequest, match="targetShardCount: must be at most 16384"):
        decoded.command(ORDERS, AUTHOR, ReshardingId("r"), limit=16_384)


def test_every_field_to_mend_is_named_at_once() -> None:
    message = refusal(b'{"requestedBy": " ", "targetShardCount": "many"}')

    assert message == (
        "targetShardCount: must be a whole number of shards, at least 0; "
        "requestedBy: must be text that says who asks: not blank, at most 200 characters, no control characters; "
        "reason: is missing, it must be text that says why: not blank, at most 1000 characters, no control characters"
    )


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "a\x00", "\x1b[31m", "x" * 201, 7, None])
def test_who_asks_is_text_that_may_be_logged(text: object) -> None:
    assert refusal(body(targetShardCount=1, requestedBy=text)).startswith("requestedBy: must be text")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"targetShardCount": NaN}',
        b'{"targetShardCount": Infinity}',
        b'{"reason": "\xff\xfe"}',
        b'{"unknown": "\xff"}',
        b'{"reason": "\\ud800"}',
        b'{"reason": "\\ud800\\u0041"}',
        b"\xef\xbb\xbf{}",
        '{"a": 1}'.encode("utf-16"),
        b'{"targetShardCount": 1} trailing',
        b"{'targetShardCount': 1}",
        b'{"targetShardCount": 1,}',
        b"[" * 100_000,
        b'{"unknown":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"unknown":' * 100_000,
    ],
)
def test_what_is_no_json_is_refused_as_a_whole(raw: bytes) -> None:
    assert refusal(raw).startswith("body: ")


@pytest.mark.parametrize("raw", [b"[]", b"null", b"3", b'"text"', b"true"])
def test_json_that_is_no_object_is_refused(raw: bytes) -> None:
    assert refusal(raw) == "body: must be a JSON object"


def test_the_place_within_a_list_is_named() -> None:
    assert refusal(body(targetShardCount=1, ignoreForeignGroups=["a", 5])) == (
        "ignoreForeignGroups[1]: expected `str`, got `int`"
    )


def test_a_key_that_comes_twice_is_refused() -> None:
    message = refusal(b'{"targetShardCount": 1, "targetShardCount": 2, "requestedBy": "ops", "reason": "growth"}')

    assert message == "targetShardCount: stands there twice: send it once"


def test_a_bad_group_name_is_named_by_its_place() -> None:
    decoded = wire.decode_create_stream(body(consumerGroups=["billing", "a/b"]))

    with pytest.raises(InvalidRequest, match=r"consumerGroups\[1\]: has a '/'"):
        decoded.command(ORDERS, AUTHOR, default=12, limit=100)


def test_a_group_is_named_once() -> None:
    decoded = wire.decode_create_stream(body(consumerGroups=["billing", "billing"]))

    with pytest.raises(InvalidRequest, match="consumerGroups: names a group twice"):
        decoded.command(ORDERS, AUTHOR, default=12, limit=100)


def test_an_unknown_routing_protocol_is_refused() -> None:
    decoded = wire.decode_create_stream(body(routingProtocol="sha1"))

    with pytest.raises(InvalidRequest, match="routingProtocol: is unknown: use one of jump-v1, murmur3-v1, ring-v1"):
        decoded.command(ORDERS, AUTHOR, default=12, limit=100)


@pytest.mark.parametrize(
    ("text", "id"), [("earliest", "0"), ("latest", "$"), ("0", "0-0"), ("17-3", "17-3"), ("007-01", "7-1")]
)
def test_a_group_may_begin_anywhere(text: str, id: str) -> None:
    assert wire.start_id(text) == id


@pytest.mark.parametrize("text", ["", "0x1", "-1", "1-", "1-2-3", "$", "now", f"{2**64}", f"1-{2**64}", "١"])
def test_a_start_that_is_no_record_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="startFrom: must be earliest, latest or a record id"):
        wire.start_id(text)
