"""What goes wrong for older clients: lost answers, restarts, silence, stuck handlers, versions nobody issued."""

import asyncio

from tests.integration.legacy.older import refs
from tests.integration.legacy.stage import LEASE_S, MONITORED, admitting

FAR = 10**9


def test_a_heartbeat_whose_answer_was_lost_is_answered_alike() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            first, second = stage.older(), stage.older("web-m1")
            await stage.settle(first, second)
            await first.leave()
            lost = await second.send(second.body())
            again = await second.beat()

        assert lost["assignment"]["assignedShards"] == refs([0, 1])
        assert {**again, "responseTo": lost["responseTo"]} == lost
        assert second.owned == {0, 1}

    asyncio.run(scenario())


def test_a_report_that_was_overtaken_by_later_ones_frees_nothing() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            first, second = stage.older(), stage.older("web-m1")
            await first.beat()
            late = first.body(ownedShards=[])
            await stage.settle(first)
            first.busy = {1}
            await stage.settle(second, first, rounds=2)
            reply = await first.send(late)
            await second.beat()

        assert (reply["status"], reply["assignment"]["assignedShards"]) == ("OK", refs([0]))
        assert (first.reading, second.owned, second.pending) == ({0, 1}, set(), {1})

    asyncio.run(scenario())


def test_a_report_that_was_overtaken_by_the_first_listing_frees_nothing() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            older = stage.older()
            await older.beat()
            late = older.body(ownedShards=[])
            listed = await older.beat()
            reply = await older.send(late)

        assert reply["grants"] == listed["grants"]

    asyncio.run(scenario())


def test_a_join_whose_answer_was_lost_is_taken_in_again_and_waits_for_the_lost_grant() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            older = stage.older()
            await older.send(older.body())
            at_once = await older.beat()
            await stage.pass_time(9, older)
            joined, waiting = older.epoch, (set(older.owned), set(older.pending))
            await stage.pass_time(LEASE_S, older)

        assert (at_once["status"], at_once["retryReason"]) == ("RETRY", "NAME_HELD")
        assert (joined, waiting, older.owned) == (3, (set(), {0, 1}), {0, 1})

    asyncio.run(scenario())


def test_a_restarted_process_takes_its_name_over_and_its_shards_when_the_old_lease_has_ended() -> None:
    async def scenario() -> None:
        async with admitting(4) as stage:
            killed, other = stage.older(), stage.older("web-m1")
            await stage.settle(killed, other)
            await stage.pass_time(3, killed, other)
            restarted = stage.older()
            refused = await restarted.beat()
            await stage.pass_time(6, other)
            still_refused = await restarted.beat()
            await stage.pass_time(3, restarted, other)
            taken_in = (restarted.epoch > killed.epoch, set(restarted.owned), set(restarted.pending))
            late = await killed.send(killed.body())
            await stage.pass_time(5, restarted, other)
            before = set(restarted.owned)
            await stage.pass_time(6, restarted, other)
            found = await stage.violations()

        assert [(r["status"], r["retryReason"]) for r in (refused, still_refused)] == [("RETRY", "NAME_HELD")] * 2
        assert taken_in == (True, set(), killed.owned)
        assert (late["status"], before) == ("FENCED_MEMBER_EPOCH", set())
        assert (restarted.owned, other.owned, found) == (killed.owned, {0, 1, 2, 3} - killed.owned, [])

    asyncio.run(scenario())


def test_a_silent_member_is_expired_after_a_whole_lease_and_no_sooner() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            killed, other = stage.older(), stage.older("web-m1")
            await stage.settle(killed, other)
            await stage.pass_time(LEASE_S - 1, other)
            before = await stage.owners(), await stage.states()
            await stage.pass_time(3, other)
            after = await stage.owners(), await stage.states()
            told = await killed.beat()
            back = await killed.beat()

        assert before == ({0: "web-m0", 1: "web-m1"}, {"web-m0": "ACTIVE", "web-m1": "ACTIVE"})
        assert after == ({0: "web-m1", 1: "web-m1"}, {"web-m0": "EXPIRED", "web-m1": "ACTIVE"})
        assert (told["status"], back["status"], len(killed.pending)) == ("FENCED_MEMBER_EPOCH", "OK", 1)

    asyncio.run(scenario())


