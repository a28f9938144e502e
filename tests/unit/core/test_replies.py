"""Answers to another attempt."""

import attrs

from streamshard.core.ids import Epoch, MemberId, Millis, Seq, ShardIndex
from streamshard.core.replies import HeartbeatReply, Likeness, Status

REPLY = HeartbeatReply(
    status=Status.OK,
    member=MemberId("web-m0"),
    epoch=Epoch(3),
    seq=Seq(9),
    heartbeat_ms=Millis(3_000),
    rebalance_timeout_ms=Millis(60_000),
    lease_ms=Millis(15_000),
    response_to="r-1",
    assigned=(ShardIndex(5),),
    likeness=Likeness(),
)


def test_an_answer_to_another_attempt_differs_in_what_names_the_attempt_alone() -> None:
    again = REPLY.again(Seq(10), "r-2")

    assert again == attrs.evolve(REPLY, seq=Seq(10), response_to="r-2")
    assert again.likeness is REPLY.likeness
    assert (REPLY.seq, REPLY.response_to) == (9, "r-1")
