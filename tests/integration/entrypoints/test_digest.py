"""What a coordinator says of its changes, and how often."""

from streamshard.core.chronicle import Event
from streamshard.core.ids import GroupName, ShardIndex, StreamPrefix
from streamshard.entrypoints.digest import Digest, Line

ORDERS, BILLING, AUDIT = StreamPrefix("orders"), GroupName("billing"), GroupName("audit")


class Hand:
    """A clock in the hand of the test."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def said(digest: Digest, *events: Event) -> list[str]:
    return [line.text for line in digest.told(events)]


def expired(group: GroupName, *names: str) -> tuple[Event, ...]:
    return tuple(Event("member-expired", ORDERS, f"{name}: silent", group) for name in names)


def test_what_happens_to_many_shards_is_one_line() -> None:
    lost = [Event("recreated", ORDERS, "it had vanished", None, ShardIndex(n)) for n in range(3)]

    assert list(Digest().told(lost)) == [
        Line("recreated", "recreated orders shards 0, 1, 2: it had vanished", "orders", None, (0, 1, 2))
    ]


def test_of_many_alike_two_are_told_and_the_others_counted_later() -> None:
    clock = Hand()
    digest = Digest(clock)

    first = said(digest, *expired(BILLING, "a", "b", "c"), *expired(AUDIT, "d"))
    clock.now = 29.0
    meanwhile = said(digest, *expired(BILLING, "e"))
    clock.now = 30.0
    later, again = said(digest), said(digest, *expired(BILLING, "a"))

    assert first == [
        "member-expired orders/billing: a: silent",
        "member-expired orders/billing: b: silent",
        "member-expired orders/audit: d: silent",
    ]
    assert (meanwhile, later) == ([], ["member-expired orders/billing: 2 more like it in half a minute"])
    assert again == ["member-expired orders/billing: a: silent"]
