"""What a record tells of its own past."""

import attrs

from streamshard.adapters.stores import codec
from streamshard.core.commands import Intent
from streamshard.core.group import MemberState
from streamshard.core.history import SHARDS_NAMED, told, told_stream
from streamshard.core.ids import MemberId, ShardIndex, Token, WallMillis
from streamshard.core.timeline import EVENTS_KEPT, SPANS_KEPT, Happening, Span
from tests.unit.core.builders import A1, S0, S1, TIMEOUT, WAIT, WALL, A, B, client, group, holding, member, settled
from tests.unit.core.stream_bench import opened, scale

AT = WallMillis(WALL)


def kinds(events: tuple[Happening, ...]) -> list[str]:
    return [event.kind for event in events]


def test_joins_grants_and_releases_are_told_by_the_commit_that_made_them() -> None:
    bench, (a,) = settled(A)
    token = bench.record.holdings[S0].token

    bench.now = 500
    bench.hear(attrs.evolve(a.attempt(Intent.LEAVE), holds=()))

    assert bench.record.events == (
        Happening(AT, "member-joined", "a"),
        Happening(AT, "granted", "2 shards: its turn", A, (S0, S1)),
        Happening(WallMillis(WALL + 500), "member-left", "a"),
        Happening(WallMillis(WALL + 500), "released", "2 shards: let go", A, (S0, S1)),
    )
    assert bench.record.spans[0] == Span(S0, A, token, AT, WallMillis(WALL + 500))


def test_a_handover_tells_who_gave_up_and_who_took() -> None:
    bench, _ = settled(A, B)
    moved = bench.record.spans[0].shard

    assert [(e.kind, e.member, e.shards) for e in bench.record.events[-2:]] == [
        ("released", A, (moved,)),
        ("granted", B, (moved,)),
    ]
    assert [(s.shard, s.member) for s in bench.record.spans] == [(moved, A)]


def test_silence_is_told_as_the_cause() -> None:
    bench, _ = settled(A)
    bench.wait(WAIT + 2_000)

    assert kinds(bench.record.events)[-2:] == ["member-expired", "released"]
    assert bench.record.events[-1].text == "2 shards: silent for a whole lease"


def test_a_lapse_and_what_follows_it_are_told() -> None:
    bench, (a,) = settled(A)
    other = client(B)
    bench.talk(other)
    stuck = next(shard for shard, owner in bench.record.targets.items() if owner == B)
    bench.wait(TIMEOUT + WAIT + 3_000, a, other)

    told_of = [(e.kind, e.member, e.shards) for e in bench.record.events if e.shards == (stuck,)]
    assert told_of == [("lapsed", A, (stuck,)), ("released", A, (stuck,)), ("granted", B, (stuck,))]


def test_an_unchanged_heartbeat_tells_nothing_and_rewrites_nothing() -> None:
    bench, (a,) = settled(A)
    before = bench.record

    bench.talk(a)

    assert bench.record is before


def test_a_mass_of_shards_is_one_event_that_names_a_few() -> None:
    before = group(member(A, A1), shards=20)
    held = {ShardIndex(i): holding(A, A1, 10 + i) for i in range(20)}

    after = told(before, attrs.evolve(before, holdings=held), AT)

    assert after.events == (
        Happening(AT, "granted", "20 shards: its turn", A, tuple(ShardIndex(i) for i in range(SHARDS_NAMED))),
    )


def test_the_past_of_a_huge_group_stays_small() -> None:
    held = {ShardIndex(i): holding(A, A1, 10 + i) for i in range(2_000)}
    record = group(member(A, A1), holdings=held, shards=2_000)
    lean = len(codec.dump_group(record))
    for turn in range(EVENTS_KEPT + 5):
        moved = {s: attrs.evolve(h, token=Token(h.token + 3_000)) for s, h in record.holdings.items()}
        record = told(record, attrs.evolve(record, holdings=moved), WallMillis(WALL + turn))

    assert (len(record.events), len(record.spans)) == (EVENTS_KEPT, SPANS_KEPT)
    assert len(codec.dump_group(record)) - lean < 64_000


def test_the_past_is_no_part_of_the_state() -> None:
    record = group(member(A, A1))

    assert attrs.evolve(record, events=(Happening(AT, "k", "t"),)) == record


def test_a_member_that_was_fenced_is_told_by_name() -> None:
    before = group(member(A, A1), member(MemberId("z")))
    ended = attrs.evolve(before.members[A], state=MemberState.FENCED, ended_at=AT)

    after = told(before, attrs.evolve(before, members={**before.members, A: ended}), AT)

    assert [(e.kind, e.text) for e in after.events] == [("member-fenced", "a: broke the protocol")]


def test_a_stream_tells_of_its_reshardings() -> None:
    shop, desk = opened(1)
    shop.do(scale(2))
    desk.work()
    shop.groups()

    assert kinds(shop.record.events)[:2] == ["stream-creating", "stream-active"]
    steps = [event.text for event in shop.record.events if event.kind == "resharding"]
    assert [step.split(": ")[1].split(" ")[0] for step in steps] == ["PREPARING", "ACTIVE", "DEPRECATED"]


def test_a_stream_tells_that_the_store_lost_writes() -> None:
    shop, _ = opened(1)

    after = told_stream(shop.record, shop.record, AT, "a fence is ahead")

    assert after.events[-1] == Happening(AT, "stream-lineage", "a fence is ahead")
