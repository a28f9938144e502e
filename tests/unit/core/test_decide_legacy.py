"""Clients of the older contract: no instance, no seq, no holds of their own."""

from typing import Any

import attrs

from streamshard.core.commands import Heartbeat, Intent
from streamshard.core.decide import identified
from streamshard.core.group import GroupRecord, Holding, MemberState, Row
from streamshard.core.ids import (
    Epoch,
    InstanceId,
    Nonce,
    Seq,
    ShardIndex,
    WallMillis,
)
from streamshard.core.outcome import Standing
from streamshard.core.replies import Status
from tests.unit.core.builders import (
    A1,
    B1,
    LEASE,
    LISTED,
    S0,
    S1,
    WALL,
    A,
    B,
    accepted,
    alone,
    beat,
    group,
    hear,
    hold,
    holding,
    member,
    plain,
    refused,
    row,
)

JOIN, LEAVE = Intent.JOIN, Intent.LEAVE
FENCED = Status.FENCED_MEMBER_EPOCH


def legacy(**more: Any) -> Heartbeat:
    return attrs.evolve(beat(A, None, 0, epoch=Epoch(2), metadata_version=5), **more)


def old_group(held: Holding | None = LISTED, **more: Any) -> GroupRecord:
    owner = member(A, A1, legacy=True, joined_version=4)
    return alone(held, owner, allow_legacy=True, metadata_version=5, **more)


def test_an_older_client_is_given_an_instance_when_it_joins() -> None:
    record = group(allow_legacy=True, shards=1, metadata_version=5)

    decision = accepted(hear(record, legacy(intent=JOIN, epoch=Epoch(0), metadata_version=0)))

    assert (decision.instance, decision.force_row) == (InstanceId("legacy-next"), True)
    assert decision.record.members[A].legacy
    assert decision.record.holdings[S0].seq == 5


def test_an_older_clients_shards_are_its_holds() -> None:
    record = attrs.evolve(old_group(), holdings={S0: LISTED, S1: holding(B, B1, 11)})

    said = identified(record, legacy(owned=(S1,), revoking=(S0, ShardIndex(7))))

    assert (said.instance, said.seq, said.holds, said.legacy) == (A1, 5, (hold(0, 10, draining=True),), True)


def test_a_client_with_an_instance_is_taken_at_its_word() -> None:
    attempt = plain(8, 10)

    assert identified(alone(), attempt) is attempt


def test_an_older_client_in_another_epoch_is_nobody() -> None:
    assert refused(hear(old_group(), legacy(epoch=Epoch(1)))).status is FENCED


def test_an_older_client_under_a_name_that_is_not_known_is_nobody() -> None:
    assert refused(hear(old_group(), attrs.evolve(legacy(), member=B))).status is Status.UNKNOWN_MEMBER_ID


def test_an_older_client_does_not_speak_for_an_instance() -> None:
    assert refused(hear(alone(allow_legacy=True), legacy())).status is FENCED


def test_an_older_client_is_renewed_whatever_its_version() -> None:
    decision = accepted(hear(old_group(), legacy(owned=(S0,)), {A1: row(A1, 5)}))

    assert (decision.row, decision.force_row) == (Row(A1, Seq(5), Nonce("next"), LEASE), True)


def test_an_older_clients_goodbye_counts_if_it_is_of_this_life() -> None:
    after = accepted(hear(old_group(), legacy(intent=LEAVE, epoch=Epoch(-1)))).record

    assert (dict(after.members), after.holdings) == ({}, {})


def test_a_goodbye_of_an_older_clients_earlier_life_does_not() -> None:
    late = legacy(intent=LEAVE, epoch=Epoch(-1), metadata_version=3)

    assert refused(hear(old_group(), late)).status is Status.UNKNOWN_MEMBER_ID


def test_what_an_older_client_has_finished_with_is_no_hold() -> None:
    said = identified(old_group(), legacy(revoking=(S0,), revoked=(S0,)))

    assert said.holds == ()


def test_what_it_owns_all_the_same_is_one() -> None:
    said = identified(old_group(), legacy(owned=(S0,), revoking=(S0,), revoked=(S0,)))

    assert said.holds == (hold(0, 10),)


def test_an_older_clients_goodbye_frees_what_it_has_finished_with_though_it_still_names_it() -> None:
    goodbye = legacy(intent=LEAVE, epoch=Epoch(-1), owned=(S0,), revoking=(S0,), revoked=(S0,))

    after = accepted(hear(old_group(), goodbye)).record

    assert (dict(after.members), after.holdings) == ({}, {})


def test_an_older_clients_goodbye_drains_what_it_has_not_finished_with() -> None:
    goodbye = legacy(intent=LEAVE, epoch=Epoch(-1), owned=(S0,), revoking=(S0,))

    after = accepted(hear(old_group(), goodbye)).record

    assert after.members[A].state is MemberState.LEAVING
    assert after.holdings == {S0: attrs.evolve(LISTED, draining=True)}


def test_an_older_clients_row_keeps_the_version_of_its_answer() -> None:
    decision = accepted(hear(old_group(attrs.evolve(LISTED, listed=False)), legacy(owned=(S0,))))

    assert decision.row == Row(A1, Seq(6), Nonce("next"), LEASE)


def test_a_report_sent_without_the_last_answer_renews_and_frees_nothing() -> None:
    decision = accepted(hear(old_group(), legacy(metadata_version=4), {A1: row(A1, 5)}))

    assert (decision.record.holdings, decision.row) == ({S0: LISTED}, Row(A1, Seq(5), Nonce("next"), LEASE))


def test_a_report_under_a_version_that_nobody_issued_frees_nothing() -> None:
    decision = accepted(hear(old_group(), legacy(metadata_version=99), {A1: row(A1, 5)}))

    assert (decision.record.holdings, decision.standing) == ({S0: LISTED}, Standing.CATCHING_UP)


def test_the_goodbye_of_an_older_client_that_was_fenced_frees_what_it_has_listed() -> None:
    ended = member(A, A1, legacy=True, joined_version=4, state=MemberState.FENCED, ended_at=WallMillis(WALL))
    record = attrs.evolve(old_group(), members={A: ended}, targets={})

    decision = accepted(hear(record, legacy(intent=LEAVE, epoch=Epoch(-1)), {A1: row(A1, 5)}))

    assert (decision.record.holdings, decision.force_row) == ({}, True)
