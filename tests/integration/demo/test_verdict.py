"""The judge of the demo, before ledgers that somebody spoiled by hand."""

import json
from collections.abc import Callable

import pytest

from streamshard.entrypoints.demo.verdict import Verdict, judge
from tests.integration.demo.ledgers import (
    KILLED_AT,
    MS,
    SECOND,
    Ledger,
    good,
    handled,
    record_id,
    remains,
    tenure,
    texts,
    token,
)


def broken(verdict: Verdict) -> list[str]:
    return [check.name for check in verdict.checks if not check.ok]


def wrong(verdict: Verdict, name: str) -> tuple[str, ...]:
    (found,) = (check.wrong for check in verdict.checks if check.name == name)
    return found


def test_a_good_ledger_holds_and_counts() -> None:
    verdict = judge(texts(good()))

    assert (broken(verdict), verdict.void, verdict.ok) == ([], (), True)
    assert dict(verdict.figures) == {
        "published": 1_600,
        "handled": 1_600,
        "handlings": 1_600,
        "duplicates": 0,
        "acknowledged": 1_600,
        "publishesWithoutAnswer": 0,
        "ownerships": 13,
        "recordsPerSecond": 1_206.0,
    }


def test_a_record_that_nobody_handled_is_lost() -> None:
    ledger = good()
    ledger["consumer-a"].remove(handled(ledger, "a", 2)[7])

    verdict = judge(texts(ledger))

    assert broken(verdict) == ["nothing-lost"]
    assert wrong(verdict, "nothing-lost") == (
        "orders:2 1000-7 (number 58) was acknowledged to the producer, never handled",
    )


def test_a_record_on_another_shard_than_published_is_lost_and_invented() -> None:
    ledger = good()
    ledger["producer"][7]["records"][2][1] = 4

    assert broken(judge(texts(ledger))) == ["nothing-lost", "nothing-invented"]


def test_a_record_that_was_never_published_is_noticed_unless_its_publish_had_no_answer() -> None:
    ledger = good()
    handled(ledger, "a", 2)[-1]["records"].append([record_id(5_000), 99_999, 1])
    invented = judge(texts(ledger))
    ledger["producer"].append({"kind": "failed", "at": 2 * SECOND, "uncertain": [99_999], "kinds": {}, "why": ""})

    assert broken(invented) == ["nothing-invented"]
    assert judge(texts(ledger)).ok


def test_a_later_record_that_is_handled_first_is_out_of_order() -> None:
    ledger = good()
    one, other = handled(ledger, "a", 2)[10:12]
    one["records"], other["records"] = other["records"], one["records"]

    verdict = judge(texts(ledger))

    assert broken(verdict) == ["in-order"]
    assert wrong(verdict, "in-order") == ("orders:2 1000-10 was first handled after orders:2 1000-11",)


def test_an_inversion_across_two_owners_is_out_of_order_and_under_an_old_token() -> None:
    ledger = good()
    mine, theirs = handled(ledger, "a", 0)[-1], handled(ledger, "c", 0)[0]
    mine["records"], theirs["records"] = theirs["records"], mine["records"]

    assert broken(judge(texts(ledger))) == ["in-order", "no-old-token"]


def test_a_redelivered_record_counts_as_a_duplicate_and_may_come_late() -> None:
    ledger = good()
    again = [*handled(ledger, "b", 1)[-1]["records"][0][:2], 2]
    handled(ledger, "a", 1)[0]["records"].insert(0, again)
    acked = [row for row in ledger["consumer-b"] if row["kind"] == "acked" and row["shard"] == 1]
    ledger["consumer-b"].remove(acked[-1])

    verdict = judge(texts(ledger))

    assert verdict.ok
    assert verdict.figures["duplicates"] == 1


def test_a_record_that_is_new_twice_is_noticed() -> None:
    ledger = good()
    handled(ledger, "a", 2)[8]["records"].insert(0, handled(ledger, "a", 2)[7]["records"][0])

    assert broken(judge(texts(ledger))) == ["duplicates"]


