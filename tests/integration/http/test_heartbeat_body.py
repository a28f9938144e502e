"""The heartbeat's body and answer, field by field."""

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamshard.core.commands import Heartbeat, Hold, Intent
from streamshard.core.group import ShardProgress
from streamshard.core.ids import Epoch, Generation, InstanceId, MemberId, Millis, RecordId, Seq, ShardIndex, Token, View
from streamshard.core.replies import Extension, Grant, HeartbeatReply, Likeness, RetryReason, Status
from streamshard.core.timing import Timing
from streamshard.entrypoints.http.decoding import INT_LIMIT
from streamshard.entrypoints.http.heartbeats import (
    FEW,
    HeartbeatBody,
    HoldPart,
    Refused,
    ShardPart,
    decode_heartbeat,
    encode_reply,
    names,
    rejected,
    remembered_names,
)
from streamshard.errors import InvalidRequest

WEB = MemberId("web-m0")
INSTANCE = "0123456789abcdef0123456789ABCDEF"
BARE: dict[str, Any] = {
    "protocolVersion": 1,
    "requestId": "r-1",
    "memberId": "web-m0",
    "memberName": "web",
    "memberEpoch": 3,
    "metadataVersion": 7,
    "runtimeConsumerCapacity": {"runtimeMaxConcurrency": 4, "availableConcurrency": 2},
    "ownedShards": [],
    "revokingShards": [],
}
FULL: dict[str, Any] = {**BARE, "instanceId": INSTANCE, "seq": 9, "holds": []}


ANSWER = HeartbeatReply(Status.OK, WEB, Epoch(3), Seq(9), Millis(3_000), Millis(60_000), Millis(15_000), "r-1")


