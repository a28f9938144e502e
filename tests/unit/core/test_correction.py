"""When the store lost writes: what proves it, what is only a claim, and how the group gets back."""

from typing import Any

import attrs
import pytest

from streamshard.core import correction
from streamshard.core.commands import Heartbeat
from streamshard.core.correction import Claim
from streamshard.core.group import GroupRecord, Holding, Quarantine
from streamshard.core.ids import (
    LINEAGES_KEPT,
    Generation,
    Instant,
    Lineage,
    Millis,
    Nonce,
    Seq,
    ShardIndex,
    Token,
    Version,
    WallMillis,
    next_version,
)
from streamshard.core.outcome import LostWrites
from streamshard.core.timing import expiry_wait_ms
from streamshard.core.views import mint
from tests.unit.core.builders import (
    A1,
    B1,
    GEN,
    KEY,
    LEASE,
    MAC,
    S0,
    S1,
    S2,
    VERSION,
    WAIT,
    WALL,
    A,
    B,
    beat,
    context,
    group,
    hold,
    holding,
    member,
    sight,
)

OLD, LOST = Lineage("old"), Lineage("lost")
QUARANTINE = Quarantine("lost", WallMillis(WALL))


def with_view(version: Version, key: str = MAC) -> Heartbeat:
    return beat(view=mint(key, KEY, version))


def claim(attempt: Heartbeat, **given: Any) -> Claim:
    return correction.judge(group(member(A, A1), **given), attempt, MAC)[0]


def test_a_view_of_the_present_version_is_up_to_date() -> None:
    assert claim(with_view(VERSION)) is Claim.PRESENT


def test_a_view_that_the_ring_remembers_is_up_to_date_enough() -> None:
    second = next_version(VERSION, Nonce("second"))

    assert claim(with_view(VERSION), version=second, ring=(VERSION.nonce, second.nonce)) is Claim.PRESENT


def test_a_view_older_than_the_ring_is_believed() -> None:
    newest = Version(VERSION.lineage, 9, Nonce("ninth"))

    assert claim(with_view(VERSION), version=newest, ring=(Nonce("eighth"), Nonce("ninth"))) is Claim.PRESENT


def test_a_view_that_was_issued_and_is_not_in_the_ring_proves_lost_writes() -> None:
    assert claim(with_view(Version(VERSION.lineage, 1, Nonce("lost")))) is Claim.LOST


def test_a_view_of_a_later_version_proves_lost_writes() -> None:
    assert claim(with_view(next_version(VERSION, Nonce("lost")))) is Claim.LOST


def test_a_view_of_an_ended_lineage_has_to_catch_up() -> None:
    assert claim(with_view(Version(OLD, 99, Nonce("n"))), past_lineages=(OLD,)) is Claim.PAST


def test_a_view_of_a_lineage_that_nobody_remembers_proves_lost_writes() -> None:
    assert claim(with_view(Version(LOST, 99, Nonce("n"))), past_lineages=(OLD,)) is Claim.LOST


def test_a_view_that_nobody_here_made_is_the_senders_own_trouble() -> None:
    assert claim(with_view(VERSION, key="another")) is Claim.WILD


def test_a_bare_number_ahead_of_the_group_is_the_senders_own_trouble() -> None:
    assert claim(beat(metadata_version=2)) is Claim.WILD


@pytest.mark.parametrize("number", [0, 1])
def test_a_bare_number_the_group_has_reached_claims_nothing(number: int) -> None:
    assert claim(beat(metadata_version=number)) is Claim.NONE


def test_a_view_counts_before_a_bare_number() -> None:
    assert claim(attrs.evolve(with_view(VERSION), metadata_version=99)) is Claim.PRESENT


def test_a_genuine_view_is_returned_with_its_claim() -> None:
    version = Version(LOST, 3, Nonce("n"))

    assert correction.judge(group(), with_view(version), MAC) == (Claim.LOST, version)


def seen_before(record: GroupRecord, seen: Version) -> bool:
    return correction.regressed(record, seen)


def test_the_same_version_again_has_lost_nothing() -> None:
    assert not seen_before(group(), VERSION)


def test_a_successor_has_lost_nothing() -> None:
    second = next_version(VERSION, Nonce("second"))

    assert not seen_before(group(version=second, ring=(VERSION.nonce, second.nonce)), VERSION)


def test_an_earlier_version_than_one_seen_has_lost_writes() -> None:
    second = next_version(VERSION, Nonce("second"))

    assert seen_before(group(), second)


