"""Heartbeats in another attempt."""

import attrs
import pytest

from streamshard.core.commands import Heartbeat, Hold, Intent
from streamshard.core.group import ShardProgress
from streamshard.core.ids import Epoch, InstanceId, MemberId, Millis, Seq, ShardIndex, Token, View

BEAT = Heartbeat(
    member=MemberId("web-m0"),
    intent=Intent.STAY,
    epoch=Epoch(3),
    instance=InstanceId("1" * 32),
    seq=Seq(9),
    holds=(Hold(ShardIndex(5), Token(11)),),
    view=View("opaque"),
    request_id="r-1",
    available=2,
    progress=(ShardProgress(ShardIndex(5)),),
)


def test_another_attempt_tells_anew_what_each_tells_and_says_the_rest_again() -> None:
    progress = (ShardProgress(ShardIndex(6)),)

    again = BEAT.again(Seq(10), "r-2", 1, progress, Millis(7))

    assert again == attrs.evolve(BEAT, seq=Seq(10), request_id="r-2", available=1, progress=progress, late=Millis(7))
    assert (BEAT.seq, BEAT.request_id, BEAT.late) == (9, "r-1", None)


def test_another_attempt_is_as_frozen_as_the_first() -> None:
    again = BEAT.again(Seq(10), "r-2", 1, (), None)

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        again.seq = Seq(11)  # type: ignore[misc]