def raw(base: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({**base, **fields}).encode()


PROGRESS = {
    "shard": {"shardIndex": 5},
    "streamKey": "orders:5",
    "lastDeliveredId": "7-1",
    "lastAckedId": None,
    "ackFloor": "6-0",
    "pendingCount": 3,
    "updatedAt": "2026-01-01T00:00:00Z",
    "inFlight": 2,
    "readState": "READING",
    "lastReadAgeMs": 40,
    "handlingMs": 2000,
}
EVERYTHING: dict[str, Any] = {
    **FULL,
    "ownedShards": [{"shardIndex": 5}, {"shardIndex": 1}, {"shardIndex": 5}],
    "revokingShards": [{"shard": {"shardIndex": 2}, "state": "DRAINING", "inFlight": 1, "ackedAt": None}],
    "holds": [{"shardIndex": 5, "token": 11}, {"shardIndex": 2, "token": 8, "draining": True}],
    "shardProgress": [PROGRESS],
    "view": "opaque",
    "advertisedUrl": "http://10.0.0.1",
    "clientVersion": "1.0",
    "latenessMs": 100,
    "later": {"field": 1},
}


def heartbeat(body: HeartbeatBody) -> Heartbeat:
    """What a body that is not refused says."""
    command = body.command(WEB)
    assert isinstance(command, Heartbeat)
    return command


def test_every_field_reaches_the_command() -> None:
    body = decode_heartbeat(raw(EVERYTHING))

    assert body.command(WEB) == Heartbeat(
        member=WEB,
        intent=Intent.STAY,
        epoch=Epoch(3),
        instance=InstanceId(INSTANCE.lower()),
        seq=Seq(9),
        holds=(Hold(ShardIndex(5), Token(11)), Hold(ShardIndex(2), Token(8), draining=True)),
        view=View("opaque"),
        metadata_version=7,
        member_name="web",
        request_id="r-1",
        max_concurrency=4,
        available=2,
        owned=(ShardIndex(1), ShardIndex(5)),
        revoking=(ShardIndex(2),),
        progress=(
            ShardProgress(
                ShardIndex(5), RecordId("7-1"), None, RecordId("6-0"), 3, 2, "READING", Millis(40), Millis(2_000)
            ),
        ),
        advertised_url="http://10.0.0.1",
        client_version="1.0",
        late=Millis(100),
    )


@pytest.mark.parametrize(("epoch", "intent"), [(0, Intent.JOIN), (-1, Intent.LEAVE), (1, Intent.STAY)])
def test_the_epochs_meaning_is_decoded_at_the_edge(epoch: int, intent: Intent) -> None:
    assert heartbeat(decode_heartbeat(raw(FULL, memberEpoch=epoch))).intent is intent


def test_an_older_client_is_numbered_by_its_metadata_version() -> None:
    beat = heartbeat(decode_heartbeat(raw(BARE)))

    assert (beat.instance, beat.seq, beat.holds, beat.late) == (None, Seq(7), (), None)


@pytest.mark.parametrize(
    ("report", "finished"),
    [
        ({"state": "REVOKED", "inFlight": 0}, (2,)),
        ({"state": "REVOKED"}, (2,)),
        ({"state": "REVOKED", "inFlight": 2}, ()),
        ({"state": "DRAINING", "inFlight": 0}, ()),
        ({"state": "REVOKING", "inFlight": 0}, ()),
        ({}, ()),
    ],
)
def test_a_shard_is_finished_once_it_is_revoked_and_nothing_of_it_is_in_flight(
    report: dict[str, Any], finished: tuple[int, ...]
) -> None:
    beat = heartbeat(decode_heartbeat(raw(BARE, revokingShards=[{"shard": {"shardIndex": 2}, **report}])))

    assert (beat.revoking, beat.revoked) == ((2,), finished)


@pytest.mark.parametrize("field", sorted(BARE))
def test_a_missing_field_is_named(field: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{field}: is missing"):
        decode_heartbeat(json.dumps({k: v for k, v in FULL.items() if k != field}).encode())


@pytest.mark.parametrize("field", ["seq", "holds"])
def test_an_instance_without_its_seq_or_holds_is_refused_rather_than_read_as_holding_nothing(field: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{field}: is missing: it goes with instanceId"):
        decode_heartbeat(json.dumps({k: v for k, v in FULL.items() if k != field}).encode())


def test_holds_without_an_instance_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="^instanceId: is missing"):
        decode_heartbeat(raw(FULL, instanceId=None, holds=[{"shardIndex": 1, "token": 1}]))


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("requestId", " ", "requestId: must be text, not blank"),
        ("memberEpoch", True, "memberEpoch: must be a whole number"),
        ("memberEpoch", 2**53, "memberEpoch: must be a whole number"),
        ("memberEpoch", 1.0, "memberEpoch: must be a whole number"),
        ("instanceId", "abc", "instanceId: must be 128 random bits as 32 hex digits"),
        ("instanceId", INSTANCE + "0", "instanceId: must be 128 random bits as 32 hex digits"),
        ("seq", -1, "seq: must be a whole number, at least 0"),
        ("clientVersion", "1\n2", "clientVersion: must be text of at most 2000 characters"),
        ("holds", [{"shardIndex": 1}], r"holds\[0\]: object missing required field `token`"),
        ("holds", [{"shardIndex": 1, "token": -1}], r"holds\[0\].token: expected `int` >= 0"),
        ("ownedShards", [4], r"ownedShards\[0\]: expected `object`, got `int`"),
        ("ownedShards", [{"shardIndex": 1}] * 16_385, "ownedShards: must be a list of {shardIndex}"),
        ("runtimeConsumerCapacity", {"runtimeMaxConcurrency": 0, "availableConcurrency": 0}, "runtimeConsumerCapacity"),
    ],
)
def test_an_ill_typed_field_is_named(field: str, value: object, told: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{told}"):
        decode_heartbeat(raw(FULL, **{field: value}))


@pytest.mark.parametrize(
    ("fields", "status", "told"),
    [
        ({"protocolVersion": 2}, Status.UNSUPPORTED_PROTOCOL, "protocolVersion"),
        ({"protocolVersion": 2, "memberId": "other"}, Status.UNSUPPORTED_PROTOCOL, "protocolVersion"),
        ({"memberId": "other"}, Status.INVALID_REQUEST, "memberId"),
        ({"memberEpoch": -2}, Status.INVALID_REQUEST, "memberEpoch"),
        ({"ownedShards": [{"shardIndex": -1}]}, Status.INVALID_REQUEST, "ownedShards"),
        ({"holds": [{"shardIndex": 16_384, "token": 1}]}, Status.INVALID_REQUEST, "holds"),
        ({"holds": [{"shardIndex": 1, "token": 1}] * 2}, Status.INVALID_REQUEST, "holds"),
        ({"revokingShards": [{"shard": {"shardIndex": -1}}]}, Status.INVALID_REQUEST, "revokingShards"),
        ({"shardProgress": [{"shard": {"shardIndex": 10**6}}]}, Status.INVALID_REQUEST, "shardProgress"),
    ],
)
def test_what_can_be_read_may_still_be_refused(fields: dict[str, Any], status: Status, told: str) -> None:
    refused = decode_heartbeat(raw(FULL, **fields)).command(WEB)

    assert isinstance(refused, Refused)
    assert (refused.status, refused.why.partition(":")[0]) == (status, told)


def test_a_rejected_answer_has_no_group_values_and_the_epoch_that_was_sent() -> None:
    body = decode_heartbeat(raw(FULL, memberEpoch=-2))

    answer = json.loads(
        encode_reply(rejected(body, WEB, Refused(Status.INVALID_REQUEST, "memberEpoch: why"), Timing()))
    )

    assert answer == {
        "responseTo": "r-1",
        "status": "INVALID_REQUEST",
        "memberId": "web-m0",
        "memberEpoch": -2,
        "heartbeatIntervalMs": 3000,
        "rebalanceTimeoutMs": 60000,
        "groupEpoch": 0,
        "assignmentEpoch": 0,
        "metadataVersion": 0,
        "assignment": {"assignedShards": [], "pendingShards": [], "metadataVersion": 0},
        "leaseMs": 15000,
        "seq": 9,
        "view": None,
        "grants": [],
        "extended": [],
        "retryAfterMs": None,
        "retryReason": None,
        "message": "memberEpoch: why",
    }


def test_an_answer_sorts_its_shards() -> None:
    reply = HeartbeatReply(
        status=Status.RETRY,
        member=WEB,
        epoch=Epoch(3),
        seq=Seq(9),
        heartbeat_ms=Millis(3000),
        rebalance_timeout_ms=Millis(60000),
        lease_ms=Millis(15000),
        response_to="r-1",
        group_epoch=Epoch(4),
        assignment_epoch=Epoch(5),
        metadata_version=6,
        assigned=(ShardIndex(10), ShardIndex(9)),
        pending=(ShardIndex(3), ShardIndex(2)),
        grants=(Grant(ShardIndex(10), Token(7), Generation(1)), Grant(ShardIndex(9), Token(8), Generation(2))),
        extended=(Extension(ShardIndex(10), Token(7)), Extension(ShardIndex(1), Token(5))),
        view=View("v"),
        retry_after_ms=Millis(50),
        retry_reason=RetryReason.NAME_HELD,
    )

    answer = json.loads(encode_reply(reply))

    assert answer["assignment"] == {
        "assignedShards": [{"shardIndex": 9}, {"shardIndex": 10}],
        "pendingShards": [{"shardIndex": 2}, {"shardIndex": 3}],
        "metadataVersion": 6,
    }
    assert answer["grants"] == [
        {"shardIndex": 9, "token": 8, "generation": 2},
        {"shardIndex": 10, "token": 7, "generation": 1},
    ]
    assert answer["extended"] == [{"shardIndex": 1, "token": 5}, {"shardIndex": 10, "token": 7}]
    assert (answer["groupEpoch"], answer["assignmentEpoch"], answer["view"]) == (4, 5, "v")
    assert (answer["retryAfterMs"], answer["retryReason"], answer["message"]) == (50, "NAME_HELD", None)


@given(st.text(), st.text(max_size=10), st.integers(0, INT_LIMIT))
def test_what_answers_have_in_common_is_written_once_and_reads_the_same(asked: str, view: str, seq: int) -> None:
    likeness = Likeness()
    first = attrs.evolve(ANSWER, view=View(view), likeness=likeness)
    encode_reply(first)
    later = attrs.evolve(first, response_to=asked, seq=Seq(seq))

    assert encode_reply(later) == encode_reply(attrs.evolve(later, likeness=None))


def test_names_that_were_remembered_are_the_ones_that_were_named() -> None:
    count = 8
    owned = tuple(ShardPart(ShardIndex(index)) for index in range(count))
    holds = tuple(HoldPart(ShardIndex(index), Token(7), draining=index == 1) for index in range(count))

    assert remembered_names(owned, (), holds) == names(owned, (), holds)
    assert names(owned, (), holds).holds == tuple(Hold(ShardIndex(i), Token(7), i == 1) for i in range(count))


@pytest.mark.parametrize("count", [FEW, FEW + 1])
def test_few_holds_or_many_reach_the_command(count: int) -> None:
    holds = [{"shardIndex": index, "token": 7} for index in range(count)]

    beat = heartbeat(decode_heartbeat(raw(FULL, holds=holds)))

    assert beat.holds == tuple(Hold(ShardIndex(index), Token(7)) for index in range(count))
