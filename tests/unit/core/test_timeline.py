"""How much a record remembers of its past."""

from streamshard.core.ids import MemberId, ShardIndex, Token, WallMillis
from streamshard.core.timeline import EVENTS_KEPT, SPANS_A_SHARD, SPANS_KEPT, Happening, Span, held, remembered


def happening(number: int) -> Happening:
    return Happening(WallMillis(number), "kind", f"number {number}")


def span(shard: int, number: int) -> Span:
    return Span(ShardIndex(shard), MemberId("a"), Token(number), WallMillis(number), WallMillis(number + 1))


def test_the_last_changes_are_remembered_in_their_order() -> None:
    known = remembered((), map(happening, range(EVENTS_KEPT)))

    assert remembered(known, [happening(EVENTS_KEPT)]) == (*known[1:], happening(EVENTS_KEPT))


def test_a_busy_shard_does_not_push_the_past_of_others_out() -> None:
    quiet = span(0, 1)

    kept = held((quiet,), [span(1, number) for number in range(2, 100)])

    assert kept == (quiet, *(span(1, number) for number in range(100 - SPANS_A_SHARD, 100)))


def test_of_very_many_shards_the_latest_times_are_kept() -> None:
    kept = held((), [span(number, number) for number in range(SPANS_KEPT + 5)])

    assert (len(kept), kept[0], kept[-1]) == (SPANS_KEPT, span(5, 5), span(SPANS_KEPT + 4, SPANS_KEPT + 4))