def test_another_version_of_the_same_number_has_lost_writes() -> None:
    assert seen_before(group(), attrs.evolve(VERSION, nonce=Nonce("other")))


def test_a_lineage_that_remembers_the_one_seen_is_its_successor() -> None:
    assert not seen_before(group(past_lineages=(OLD,)), Version(OLD, 99, Nonce("n")))


def test_a_lineage_that_does_not_has_lost_writes() -> None:
    assert seen_before(group(past_lineages=(OLD,)), Version(LOST, 99, Nonce("n")))


def test_fences_above_the_last_token_are_found() -> None:
    record = group(last_tokens={S0: Token(5), S1: Token(5)})

    assert correction.above_last(record, {S0: Token(5), S1: Token(6), S2: Token(1)}) == {S1: 6, S2: 1}


def begun(record: GroupRecord, marks: dict[ShardIndex, Token], lineage: Lineage | None = None) -> GroupRecord:
    return correction.start_lineage(record, marks, LostWrites("why", lineage), context(7, "begin"))


def test_a_new_lineage_is_in_quarantine_and_remembers_the_old() -> None:
    record = group(member(A, A1), past_lineages=(OLD,), store="another store", metadata_version=5)

    assert begun(record, {}) == attrs.evolve(
        record,
        version=Version(Lineage("lineage of begin"), 2, Nonce("begin")),
        ring=(Nonce("begin"),),
        store="store",
        metadata_version=6,
        past_lineages=(OLD, VERSION.lineage),
        quarantine=Quarantine("why", WallMillis(WALL + 7)),
    )


def test_a_new_lineage_remembers_the_one_that_proved_the_loss() -> None:
    assert begun(group(past_lineages=(OLD,)), {}, LOST).past_lineages == (OLD, VERSION.lineage, LOST)


@pytest.mark.parametrize("known", [OLD, VERSION.lineage])
def test_a_lineage_is_remembered_once(known: Lineage) -> None:
    assert begun(group(past_lineages=(OLD,)), {}, known).past_lineages == (OLD, VERSION.lineage)


def test_a_view_of_a_lineage_that_was_forgotten_costs_a_quarantine_and_is_remembered_again() -> None:
    record = group()
    for number in range(LINEAGES_KEPT + 1):
        record = begun(record, {}, Lineage(f"proof {number}"))
    forgotten = with_view(Version(VERSION.lineage, 1, VERSION.nonce))

    again = begun(record, {}, VERSION.lineage)

    assert len(record.past_lineages) == len(again.past_lineages) == LINEAGES_KEPT
    assert correction.judge(record, forgotten, MAC)[0] is Claim.LOST
    assert correction.judge(again, forgotten, MAC)[0] is Claim.PAST
    assert again.quarantine is not None


def test_last_tokens_are_raised_to_the_fences() -> None:
    record = group(last_tokens={S0: Token(5), S1: Token(5)})

    assert begun(record, {S0: Token(9), S1: Token(3), S2: Token(4)}).last_tokens == {S0: 9, S1: 5, S2: 4}


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param(8, id="another grant than this one was published"),
        pytest.param(11, id="a later one was published"),
    ],
)
def test_a_holding_lapses_if_its_shards_fence_shows_another_grant(mark: int) -> None:
    record = group(member(A, A1), holdings={S0: holding(A, A1, 10, floor=7)})

    assert begun(record, {S0: Token(mark)}).holdings == {S0: holding(A, A1, 10, floor=7, lapsed=True)}


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param(0, id="the fence is lost"),
        pytest.param(7, id="it was not raised yet"),
        pytest.param(10, id="it is the last that was published"),
    ],
)
def test_a_holding_goes_on_if_its_shards_fence_shows_no_other(mark: int) -> None:
    record = group(member(A, A1), holdings={S0: holding(A, A1, 10, floor=7)})

    assert begun(record, {S0: Token(mark)}).holdings == record.holdings


def test_a_lapse_outlives_a_discontinuity() -> None:
    record = group(member(A, A1), holdings={S0: holding(A, A1, 10, lapsed=True)})

    assert begun(record, {}).holdings == record.holdings


def test_there_is_no_end_to_what_has_not_begun() -> None:
    record = group()

    assert not correction.quarantine_over(record, sight(record), Instant(10**9), LEASE)