def test_two_ownerships_that_overlap_are_two_readers() -> None:
    ledger = good()
    tenure(ledger, "c", 0, "assigned")["at"] = 2 * SECOND - 250 * MS

    verdict = judge(texts(ledger))

    assert broken(verdict) == ["one-reader"]
    assert wrong(verdict, "one-reader") == ("shard 0: a-m0 and c-m0 could both read for 250 ms",)


def test_a_successor_of_a_killed_owner_may_not_come_before_its_death() -> None:
    ledger = good()
    tenure(ledger, "c", 3, "assigned")["at"] = KILLED_AT - MS

    assert broken(judge(texts(ledger))) == ["one-reader"]


def test_an_ownership_in_the_middle_of_a_longer_one_is_seen() -> None:
    ledger = good()
    inner = {"shard": 2, "member": "c-m0", "instance": "0f", "until": 2 * SECOND}
    for at, kind, life in (
        (1_200, "assigned", 2),
        (1_210, "revoked", 2),
        (1_300, "assigned", 3),
        (1_310, "revoked", 3),
    ):
        ledger["consumer-c"].append({"kind": kind, "at": at * MS, "token": token(2, life), **inner})

    assert len(wrong(judge(texts(ledger)), "one-reader")) == 2


def test_an_owner_that_learns_late_of_its_loss_does_not_overlap_past_its_lease() -> None:
    ledger = good()
    tenure(ledger, "a", 0, "revoked").update(kind="lost", at=7 * SECOND, until=4 * SECOND)

    assert broken(judge(texts(ledger))) == []


def test_a_read_by_an_owner_that_was_followed_already_is_under_an_old_token() -> None:
    ledger = good()
    tenure(ledger, "a", 0, "revoked")["at"] = 7 * SECOND
    late = handled(ledger, "a", 0)[-1]
    late["at"] = 6 * SECOND + 50 * MS + 1

    verdict = judge(texts(ledger))

    assert f"orders:0 1000-99 was handled under token {token(0, 1)}, an old one" in wrong(verdict, "no-old-token")


def test_an_ack_that_redis_took_from_an_old_owner_is_noticed() -> None:
    ledger = good()
    acked = next(row for row in ledger["consumer-c"] if row["kind"] == "acked" and row["shard"] == 0)
    ledger["consumer-a"].append({**acked, "token": token(0, 1)})

    verdict = judge(texts(ledger))

    assert wrong(verdict, "no-old-token") == (
        f"orders:0 1000-100 was acknowledged under token {token(0, 1)}, but given to a later owner",
    )


@pytest.mark.parametrize("kind", ["assigned", "revoked"])
def test_a_handler_outside_of_an_ownership_is_noticed(kind: str) -> None:
    ledger = good()
    tenure(ledger, "a", 2, kind)["at"] = 1_050 * MS

    assert broken(judge(texts(ledger))) == ["no-old-token"]


def test_a_token_that_does_not_grow_is_noticed() -> None:
    ledger = good()
    for row in ledger["consumer-c"]:
        if row["shard"] == 0:
            row["token"] = token(0, 1) - 1

    assert "shard 0: token 999 was granted after token 1000" in wrong(judge(texts(ledger)), "no-old-token")


def test_a_fence_below_a_token_that_was_used_is_noticed() -> None:
    ledger = good()
    remains(ledger, 2)["mark"] = token(2, 1) - 1

    assert wrong(judge(texts(ledger)), "no-old-token") == (
        f"shard 2: the fence stands at {token(2, 1) - 1}, though token {token(2, 1)} was used",
    )


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda row: row.update(exists=True), "the key of removed shard 5 is still there"),
        (lambda row: row.update(sealed=False), "the fence of removed shard 5 is not sealed"),
        (lambda row: row.update(shard=9), "removed shard 5 was not looked at"),
    ],
)
def test_what_is_left_of_a_removed_shard_is_noticed(spoil: Callable[[dict[str, object]], None], said: str) -> None:
    ledger = good()
    spoil(remains(ledger, 5))

    verdict = judge(texts(ledger))

    assert "removed-are-gone" in broken(verdict)
    assert said in wrong(verdict, "removed-are-gone")


