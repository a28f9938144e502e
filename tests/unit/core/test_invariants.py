"""Every invariant of one state, or of what members do, finds its breach and says nothing of what is sound."""

from collections.abc import Mapping
from typing import Any

import pytest

from streamshard.core.group import GroupRecord, MemberState
from streamshard.core.ids import (
    Epoch,
    Generation,
    InstanceId,
    LayoutVersion,
    Lineage,
    Nonce,
    ShardIndex,
    StreamPrefix,
    Token,
    Version,
    WallMillis,
    next_version,
)
from streamshard.core.invariants import (
    group_violations,
    log_violations,
    reader_violations,
    stream_step_violations,
)
from streamshard.core.stream import Shard, ShardPhase, StreamRecord, StreamState
from tests.unit.core.builders import A1, A2, B1, LEASE, QUARANTINE, S0, S1, VERSION, WALL, A, B, group, holding, member

END = WallMillis(WALL)
GONE = member(B, B1, 3, state=MemberState.EXPIRED, ended_at=END)
LATER = Version(VERSION.lineage, 9, Nonce("ninth"))
BORN = Version(Lineage("newborn"), 2, Nonce("born"))
HELD = holding(A, A1, 10)


def sound(**given: Any) -> GroupRecord:
    """a has both shards and holds the first."""
    fields: dict[str, Any] = {"holdings": {S0: HELD}, "targets": {S0: A, S1: A}, **given}
    return group(member(A, A1), GONE, **fields)


def test_a_sound_record_has_no_violations() -> None:
    assert group_violations(sound()) == ()


def test_an_empty_group_has_no_violations() -> None:
    assert group_violations(group()) == ()


BREACHES = {
    "shares more than one apart": (
        {"members": {A: member(A, A1), B: member(B, B1, 3)}},
        "the shares are 0 to 2 shards a member: more than one apart",
    ),
    "a target that is not live": (
        {"targets": {S0: A, S1: B}},
        "1 shards are meant for b, which is not live",
    ),
    "a shard without a target": (
        {"targets": {S0: A}},
        "the shards that have a target are not the layout's",
    ),
    "a target outside the layout": (
        {"targets": {S0: A, S1: A, ShardIndex(2): A}},
        "the shards that have a target are not the layout's",
    ),
    "an instance under two names": (
        {"members": {A: member(A, A1), B: member(B, A1, state=MemberState.LEAVING)}},
        "instance a1 goes by 2 names",
    ),
    "a member without a lease": (
        {"holdings": {}, "longest_leases": {B1: LEASE}},
        "instance a1 has no lease on record",
    ),
    "a member from a later epoch": (
        {"group_epoch": Epoch(2), "assignment_epoch": Epoch(2), "members": {A: member(A, A1, 3)}},
        "member a is in epoch 3, ahead of group epoch 2",
    ),
    "an end without a time": (
        {"members": {A: member(A, A1), B: member(B, B1, state=MemberState.FENCED)}},
        "member b is FENCED, and the time of its end says otherwise",
    ),
    "a time without an end": (
        {"members": {A: member(A, A1, ended_at=END)}},
        "member a is ACTIVE, and the time of its end says otherwise",
    ),
    "a holding above the last token": (
        {"last_tokens": {S0: Token(9)}},
        "shard 0 is held under token 10, which the last token on record does not cover",
    ),
    "a holding of a shard without tokens": (
        {"last_tokens": {}},
        "shard 0 is held under token 10, which the last token on record does not cover",
    ),
    "a holding below its own floor": (
        {"holdings": {S0: holding(A, A1, 10, floor=11)}},
        "shard 0 is held under token 10, which the last token on record does not cover",
    ),
    "a token too large for JSON": (
        {"holdings": {S0: holding(A, A1, 2**53)}},
        f"shard 0 is held under token {2**53}, which the last token on record does not cover",
    ),
    "a token of nothing": (
        {"holdings": {S0: holding(A, A1, 0)}},
        "shard 0 is held under token 0, which the last token on record does not cover",
    ),
    "a holder without a lease": (
        {"holdings": {S0: holding(A, A2, 10)}, "longest_leases": {A1: LEASE}},
        "shard 0 is held by instance a2, which has no lease on record",
    ),
    "a generation that is not there yet": (
        {"holdings": {S0: holding(A, A1, 10, generation=Generation(2))}},
        "shard 0 is held in generation 2, which is not there yet",
    ),
    "a ring without the present nonce": (
        {"ring": (Nonce("other"),)},
        "the ring of nonces does not end in the present one, or is too long",
    ),
    "no ring": (
        {"ring": ()},
        "the ring of nonces does not end in the present one, or is too long",
    ),
    "a ring without end": (
        {"ring": (VERSION.nonce,) * 65},
        "the ring of nonces does not end in the present one, or is too long",
    ),
    "a lineage that has ended before": (
        {"past_lineages": (VERSION.lineage,), "quarantine": QUARANTINE},
        "a lineage is used twice",
    ),
    "an ended lineage twice": (
        {"past_lineages": (Lineage("old"), Lineage("old")), "quarantine": QUARANTINE},
        "a lineage is used twice",
    ),
    "a new lineage without a quarantine": (
        {"past_lineages": (Lineage("old"),)},
        "lineage lineage began without a quarantine",
    ),
    "an assignment ahead of its group": (
        {"assignment_epoch": Epoch(4)},
        "assignment epoch 4 is ahead of group epoch 3",
    ),
}