def test_a_quarantine_ends_once_its_lineage_was_seen_for_the_longest_lease_of_anybody() -> None:
    record = group(member(A, A1), quarantine=QUARANTINE, longest_leases={A1: Millis(60_000)})
    seen, wait = sight(record, now=100), expiry_wait_ms(Millis(60_000))

    over = [correction.quarantine_over(record, seen, Instant(100 + t), LEASE) for t in (wait - 1, wait)]

    assert over == [False, True]


def test_a_quarantine_lasts_a_lease_even_if_nobody_is_known() -> None:
    record = group(quarantine=QUARANTINE)

    over = [correction.quarantine_over(record, sight(record), Instant(t), LEASE) for t in (WAIT - 1, WAIT)]

    assert over == [False, True]


def test_a_coordinator_that_has_seen_another_lineage_ends_no_quarantine() -> None:
    record = group(quarantine=QUARANTINE)
    other = sight(group(version=Version(OLD, 1, Nonce("n"))))

    assert not correction.quarantine_over(record, other, Instant(10**9), LEASE)


def listed(*holds: tuple[int, int]) -> Heartbeat:
    return beat(A, A1, 7, tuple(hold(shard, token) for shard, token in holds))


def test_a_token_a_year_ahead_of_the_clock_was_never_issued() -> None:
    ahead = WALL + correction.PLAUSIBLE_AHEAD_MS

    found = [correction.implausible(group(), listed((0, t)), WallMillis(WALL)) for t in (ahead, ahead + 1)]

    assert found == [None, S0]


def test_a_token_that_is_on_record_was_issued_whatever_the_clock_says() -> None:
    ahead = WALL + correction.PLAUSIBLE_AHEAD_MS + 1

    assert correction.implausible(group(last_tokens={S0: Token(ahead)}), listed((0, ahead)), WallMillis(WALL)) is None


def adopted(record: GroupRecord, *holds: tuple[int, int]) -> GroupRecord:
    return correction.adopt(record, listed(*holds), A1)


def lost_grant(token: int, generation: Generation = GEN) -> Holding:
    """Held by a1 as it said, to be drained, never prolonged."""
    return holding(
        A, A1, token, floor=token, generation=generation, seq=Seq(7), draining=True, lapsed=True, listed=True
    )


def test_a_hold_above_the_last_token_is_written_down() -> None:
    after = adopted(group(member(A, A1), last_tokens={S0: Token(5)}), (0, 6))

    assert (after.holdings, after.last_tokens) == ({S0: lost_grant(6)}, {S0: 6})


def test_a_hold_that_was_freed_long_ago_is_not() -> None:
    record = group(member(A, A1), last_tokens={S0: Token(6)})

    assert adopted(record, (0, 6)) is record


def test_in_quarantine_any_hold_that_the_record_gives_to_nobody_is_written_down() -> None:
    after = adopted(group(member(A, A1), last_tokens={S0: Token(9)}, quarantine=QUARANTINE), (0, 6))

    assert (after.holdings, after.last_tokens) == ({S0: lost_grant(6)}, {S0: 9})


def test_a_hold_of_a_shard_that_is_not_in_the_layout_is_of_no_generation() -> None:
    assert adopted(group(member(A, A1)), (3, 6)).holdings == {ShardIndex(3): lost_grant(6, Generation(0))}


def test_what_another_instance_holds_is_not_adopted() -> None:
    record = group(member(A, A1), holdings={S0: holding(B, B1, 5)}, quarantine=QUARANTINE)

    assert adopted(record, (0, 6)) is record


def test_ones_own_hold_is_not_adopted_under_the_token_on_record() -> None:
    record = group(member(A, A1), holdings={S0: holding(A, A1, 6)}, quarantine=QUARANTINE)

    assert adopted(record, (0, 6)) is record


def test_ones_own_hold_is_adopted_under_a_later_token_whose_grant_was_lost() -> None:
    after = adopted(group(member(A, A1), holdings={S0: holding(A, A1, 5)}), (0, 6))

    assert after.holdings == {S0: lost_grant(6)}


def test_a_view_of_a_lineage_that_was_itself_lost_starts_one_lineage_and_no_more() -> None:
    record = group(member(A, A1))
    attempt = beat(view=mint(MAC, KEY, Version(LOST, 3, Nonce("n"))))
    judged, version = correction.judge(record, attempt, MAC)
    assert version is not None

    begun_anew = begun(record, {}, version.lineage)

    assert (judged, correction.judge(begun_anew, attempt, MAC)[0]) == (Claim.LOST, Claim.PAST)
