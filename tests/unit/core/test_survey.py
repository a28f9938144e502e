"""What is told of everything in memory, and since when shards have had no reader."""

import attrs

from streamshard.core.ids import Instant, Millis, WallMillis
from streamshard.core.survey import GroupSurvey, Survey, Vacancies, is_read
from tests.unit.core.builders import A1, A2, B1, LEASE, S0, S1, WAIT, A, group, holding, member
from tests.unit.core.driving import EXPIRY_MS, KEY, ORDERS, Member, Node, Site, drop_group, drop_stream

HELD = group(member(A, A1), holdings={S0: holding(A, A1)}, targets={S0: A, S1: A})


def settled() -> tuple[Node, Member]:
    site = Site()
    node, first = site.node(), Member()
    for _ in range(3):
        node.beat(first)
    node.tick()
    return node, first


class TestVacancies:
    def test_a_shard_that_nobody_holds_is_vacant_since_that_was_first_seen(self) -> None:
        vacancies = Vacancies()

        vacancies.look(HELD, Instant(1_000))
        vacancies.look(attrs.evolve(HELD, metadata_version=7), Instant(2_000))

        assert vacancies.of(KEY) == {S1: 1_000}

    def test_it_is_not_any_more_once_it_is_held_and_begins_anew_after_that(self) -> None:
        vacancies = Vacancies()
        both = attrs.evolve(HELD, holdings={S0: holding(A, A1), S1: holding(A, A1)})

        for record, now in ((HELD, 1_000), (both, 2_000), (HELD, 3_000)):
            vacancies.look(record, Instant(now))

        assert vacancies.of(KEY) == {S1: 3_000}

    def test_a_group_that_is_not_kept_is_forgotten(self) -> None:
        vacancies = Vacancies()
        vacancies.look(HELD, Instant(1_000))

        vacancies.keep({})

        assert vacancies.of(KEY) is None


class TestReaders:
    def test_the_present_instance_reads_what_it_holds(self) -> None:
        assert (is_read(HELD, S0), is_read(HELD, S1)) == (True, False)

    def test_a_holding_that_has_lapsed_is_not_read(self) -> None:
        assert not is_read(attrs.evolve(HELD, holdings={S0: holding(A, A1, lapsed=True)}), S0)

    def test_neither_is_what_an_earlier_instance_of_the_name_holds(self) -> None:
        assert not is_read(group(member(A, A2, 3), holdings={S0: holding(A, A1)}), S0)


class TestTimes:
    def test_silence_and_what_is_left_of_the_lease_follow_from_when_it_was_last_heard(self) -> None:
        seen = GroupSurvey(HELD, {A1: Instant(1_000)}, 0, {})

        assert (seen.silent_ms(A1, Instant(3_500)), seen.lease_ms(A1, Instant(3_500))) == (2_500, WAIT - 2_500)

    def test_a_lease_that_has_run_out_has_nothing_left(self) -> None:
        seen = GroupSurvey(HELD, {A1: Instant(0)}, 0, {})

        assert seen.lease_ms(A1, Instant(10 * LEASE)) == 0

    def test_of_an_instance_that_is_not_watched_nothing_is_known(self) -> None:
        seen = GroupSurvey(HELD, {}, 0, {})

        assert (seen.silent_ms(B1, Instant(0)), seen.lease_ms(B1, Instant(0))) == (None, None)


class TestSurvey:
    def test_it_shows_what_the_coordinator_has_and_asks_nobody(self) -> None:
        node, first = settled()
        node.calls()
        node.clock.advance(700)

        survey = node.coordinator.survey()

        assert node.calls() == []
        record = node.site.group
        heard = {first.instance: Instant(survey.now - 700)}
        expected = GroupSurvey(record, heard, 0, {}, node.desk.groups[KEY].rows)
        assert survey == Survey(survey.now, node.clock.wall(), True, (node.site.stream,), (expected,))

    def test_a_stream_is_found_by_its_prefix(self) -> None:
        survey = settled()[0].coordinator.survey()

        assert survey.stream(ORDERS) == survey.streams[0]
        assert Survey(Instant(0), WallMillis(0), True, (), ()).stream(ORDERS) is None

    def test_what_nobody_reads_is_vacant_since_a_tick_saw_it(self) -> None:
        node, first = settled()
        node.site.pass_time(EXPIRY_MS + 2_000, node)
        expired = node.clock.boot()

        node.site.pass_time(4_000, node)

        (seen,) = node.coordinator.survey().groups
        assert seen.vacant is not None
        assert list(seen.vacant) == [S0, S1]
        assert all(expired - 2_000 <= since <= expired for since in seen.vacant.values())
        assert seen.silent_ms(first.instance, node.clock.boot()) is None

    def test_what_has_to_be_given_up_is_counted(self) -> None:
        node, _ = settled()

        node.beat(Member("b", "2"))

        (seen,) = node.coordinator.survey().groups
        assert seen.to_drain == 1

    def test_a_deleted_group_is_gone(self) -> None:
        node, first = settled()
        node.run(node.coordinator.delete_group(attrs.evolve(drop_group(), force=True)))

        assert node.coordinator.survey().groups == ()

    def test_a_deleted_stream_is_gone_on_every_coordinator(self) -> None:
        node, _ = settled()
        other = node.site.node("n2")
        other.tick()
        node.run(node.coordinator.delete_stream(attrs.evolve(drop_stream(), force=True)))

        other.tick()

        seen = other.coordinator.survey()
        assert (seen.streams, seen.groups) == ((), ())

    def test_it_is_up_while_ticks_go_through(self) -> None:
        node = Site().node()
        before = node.coordinator.survey().up
        node.tick()
        after = node.coordinator.survey().up

        node.clock.advance(Millis(60_000))

        assert (before, after, node.coordinator.survey().up) == (False, True, False)