@pytest.mark.parametrize(("given", "violation"), BREACHES.values(), ids=BREACHES)
def test_a_breach_within_a_record_is_named(given: Mapping[str, Any], violation: str) -> None:
    assert group_violations(sound(**given)) == (violation,)


def test_a_lineage_over_an_empty_grave_has_nobody_to_wait_for() -> None:
    assert group_violations(group(past_lineages=(Lineage("old"),))) == ()


def test_a_shard_that_left_the_layout_may_be_held_in_any_generation() -> None:
    held = {S0: HELD, ShardIndex(5): holding(A, A1, 10, generation=Generation(9))}

    assert group_violations(sound(holdings=held)) == ()


def test_two_lives_that_have_ended_may_have_had_one_instance() -> None:
    ended = member(A, B1, 2, state=MemberState.FENCED, ended_at=END)

    assert group_violations(group(ended, GONE)) == ()


def a_stream(**given: Any) -> StreamRecord:
    fields: dict[str, Any] = {
        "prefix": StreamPrefix("orders"),
        "version": LATER,
        "ring": (LATER.nonce,),
        "store": "store",
        "mac_key": "key",
        "state": StreamState.ACTIVE,
        "routed_count": 1,
        "layout_version": LayoutVersion(4),
        "shards": {S0: Shard(S0, Generation(3), ShardPhase.OPEN), S1: Shard(S1, Generation(3), ShardPhase.SEALED)},
        "groups": {},
        "routing_protocol": "murmur3-v1",
        "created_at": END,
        **given,
    }
    return StreamRecord(**fields)


def test_a_stream_that_goes_on_violates_nothing() -> None:
    next_life = {S0: Shard(S0, Generation(4), ShardPhase.OPEN)}
    after = a_stream(version=next_version(LATER, Nonce("n")), layout_version=LayoutVersion(5), shards=next_life)

    assert stream_step_violations(a_stream(), after) == ()


def test_what_runs_backwards_in_a_stream_is_named() -> None:
    earlier = {S0: Shard(S0, Generation(2), ShardPhase.OPEN)}
    after = a_stream(version=VERSION, layout_version=LayoutVersion(3), shards=earlier)

    assert stream_step_violations(a_stream(), after) == (
        "revision ran backwards, from 9 to 1",
        "layout version ran backwards, from 4 to 3",
        "the generation of shard 0 ran backwards, from 3",
    )


def test_a_stream_of_another_lineage_is_not_compared() -> None:
    assert stream_step_violations(a_stream(), a_stream(version=BORN, layout_version=LayoutVersion(1))) == ()


def test_one_reader_a_shard_is_sound_under_however_many_tokens() -> None:
    readers = [(S0, A1, Token(1)), (S1, B1, Token(1)), (S0, A1, Token(2))]

    assert reader_violations(readers) == ()


def test_two_readers_of_a_shard_are_named() -> None:
    readers = [(S1, B1, Token(9)), (S0, A1, Token(1)), (S1, InstanceId("a9"), Token(8))]

    assert reader_violations(readers) == ("shard 1 is read by a9 and b1",)


def test_a_log_may_repeat_and_raise_its_tokens_shard_by_shard() -> None:
    accepted = [(S0, Token(5)), (S1, Token(1)), (S0, Token(5)), (S0, Token(6)), (S1, Token(2))]

    assert log_violations(accepted) == ()


def test_an_operation_under_a_lower_token_than_one_before_is_named() -> None:
    accepted = [(S0, Token(5)), (S0, Token(7)), (S0, Token(6)), (S0, Token(5))]

    assert log_violations(accepted) == (
        "shard 0 accepted token 6 after 7",
        "shard 0 accepted token 5 after 7",
    )
