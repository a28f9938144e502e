"""What Prometheus is told: the numbers are right, what is unknown is absent, and what is gone is gone."""

import asyncio

from tests.integration.http.scrape import SHARD_FAMILIES, Scrape, scrape
from tests.integration.http.service import ASKED, GROUP, STREAM, beat, running
from tests.integration.http.stage import HEARTBEAT, holding, owning, publish, read

OTHER_BEAT = HEARTBEAT.replace("web-m0", "web-m1")


def instance(number: int) -> str:
    return f"{number:032x}"


class TestProcess:
    def test_a_coordinator_that_has_done_nothing_says_so(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                found = await scrape(service.http)

                assert found.value("up") == 0
                assert set(found.family("heartbeats_total", "status").values()) == {0}
                assert found.family("rebalances_total", "reason") == dict.fromkeys(
                    [(each,) for each in ("resharding", "expiry", "fence", "leave", "join", "other")], 0
                )
                assert found.family("http_requests_total", "route") == {}

        asyncio.run(scenario())

    def test_it_is_up_once_a_tick_went_through_and_not_while_none_does(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await service.tick()
                first = await scrape(service.http)
                service.clock.advance(60_000)
                second = await scrape(service.http)

                assert (first.value("up"), second.value("up")) == (1, 0)

        asyncio.run(scenario())

    def test_requests_count_by_template_and_never_by_what_callers_make_up(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await service.http.get("/nowhere/at/all")
                await service.http.post("/coord/v1/streams/ghost/groups/nobody/members/x/heartbeat", json=beat("x"))
                await service.http.get("/coord/v1/streams/ghost")
                await service.http.request("BREW", GROUP)

                found = await scrape(service.http)

                assert found.family("http_requests_total", "route", "method", "status") == {
                    ("other", "other", "404"): 1,
                    ("/coord/v1/streams/{prefix}/groups/{group}/members/{member}/heartbeat", "POST", "200"): 1,
                    ("/coord/v1/streams/{prefix}", "GET", "404"): 1,
                    ("/coord/v1/streams/{prefix}/groups/{group}", "other", "405"): 1,
                }
                assert found.value("heartbeats_total", status="UNKNOWN_MEMBER_ID") == 1
                assert not {value for _, labels in found.values for _, value in labels} & {"ghost", "nobody", "x"}

        asyncio.run(scenario())

    def test_histograms_add_up(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await owning(service)

                found = await scrape(service.http)

                buckets = found.family("heartbeat_duration_seconds_bucket", "le")
                counts = [count for (bound,), count in sorted(buckets.items(), key=lambda each: float(each[0][0]))]
                assert counts == sorted(counts)
                assert counts[-1] == found.value("heartbeat_duration_seconds_count") == 4
                assert (found.value("heartbeat_duration_seconds_sum") or 0) > 0

        asyncio.run(scenario())

    def test_scales_and_routings_count_by_their_outcome(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await owning(service)
                for target in (4, 4, 5):
                    await service.http.post(STREAM + "/scale", json={**ASKED, "targetShardCount": target})
                await service.http.post(GROUP + "/scale", json={**ASKED, "targetShardCount": "many"})
                routing = await service.http.get(GROUP + "/producer-routing")
                await service.http.get(GROUP + "/producer-routing", headers={"If-None-Match": routing.headers["etag"]})
                await service.http.get(STREAM + "/groups/none/producer-routing")

                found = await scrape(service.http)

                scaled = {"accepted": 1, "refused": 1, "conflict": 2, "unavailable": 0, "failed": 0}
                routed = {"served": 1, "unchanged": 1, "unknown": 1, "refused": 0, "unavailable": 0, "failed": 0}
                assert found.family("scale_requests_total", "outcome") == {(name,): n for name, n in scaled.items()}
                assert found.family("routing_requests_total", "outcome") == {(name,): n for name, n in routed.items()}

        asyncio.run(scenario())

    def test_nothing_of_anybody_else_is_shown(self) -> None:
        async def scenario() -> None:
            async with running() as one, running() as other:
                await owning(one)

                found = await scrape(other.http)

                assert {name.split("_")[0] for name, _ in found.values} == {"streamshard"}
                assert found.about("stream", "orders") == set()

        asyncio.run(scenario())


class TestGroups:
    def test_what_a_settled_group_is_like(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await owning(service, ticked=True)
                service.clock.advance(700)

                found = await scrape(service.http)

                assert _of_billing(found) == {
                    "group_epoch": 2,
                    "assignment_epoch": 2,
                    "metadata_version": 3,
                    "revoke_pending": 0,
                    "group_lag_records": 0,
                    "group_members ACTIVE": 1,
                    "group_state STABLE": 1,
                    "member_heartbeat_age_seconds web-m0": 1.7,
                    "member_lease_remaining_seconds web-m0": 13.45,
                    "member_shards held web-m0": 2,
                    "shard_lag_known 0": 1,
                    "shard_lag_known 1": 1,
                }
                assert found.family("reshard_active", "stream") == {("orders",): 0}
                assert found.family("reshard_age_seconds", "stream") == {}

        asyncio.run(scenario())

    def test_what_waits_in_shards(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                answer = await owning(service, ticked=True)
                await publish(service, 0, b"a", b"b", b"c")
                await publish(service, 1, b"d")
                await read(service, answer, 0, 2, acknowledged=1)
                service.clock.advance(4_000)

                found = await scrape(service.http)

                assert {name: found.family(name, "shard") for name in SHARD_FAMILIES} == {
                    "shard_lag_records": {("0",): 1, ("1",): 1},
                    "shard_lag_known": {("0",): 1, ("1",): 1},
                    "shard_pending_records": {("0",): 1, ("1",): 0},
                    "shard_stream_records": {("0",): 3, ("1",): 1},
                    "shard_oldest_unacked_age_seconds": {("0",): 4.002, ("1",): 4.0},
                    "shard_unowned_seconds": {("0",): 0, ("1",): 0},
                }
                assert found.value("group_lag_records", stream="orders", group="billing") == 2

        asyncio.run(scenario())

    def test_a_shard_without_an_owner_is_told_with_the_time_it_has_been(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await owning(service, ticked=True)
                await service.tick(15)
                await service.tick(5)

                found = await scrape(service.http)

                assert found.family("shard_unowned_seconds", "shard") == {("0",): 5, ("1",): 5}
                assert found.value("members_expired_total") == 1
                assert found.value("rebalances_total", reason="expiry") == 1
                assert found.family("member_lease_remaining_seconds", "member") == {}
                assert found.value("group_members", stream="orders", group="billing", state="EXPIRED") == 1

        asyncio.run(scenario())

    def test_a_shard_that_its_holder_does_not_read_is_told(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                told = [{"shard": {"shardIndex": n}, "lastReadAgeMs": age} for n, age in ((0, 20_000), (1, 50))]
                await owning(service, ticked=True, shardProgress=told)

                found = await scrape(service.http)

                assert found.family("shard_unread_seconds", "shard") == {("0",): 20, ("1",): 0}

        asyncio.run(scenario())

    def test_a_handover_shows_what_has_to_be_given_up(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await owning(service)
                await service.http.post(OTHER_BEAT, json=beat("web-m1", instanceId=instance(2)))

                found = await scrape(service.http)

                assert found.value("revoke_pending", stream="orders", group="billing") == 1
                assert found.family("member_shards", "member", "kind") == {
                    ("web-m0", "held"): 2,
                    ("web-m0", "revoking"): 1,
                    ("web-m1", "held"): 0,
                    ("web-m1", "revoking"): 0,
                }
                assert (found.value("shard_moves_total"), found.value("rebalances_total", reason="join")) == (1, 2)

        asyncio.run(scenario())

    def test_a_fence_is_counted_with_its_reason(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                answer = await owning(service)
                await service.http.post(HEARTBEAT, json=holding(answer, 9, instanceId=instance(7)))

                found = await scrape(service.http)

                assert found.value("members_fenced_total", reason="stale") == 1
                assert found.value("heartbeats_total", status="FENCED_MEMBER_EPOCH") == 1

        asyncio.run(scenario())

    def test_a_resharding_is_told_with_its_age_until_it_is_over(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                answer = await owning(service, ticked=True)
                await service.http.post(STREAM + "/scale", json={**ASKED, "targetShardCount": 1})
                await service.tick(3)
                during = await scrape(service.http)
                for seq in range(10, 90):
                    kept = holding(answer, seq, holds=[{"shardIndex": 0, "token": answer["grants"][0]["token"]}])
                    await service.http.post(HEARTBEAT, json=kept)
                    await service.tick()
                after = await scrape(service.http)

                assert during.value("reshard_active", stream="orders") == 1
                assert during.value("reshard_age_seconds", stream="orders") == 3
                assert after.value("reshard_active", stream="orders") == 0
                assert after.value("reshard_age_seconds", stream="orders") is None
                assert after.family("shard_unowned_seconds", "shard") == {("0",): 0}

        asyncio.run(scenario())

    def test_of_a_deleted_group_nothing_is_left(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await owning(service, ticked=True)
                before = await scrape(service.http)
                await service.http.request("DELETE", GROUP, json={**ASKED, "force": True})
                await service.tick()
                after = await scrape(service.http)
                await service.http.request("DELETE", STREAM, json={**ASKED, "force": True})
                await service.tick()
                last = await scrape(service.http)

                assert len(before.about("group", "billing")) > 10
                assert after.about("group", "billing") == set()
                assert after.about("stream", "orders") == {"streamshard_reshard_active"}
                assert last.about("stream", "orders") == set()

        asyncio.run(scenario())

    def test_a_forgotten_member_leaves_nothing_behind(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                await owning(service, ticked=True)
                await service.tick(17)
                await service.tick(601)

                found = await scrape(service.http)

                assert found.about("member", "web-m0") == set()
                assert set(found.family("group_members", "state").values()) == {0}

        asyncio.run(scenario())

    def test_names_come_through_as_they_are(self) -> None:
        async def scenario() -> None:
            async with running() as service:
                odd = {"streamPrefix": 'a"b\\c', "consumerGroup": "übung, {x}"}
                path = "/coord/v1/streams/a%22b%5Cc/groups/%C3%BCbung%2C%20%7Bx%7D"
                created = await service.http.post(path, json={**ASKED, "initialShardCount": 1})
                await service.tick()

                found = await scrape(service.http)

                assert created.status_code == 201
                assert found.value("group_epoch", stream=odd["streamPrefix"], group=odd["consumerGroup"]) == 1

        asyncio.run(scenario())


def _of_billing(found: Scrape) -> dict[str, float]:
    """Every series of the group that is not 0 (but for what may be), by name and further labels."""
    may_be_0 = {"revoke_pending", "group_lag_records"}
    told: dict[str, float] = {}
    for (name, labels), value in found.values.items():
        more = sorted(value for label, value in labels if label not in ("stream", "group"))
        short = name.removeprefix("streamshard_")
        if ("group", "billing") in labels and (value or short in may_be_0):
            told[" ".join([short, *more])] = round(value, 3)
    return told
