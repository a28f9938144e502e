"""What comes of nothing."""

from streamshard.core.stream_events import StreamOutcome, refused, unchanged
from streamshard.errors import StreamNotFound


def test_what_does_not_concern_a_record_leaves_it() -> None:
    assert unchanged(None) == StreamOutcome(None, changed=False)


def test_a_refusal_changes_nothing_and_says_why() -> None:
    why = StreamNotFound("no stream 'orders': create it first")

    assert refused(None, why) == StreamOutcome(None, changed=False, refusal=why)
