"""Bodies that repeat themselves: what is read by what differs is what reading the whole body comes to."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamshard.core.commands import Heartbeat
from streamshard.core.ids import GroupKey, GroupName, MemberId, StreamPrefix
from streamshard.entrypoints.http.decoding import INT_LIMIT
from streamshard.entrypoints.http.heartbeats import Refused, decode_heartbeat
from streamshard.entrypoints.http.refrains import LONGEST, Refrain, Refrains, refrain_of
from streamshard.errors import InvalidRequest

WEB = MemberId("web-m0")
KEY = GroupKey(StreamPrefix("orders"), GroupName("billing"))
PROGRESS: dict[str, Any] = {
    "shard": {"shardIndex": 5},
    "streamKey": "orders:5",
    "lastDeliveredId": "7-1",
    "lastAckedId": None,
    "pendingCount": 3,
    "readState": "READING",
    "updatedAt": "2026-01-01T00:00:00Z",
}
FIELDS: dict[str, Any] = {
    "protocolVersion": 1,
    "requestId": "r-1",
    "memberId": "web-m0",
    "memberName": "wéb",
    "memberEpoch": 3,
    "metadataVersion": 7,
    "runtimeConsumerCapacity": {"runtimeMaxConcurrency": 4, "availableConcurrency": 2},
    "ownedShards": [{"shardIndex": 5}],
    "revokingShards": [],
    "shardProgress": [PROGRESS],
    "instanceId": "0123456789abcdef0123456789ABCDEF",
    "seq": 9,
    "holds": [{"shardIndex": 5, "token": 11}],
    "view": "opaque",
    "later": {"field": 1},
}
LATE = {**FIELDS, "latenessMs": 12}


def raw(fields: dict[str, Any], **told: Any) -> bytes:
    return json.dumps({**fields, **told}, ensure_ascii=False).encode()


def as_a_whole(body: bytes) -> Heartbeat | None:
    try:
        read = decode_heartbeat(body).command(WEB)
    except InvalidRequest:
        return None
    return None if isinstance(read, Refused) else read


def refrain(body: bytes) -> Refrain | None:
    said = as_a_whole(body)
    assert said is not None
    return refrain_of(body, KEY, said)


def known(body: bytes) -> Refrain:
    found = refrain(body)
    assert found is not None
    return found


def with_available(number: object) -> dict[str, Any]:
    return {"runtimeConsumerCapacity": {"runtimeMaxConcurrency": 4, "availableConcurrency": number}}


GOING_ON = [
    {"seq": 10},
    {"seq": INT_LIMIT},
    {"requestId": "another.id:1_2-3"},
    with_available(0),
    with_available(10),
    {"shardProgress": []},
    {"shardProgress": [{**PROGRESS, "lastDeliveredId": "8-0", "updatedAt": "2026-01-01T00:00:03Z"}]},
    {"shardProgress": [PROGRESS, {"shard": {"shardIndex": 6}, "more": [[1], {"a": '], "instanceId": '}]}]},
    {"seq": 11, "requestId": "r-2", "shardProgress": [], **with_available(1)},
]


@pytest.mark.parametrize("told", GOING_ON)
@pytest.mark.parametrize("first", [FIELDS, {**FIELDS, "shardProgress": []}, LATE])
def test_a_body_that_differs_in_what_each_attempt_tells_is_read_by_that(
    first: dict[str, Any], told: dict[str, Any]
) -> None:
    body = raw(first, **told)

    read = known(raw(first)).read(body)

    assert read == as_a_whole(body)
    assert read is not None


@pytest.mark.parametrize("late", [0, 7, 10_000])
def test_how_late_a_heartbeat_left_is_read_where_it_is_told(late: int) -> None:
    read = known(raw(LATE)).read(raw(LATE, latenessMs=late))

    assert read == as_a_whole(raw(FIELDS, latenessMs=late))
    assert read is not None


LIKE_THE_REST = ', "instanceId": "0123456789abcdef0123456789ABCDEF", "seq": '
OTHERWISE: list[bytes] = [
    *(raw(FIELDS, **{name: other}) for name, other in {"view": "newer", "holds": [], "memberEpoch": 4}.items()),
    raw(FIELDS, ownedShards=[]),
    raw(FIELDS, seq=0),
    raw(FIELDS, seq=INT_LIMIT + 1),
    raw(FIELDS, seq=-1),
    raw(FIELDS, seq=1.5),
    raw(FIELDS, seq=None),
    raw(FIELDS, seq="9"),
    raw(FIELDS).replace(b'"seq": 9', b'"seq": ' + b"9" * 5_000),
    raw(FIELDS, requestId=" "),
    raw(FIELDS, requestId=""),
    raw(FIELDS, requestId="a" * 201),
    raw(FIELDS, requestId='a", "seq": 3, "x": "'),
    raw(FIELDS, requestId="a\tb"),
    raw(FIELDS, **with_available(-1)),
    raw(FIELDS, **with_available("1")),
    raw(FIELDS, **with_available(True)),
    raw(FIELDS, shardProgress=None),
    raw(FIELDS, shardProgress=[{}]),
    raw(FIELDS, shardProgress=[{"shard": {"shardIndex": -1}}]),
    raw(FIELDS, shardProgress=[{"shard": {"shardIndex": 10**9}}]),
    raw(FIELDS, shardProgress=[{**PROGRESS, "streamKey": "ördérs:5"}]),
    raw(FIELDS, shardProgress=[{**PROGRESS, "readState": "SLEEPING"}]),
    raw(FIELDS).replace(b'"seq": 9', b'"seq": 09'),
    raw(FIELDS).replace(b'"seq": 9', b'"seq": 9, "seq": 8'),
    raw(FIELDS).replace(b'"seq": 9', b'"seq": 9 '),
    raw(FIELDS).replace(b'"availableConcurrency": 2', b'"availableConcurrency": 02'),
    raw(FIELDS).replace(b'"readState": "READING"', b'"readState": "READING"}, {"shard": {"shardIndex": 5}'),
    raw(FIELDS).replace(b'"streamKey": "orders:5"', b'"streamKey": "\xff"'),
    raw(FIELDS).replace(b'"streamKey": "orders:5"', b'"x": {"y": 1' + LIKE_THE_REST.encode() + b"7}"),
    raw(FIELDS).replace(b"opaque", b"\xff"),
    raw(LATE, latenessMs=None),
    raw(LATE, latenessMs=-1),
    raw(LATE, latenessMs=1.5),
    raw(LATE)[:-1] + b', "latenessMs": 3}',
    raw(LATE)[:-1] + b', "seq": 3}',
    raw(LATE)[:-1],
    raw(FIELDS)[:-1],
    raw(FIELDS) + b"}",
    raw(FIELDS)[:40],
    b"",
    b"{}",
]


@pytest.mark.parametrize("body", OTHERWISE, ids=range(len(OTHERWISE)))
@pytest.mark.parametrize("first", [FIELDS, LATE])
def test_whatever_else_differs_is_never_misread(first: dict[str, Any], body: bytes) -> None:
    assert known(raw(first)).read(body) in (None, as_a_whole(body))


PIECES = [
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b"[]", b",", b":", b"0", b"1", b"-", b".5", b"e3", b" ", b"\n", b"\0"),
    *(b"\xff", b"null", b'"seq": 4', b', "seq": 4', b'"requestId": "z"', b'"availableConcurrency": 3', b"\\u0041"),
    *(b'"shardProgress": []', b'{"shard": {"shardIndex": 1}}', LIKE_THE_REST.encode()),
]


@given(st.data())
def test_no_change_of_any_byte_is_ever_misread(data: st.DataObject) -> None:
    told: dict[str, Any] = data.draw(st.sampled_from([{}, *GOING_ON]))
    first = data.draw(st.sampled_from([FIELDS, LATE]))
    body = raw(first, **told)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body)))
        piece = data.draw(st.sampled_from(PIECES) | st.binary(max_size=3))
        body = body[:at] + piece + body[at + data.draw(st.sampled_from([0, 0, 1, len(piece), 20])) :]

    assert known(raw(first)).read(body) in (None, as_a_whole(body))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(raw({name: FIELDS[name] for name in sorted(FIELDS)}), id="another-order"),
        pytest.param(raw({**FIELDS, "later": "v" * LONGEST}), id="too-long"),
        pytest.param(raw(FIELDS)[:-1] + b', "seq": 8}', id="a-number-that-comes-twice"),
        pytest.param(raw(FIELDS)[:-1] + b', "requestId": "r-2"}', id="an-id-that-comes-twice"),
        pytest.param(raw(FIELDS)[:-1] + b', "shardProgress": []}', id="progress-that-comes-twice"),
        pytest.param(raw({"a": {"requestId": "b"}, **FIELDS}), id="an-id-inside-of-something-else"),
        pytest.param(raw({**FIELDS, "instanceId": None, "holds": None}), id="an-older-client"),
    ],
)
def test_a_body_in_which_the_gaps_are_not_to_be_told_has_no_refrain(body: bytes) -> None:
    found = refrain(body)

    assert found is None


class TestRefrains:
    def learn(self, refrains: Refrains, body: bytes, name: str = "web-m0") -> None:
        said = as_a_whole(body)
        assert said is not None
        refrains.learn(name, body, KEY, said)

    def test_what_was_said_once_is_known_under_its_name(self) -> None:
        refrains = Refrains()

        self.learn(refrains, raw(FIELDS))

        found = refrains.of("web-m0")
        assert found == refrain(raw(FIELDS))
        assert refrains.of("web-m1") is None

    def test_a_member_that_says_something_else_has_another_refrain(self) -> None:
        refrains = Refrains()
        self.learn(refrains, raw(FIELDS))

        self.learn(refrains, raw(FIELDS, view="newer"))

        assert refrains.of("web-m0") == refrain(raw(FIELDS, view="newer"))

    def test_a_member_whose_bodies_differ_though_they_say_the_same_is_given_up(self) -> None:
        refrains = Refrains()

        for later in ({"field": 2}, {"field": 3}, {"field": 3}):
            self.learn(refrains, raw(FIELDS, later=later))
        self.learn(refrains, raw(FIELDS, view="newer"))

        assert refrains.of("web-m0") is None

    def test_its_next_instance_is_given_another_chance(self) -> None:
        refrains = Refrains()
        for number in range(3):
            self.learn(refrains, raw(FIELDS, later=number))

        self.learn(refrains, raw(FIELDS, instanceId="f" * 32))

        assert refrains.of("web-m0") == refrain(raw(FIELDS, instanceId="f" * 32))

    def test_only_so_many_are_kept_and_the_oldest_goes_first(self) -> None:
        refrains = Refrains(most=2)
        for name in ("a", "b", "a", "c"):
            self.learn(refrains, raw(FIELDS, view=name), name)

        assert [refrains.of(name) is not None for name in ("a", "b", "c")] == [True, False, True]
