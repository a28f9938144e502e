"""What one coordinator has itself seen: timers start at the first sight, and anew at every change or doubt."""

from typing import Any

import attrs

from streamshard.core.group import GroupRecord
from streamshard.core.ids import Instant, Lineage, MemberId, Nonce, Token, Version
from streamshard.core.sight import GroupSight, Sighting
from tests.unit.core.builders import A1, B1, LEASE, S0, S1, SOURCE, VERSION, A, B, group, holding, member, row, sight


def watched(**given: Any) -> GroupRecord:
    return group(member(A, A1), holdings={S0: holding(A, A1, 10)}, **{"targets": {S0: A}, **given})


def watched_for(name: MemberId) -> GroupRecord:
    return attrs.evolve(watched(), targets={S0: name})


def at(instant: int) -> Instant:
    return Instant(instant)


def test_a_first_load_starts_every_timer() -> None:
    record = watched(longest_leases={A1: LEASE, B1: LEASE})

    assert sight(record, {A1: row(A1)}, now=70) == GroupSight(
        source=SOURCE,
        version=VERSION,
        lineage_since=at(70),
        seen_at=at(70),
        rows={A1: Sighting(Nonce("a1:1"), at(70)), B1: Sighting(None, at(70))},
    )


def test_a_row_seen_unchanged_goes_on_being_silent() -> None:
    seen = sight(watched(), {A1: row(A1)}, now=70)

    seen.observe(watched(), {A1: row(A1)}, at(1_070))

    assert seen.silent_ms(A1) == 1_000


def test_a_changed_row_starts_its_timer_anew() -> None:
    seen = sight(watched(), {A1: row(A1, 1)}, now=70)

    seen.observe(watched(), {A1: row(A1, 2)}, at(1_070))

    assert (seen.silent_ms(A1), seen.rows[A1]) == (0, Sighting(Nonce("a1:2"), at(1_070)))


def test_a_row_that_was_lost_starts_its_timer_anew() -> None:
    seen = sight(watched(), {A1: row(A1)}, now=70)

    seen.observe(watched(), {}, at(1_070))

    assert seen.rows == {A1: Sighting(None, at(1_070))}


def test_an_instance_that_is_not_on_record_is_not_watched() -> None:
    seen = sight(watched(), {A1: row(A1), B1: row(B1)}, now=70)

    assert (list(seen.rows), seen.silent_ms(B1)) == ([A1], 0)


def test_silence_is_counted_up_to_the_last_read_and_no_further() -> None:
    seen = sight(watched(), {A1: row(A1)}, now=0)

    seen.follow(watched(), {A1: row(A1)}, at(60_000))

    assert seen.silent_ms(A1) == 0


def test_an_own_write_is_a_renewal_without_a_read() -> None:
    seen = sight(watched(), {A1: row(A1, 1)}, now=0)
    seen.observe(watched(), {A1: row(A1, 1)}, at(5_000))

    seen.renewed(A1, Nonce("a1:2"), at(6_000))

    assert (seen.silent_ms(A1), seen.rows) == (0, {A1: Sighting(Nonce("a1:2"), at(6_000))})


def test_a_restart_starts_every_timer_anew() -> None:
    record = watched(targets={S0: B})
    record = attrs.evolve(record, holdings={**record.holdings, S1: holding(A, A1, 11, lapsed=True)})
    seen = sight(record, {A1: row(A1)}, now=70)

    seen.restart(at(900))

    assert seen == attrs.evolve(
        seen,
        lineage_since=at(900),
        rows={A1: Sighting(Nonce("a1:1"), at(900))},
        to_drain={(S0, Token(10)): at(900), (S1, Token(11)): at(900)},
        lapsed={(S1, Token(11)): at(900)},
    )


def test_a_new_lineage_restarts_the_timers() -> None:
    seen = sight(watched(), {A1: row(A1)}, now=70)
    version = Version(Lineage("another"), 2, Nonce("n"))

    seen.observe(watched(version=version), {A1: row(A1)}, at(5_000))

    assert (seen.lineage, seen.lineage_since, seen.silent_ms(A1)) == (Lineage("another"), 5_000, 0)


def test_the_same_lineage_does_not() -> None:
    seen = sight(watched(), {A1: row(A1)}, now=70)

    seen.observe(watched(version=Version(VERSION.lineage, 2, Nonce("n"))), {A1: row(A1)}, at(5_000))

    assert (seen.lineage_since, seen.version.revision) == (70, 2)


def test_what_is_held_and_meant_for_its_holder_need_not_be_given_up() -> None:
    assert sight(watched()).to_drain == {}


def test_what_is_meant_for_another_has_to_be_given_up_since_it_was_seen() -> None:
    seen = sight(watched(), now=70)
    seen.observe(watched_for(B), {}, at(500))

    seen.observe(watched_for(B), {}, at(900))

    assert seen.to_drain == {(S0, Token(10)): at(500)}


def test_what_is_given_back_before_its_holder_heard_of_it_need_not_be_given_up() -> None:
    seen = sight(watched_for(B), now=70)

    seen.observe(watched(), {}, at(500))

    assert seen.to_drain == {}


def test_what_an_earlier_instance_of_the_name_holds_has_to_be_given_up() -> None:
    record = group(member(A, A1), holdings={S0: holding(A, B1, 10)}, targets={S0: A})

    assert sight(record, now=70).to_drain == {(S0, Token(10)): at(70)}


def test_what_is_being_drained_has_to_be_given_up_whoever_it_is_meant_for() -> None:
    record = group(member(A, A1), holdings={S0: holding(A, A1, 10, draining=True)}, targets={S0: A})

    assert sight(record, now=70).to_drain == {(S0, Token(10)): at(70)}


def test_what_is_held_for_nobody_on_record_has_to_be_given_up() -> None:
    assert sight(group(holdings={S0: holding(A, A1, 10)}), now=70).to_drain == {(S0, Token(10)): at(70)}


def test_a_raised_fence_is_forgotten_with_its_grant() -> None:
    seen = sight(watched())
    seen.raised |= {(S0, Token(10)), (S1, Token(9))}

    seen.observe(watched(), {}, at(1))

    assert seen.raised == {(S0, Token(10))}