def test_a_fenced_answer_has_the_groups_numbers_and_no_shards() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            older = stage.older()
            await stage.settle(older)
            reply = await older.send(older.body(memberEpoch=older.epoch + 5))
            group = await stage.group()

        assert (reply["status"], reply["memberEpoch"]) == ("FENCED_MEMBER_EPOCH", older.epoch + 5)
        numbers = ("groupEpoch", "assignmentEpoch", "metadataVersion")
        assert [reply[name] for name in numbers] == [group[name] for name in numbers]
        assert (reply["assignment"]["assignedShards"], reply["assignment"]["pendingShards"]) == ([], [])

    asyncio.run(scenario())


def test_an_outage_of_the_coordinator_moves_nothing() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            first, second = stage.older(), stage.older("web-m1")
            await stage.settle(first, second)
            stage.service.clock.advance(3_600_000)
            await stage.service.tick()
            replies = [await first.beat(), await second.beat()]

        assert [reply["status"] for reply in replies] == ["OK", "OK"]
        assert (first.owned, second.owned) == ({0}, {1})

    asyncio.run(scenario())


def test_a_member_that_overruns_the_rebalance_timeout_is_fenced_whole_and_its_shards_wait_for_a_lease() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            stuck, other = stage.older(), stage.older("web-m1")
            await stage.settle(stuck)
            stuck.busy = {1}
            await other.beat()
            await stuck.beat()
            await stage.pass_time(59, stuck, other)
            before = await stage.states()
            await stage.pass_time(2, other)
            after = await stage.states()
            shards = (await stage.service.http.get(f"{MONITORED}/assignments")).json()["shards"]
            told = await stuck.beat()
            await stage.pass_time(9, other)
            waiting = set(other.owned)
            await stage.pass_time(LEASE_S - 9, other)

        assert (before, after) == (
            {"web-m0": "ACTIVE", "web-m1": "ACTIVE"},
            {"web-m0": "FENCED", "web-m1": "ACTIVE"},
        )
        assert [shard["state"] for shard in shards] == ["LAPSED", "LAPSED"]
        assert (told["status"], waiting, other.owned) == ("FENCED_MEMBER_EPOCH", set(), {0, 1})

    asyncio.run(scenario())


def test_a_version_that_nobody_issued_costs_one_round_and_nobody_else() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            first, second = stage.older(), stage.older("web-m1")
            await stage.settle(first, second)
            first.version = FAR
            synced = await first.beat()
            undisturbed = await second.beat()
            back = await first.beat()
            owners = await stage.owners()

        assert (synced["status"], synced["assignment"]["assignedShards"]) == ("SYNC_METADATA", refs([0]))
        assert synced["metadataVersion"] < FAR
        assert (undisturbed["status"], back["status"]) == ("OK", "OK")
        assert (first.owned, second.owned, owners) == ({0}, {1}, {0: "web-m0", 1: "web-m1"})

    asyncio.run(scenario())


def test_a_member_that_goes_on_claiming_it_is_fenced_and_nobody_else() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            first, second = stage.older(), stage.older("web-m1")
            await stage.settle(first, second)
            claims = [await first.beat(metadataVersion=FAR) for _ in range(3)]
            undisturbed = await second.beat()
            states, owners = await stage.states(), await stage.owners()

        assert [reply["status"] for reply in claims] == ["SYNC_METADATA", "SYNC_METADATA", "FENCED_MEMBER_EPOCH"]
        assert (undisturbed["status"], states) == ("OK", {"web-m0": "FENCED", "web-m1": "ACTIVE"})
        assert owners == {0: "web-m0", 1: "web-m1"}

    asyncio.run(scenario())


def test_a_join_that_claims_a_version_from_before_the_group_was_made_is_a_join() -> None:
    async def scenario() -> None:
        async with admitting() as stage:
            older = stage.older()
            joined = await older.beat(metadataVersion=FAR)
            reply = await older.beat()
            members = (await stage.service.http.get(f"{MONITORED}/members")).json()["members"]

        assert (joined["status"], reply["status"], older.owned) == ("OK", "OK", {0, 1})
        assert [member["state"] for member in members] == ["ACTIVE"]

    asyncio.run(scenario())