@pytest.mark.parametrize("left", [{"pending": 1}, {"lag": 1}, {"lag": None}])
def test_what_waits_on_a_shard_that_stays_is_noticed(left: dict[str, int | None]) -> None:
    ledger = good()
    remains(ledger, 1).update(left)

    assert broken(judge(texts(ledger))) == ["nothing-waits"]


def test_a_shard_that_moves_while_the_coordinator_is_away_is_noticed() -> None:
    ledger = good()
    tenure(ledger, "c", 3, "revoked").update(at=8 * SECOND + MS, until=9 * SECOND)

    verdict = judge(texts(ledger))

    assert broken(verdict) == ["outage-moved-nothing"]
    assert wrong(verdict, "outage-moved-nothing") == ("shard 3 was given up by c-m1",)


def test_a_shard_that_pauses_with_its_lease_and_goes_on_under_its_token_did_not_move() -> None:
    ledger = good()
    facts = {"shard": 2, "token": token(2, 1), "member": "a-m0", "instance": "0f", "until": 10 * SECOND}
    tenure(ledger, "a", 2, "revoked").update(kind="lost", at=8 * SECOND + 100 * MS, until=8 * SECOND + 100 * MS)
    ledger["consumer-a"].append({"kind": "assigned", "at": 8 * SECOND + 500 * MS, **facts})
    ledger["consumer-a"].append({"kind": "revoked", "at": 11 * SECOND, **facts})

    verdict = judge(texts(ledger))

    assert verdict.ok
    assert verdict.checks[6].told == "a coordinator that is killed and restarted moves no shard: 1 paused meanwhile"


def test_another_process_under_the_same_token_is_noticed() -> None:
    ledger = good()
    facts = {"shard": 2, "token": token(2, 1), "member": "c-m0", "instance": "0f", "until": 12 * SECOND}
    ledger["consumer-c"].append({"kind": "assigned", "at": 10 * SECOND, **facts})
    ledger["consumer-c"].append({"kind": "revoked", "at": 11 * SECOND, **facts})

    assert broken(judge(texts(ledger))) == ["no-old-token"]


def test_a_process_that_ends_badly_or_keeps_its_shard_is_noticed() -> None:
    ledger = good()
    ledger["story"][5]["code"] = 1
    ledger["consumer-a"].remove(tenure(ledger, "a", 2, "revoked"))

    assert wrong(judge(texts(ledger)), "stopped-well") == (
        "producer ended with code 1",
        "consumer-a ended without giving shard 2 back",
    )


def slow(ledger: Ledger) -> None:
    for row in ledger["producer"]:
        row["at"] *= 2


def without(kind: str) -> Callable[[Ledger], None]:
    def spoil(ledger: Ledger) -> None:
        ledger["story"] = [row for row in ledger["story"] if row["kind"] != kind]

    return spoil


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (slow, "only 603 records/s were published on average: at least 1,000 are needed"),
        (without("killed"), "no consumer was killed while it owned a shard"),
        (without("coordinator-killed"), "the coordinator was not killed and restarted"),
        (without("coordinator-watched"), "the coordinator was not killed and restarted"),
        (without("scaled"), "the stream was not scaled to 8 and then to 3 shards"),
        (without("stopped"), "no process was told to stop"),
    ],
)
def test_a_run_that_was_no_test_is_void(spoil: Callable[[Ledger], None], said: str) -> None:
    ledger = good()
    spoil(ledger)

    verdict = judge(texts(ledger))

    assert (verdict.ok, said in verdict.void) == (False, True)


def test_nothing_at_all_is_void() -> None:
    verdict = judge({})

    assert not verdict.ok
    assert len(verdict.void) == 7


def test_a_last_line_that_a_kill_cut_off_does_not_count() -> None:
    ledger = good()
    lines = texts(ledger)
    more = json.dumps({**handled(ledger, "b", 1)[-1], "at": 2 * SECOND})

    cut = judge({**lines, "consumer-b": lines["consumer-b"] + more[:-9]})

    assert cut == judge(lines)
