"""Members where there are accounts: who may speak for whom, one by one, together, and under the older contract."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.integration.http.service import ASKED, GROUP, beat
from tests.integration.http.stage import holding
from tests.integration.legacy.older import OlderClient
from tests.integration.security.doors import PASSWORD, Guarded, basic, guarded

HEARTBEAT = GROUP + "/members/web-m0/heartbeat"
BATCH = "/coord/v1/heartbeats"


async def create(door: Guarded, **given: Any) -> None:
    asked = {**ASKED, "initialShardCount": 2, **given}
    assert (await door.http.post(GROUP, json=asked, headers=door.bearer("write"))).status_code == 201
    await door.running.tick()


async def say(door: Guarded, who: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await door.http.post(HEARTBEAT, json=body, headers=door.bearer(who))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def owning(door: Guarded, who: str) -> dict[str, Any]:
    """Both shards held by web-m0, which speaks through ``who`` and has begun to repeat itself."""
    await create(door)
    answer = await say(door, who, beat())
    for seq in range(2, 8):
        answer = await say(door, who, holding(answer, seq))
    assert (answer["status"], len(answer["extended"])) == ("OK", 2)
    return answer


@pytest.mark.parametrize("epoch", [0, -1, None])
def test_no_other_account_speaks_for_a_member_although_it_knows_all_about_it(epoch: int | None) -> None:
    async def scenario() -> None:
        async with guarded() as door:
            answer = await owning(door, "member")
            body = holding(answer, 50)
            stolen = body if epoch is None else {**body, "memberEpoch": epoch, "holds": []}

            refused = await say(door, "other-member", stolen)
            own = await say(door, "member", holding(answer, 8))

        assert refused["status"] == "FENCED_MEMBER_EPOCH"
        assert refused["grants"] == []
        assert (own["status"], own["grants"]) == ("OK", answer["grants"])

    asyncio.run(scenario())


def test_a_batch_is_no_way_around_it() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            answer = await owning(door, "member")
            stolen = {**holding(answer, 50), "streamPrefix": "orders", "consumerGroup": "billing"}
            found = await door.http.post(BATCH, json={"heartbeats": [stolen]}, headers=door.bearer("other-member"))
            own = await door.http.post(BATCH, json={"heartbeats": [stolen]}, headers=door.bearer("member"))

        assert [reply["status"] for reply in found.json()["replies"]] == ["FENCED_MEMBER_EPOCH"]
        assert [reply["status"] for reply in own.json()["replies"]] == ["OK"]

    asyncio.run(scenario())


def test_one_foreign_member_keeps_a_whole_batch_out() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            await create(door)
            items = [beat(streamPrefix=prefix, consumerGroup="billing") for prefix in ("orders", "payments")]
            headers = door.bearer("confined-member")
            refused = await door.http.post(BATCH, json={"heartbeats": items}, headers=headers)
            taken = await door.http.post(BATCH, json={"heartbeats": items[:1]}, headers=headers)

        assert (refused.status_code, taken.status_code) == (403, 200)
        assert [reply["status"] for reply in taken.json()["replies"]] == ["OK"]

    asyncio.run(scenario())


def test_the_same_account_goes_on_under_another_token_or_with_its_password() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            answer = await owning(door, "member")
            for seq, headers in enumerate((door.bearer("member"), basic("member")), 8):
                found = await door.http.post(HEARTBEAT, json=holding(answer, seq), headers=headers)
                assert found.json()["status"] == "OK"

    asyncio.run(scenario())


def test_a_member_without_its_account_is_not_heard_any_more() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            answer = await owning(door, "member")
            headers = door.bearer("member")
            del door.accounts.listed["member"]
            found = await door.http.post(HEARTBEAT, json=holding(answer, 8), headers=headers)

        assert found.status_code == 401

    asyncio.run(scenario())


@pytest.mark.parametrize("by", ["Basic", "Bearer"])
def test_a_client_of_the_older_contract_lives_from_its_login_to_its_goodbye(by: str) -> None:
    async def scenario() -> None:
        async with guarded() as door:
            await create(door, allowLegacyMembers=True)
            headers = basic("member")
            if by == "Bearer":
                login = {"username": "member", "password": PASSWORD}
                got = (await door.http.post("/coord/v1/auth/login", json=login)).json()
                headers = {"authorization": f"{got['tokenType']} {got['accessToken']}"}
            transport = door.http._transport
            async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as http:
                client = OlderClient(http, GROUP)
                for _ in range(4):
                    await client.beat()
                    await door.running.tick()
                assert client.owned == {0, 1}

                left = await client.leave()

                assert left["status"] == "OK"
                watching = await http.get("/coord/v1/streams/orders/watch?layout=0&waitMs=0")
                assert watching.status_code == 200
            shown = await door.http.get(
                GROUP.replace("/v1", "/v1/monitoring") + "/assignments", headers=door.bearer("read")
            )
            assert [shard["owner"] for shard in shown.json()["shards"]] == [None, None]

    asyncio.run(scenario())
