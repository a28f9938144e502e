"""What goes wrong between a process and its Redis, and what is left in order afterwards."""

import asyncio
import os
import signal

import pytest

from streamshard.adapters.streams.embedded import HOST, EmbeddedServer
from streamshard.adapters.streams.scripts import fence_key
from streamshard.core.effects import GuardResult, ProvisionResult, RaiseResult, RaiseVerdict
from streamshard.core.ids import Generation, LayoutVersion, Millis, Token
from streamshard.core.records import Access, AckMode, AckReply, ReadReply
from streamshard.core.slots import hash_slot
from streamshard.core.stream import FenceMark
from streamshard.errors import MaybeWritten, NotWritten, StreamUnavailable
from tests.integration.streams.redis_rig import run, short_log
from tests.integration.streams.rigs import (
    BILLING,
    KEY,
    ORDERS,
    START,
    ZERO,
    RedisRig,
    access,
    provision,
    publish,
    raise_to,
    seal,
)


class TestScripts:
    def test_a_server_that_forgot_its_scripts_is_taught_again(self, server_url: str) -> None:
        async def scenario(rig: RedisRig) -> None:
            await rig.backend.provision([provision((BILLING, "0"), shard=shard) for shard in range(3)])
            await publish(rig, "a")
            grants = [(access(5, shard=shard), 10) for shard in range(3)]
            await rig.log.read(grants)

            await rig.raw("SCRIPT", "FLUSH")
            replies = await rig.log.read(grants)
            await rig.raw("SCRIPT", "FLUSH")
            again = await rig.backend.provision([provision((BILLING, "0"), shard=shard) for shard in range(3)])

            assert [reply.access for reply in replies] == [Access.OK] * 3
            assert again == (ProvisionResult.DONE,) * 3

        run(server_url, scenario)

    def test_a_shard_and_its_fence_share_a_slot(self) -> None:
        keys = [KEY, "주문:7", "a:b:12"]

        assert [hash_slot(fence_key(key)) for key in keys] == [hash_slot(key) for key in keys]

    def test_acknowledged_records_are_deleted_where_the_server_can(self, server_url: str) -> None:
        async def scenario(rig: RedisRig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            first, second = await publish(rig, "a", "b")
            await rig.log.read([(access(5), 10)])
            known = await rig.knows("XACKDEL")

            reply = await rig.log.acknowledge(access(5), [first], AckMode.ACK_DEL)

            assert reply == AckReply(Access.OK, 1)
            assert await rig.ids(KEY) == ((second,) if known else (first, second))

        run(server_url, scenario)


class TestStrangers:
    def test_a_key_of_another_kind_is_left_alone(self, server_url: str) -> None:
        async def scenario(rig: RedisRig) -> None:
            await rig.raw("SET", KEY, "text")

            adopted = await rig.backend.provision([provision((BILLING, "0"), adopt=True)])
            (reply,) = await rig.log.read([(access(5), 1)])
            sealed = await rig.backend.seal(seal(BILLING))

            assert adopted == (ProvisionResult.FOREIGN,)
            assert reply == ReadReply(Access.MISSING)
            assert sealed is GuardResult.NOT_EMPTY
            assert await rig.raw("GET", KEY) == b"text"
            with pytest.raises(StreamUnavailable, match="WRONGTYPE"):
                await rig.backend.probe(ORDERS, [ZERO])
            with pytest.raises(NotWritten, match="WRONGTYPE"):
                await rig.log.append(KEY, {"a": 1}, None)

        run(server_url, scenario)

    def test_a_group_named_in_bytes_that_are_no_text_is_shown_escaped(self, server_url: str) -> None:
        async def scenario(rig: RedisRig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.raw("XGROUP", "CREATE", KEY, b"\xffg", "0")

            (probe,) = await rig.backend.probe(ORDERS, [ZERO])

            assert [group.name for group in probe.groups] == ["\\xffg", BILLING]

        run(server_url, scenario)

    @pytest.mark.parametrize("mark", ["abc", "", "-5", "1.5", "0x10", "1e300", str(2**53), "9" * 5_000])
    def test_a_mark_that_nobody_can_have_written_counts_as_none_and_is_mended(self, server_url: str, mark: str) -> None:
        async def scenario(rig: RedisRig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await publish(rig, "a")
            await rig.raw("HSET", fence_key(KEY), "gen", mark, "layout", mark, f"t:{BILLING}", mark)

            (unmarked,) = await rig.backend.read_fences(ORDERS, [ZERO])
            (raised,) = await rig.backend.raise_fences([raise_to(7)])
            (marked,) = await rig.backend.read_fences(ORDERS, [ZERO])
            (stale, fresh) = await rig.log.read([(access(6), 1)]), await rig.log.read([(access(7), 1)])

            assert unmarked == FenceMark(ZERO, True, None, False, None, {})
            assert raised == RaiseResult(RaiseVerdict.RAISED, Token(7))
            assert marked == FenceMark(ZERO, True, Generation(1), False, LayoutVersion(1), {BILLING: Token(7)})
            assert (stale[0].access, fresh[0].access) == (Access.FENCED, Access.OK)

        run(server_url, scenario)


class TestOutage:
    def test_a_server_that_comes_back_empty_is_served_by_the_same_objects(self, own_server: EmbeddedServer) -> None:
        async def scenario(rig: RedisRig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await publish(rig, "a")
            await rig.log.read([(access(5), 1)])

            own_server.kill()
            await asyncio.sleep(0.05)
            with pytest.raises(StreamUnavailable, match="can't be reached"):
                await rig.log.read([(access(5), 1)])
            with pytest.raises(StreamUnavailable, match="can't be reached"):
                await rig.backend.probe(ORDERS, [ZERO])
            with pytest.raises(StreamUnavailable, match="can't be reached"):
                await rig.log.wait({KEY: START}, Millis(50))
            with pytest.raises(NotWritten, match="can't be reached"):
                await rig.log.append(KEY, {"a": 1}, None)
            own_server.start()

            assert await rig.log.read([(access(5), 1)]) == (ReadReply(Access.MISSING),)
            assert await rig.log.append(KEY, {"a": 1}, None) is None
            assert await rig.backend.provision([provision((BILLING, "0"))]) == (ProvisionResult.DONE,)
            assert len(await publish(rig, "b")) == 1

        run(own_server.url, scenario)

    def test_a_restart_between_two_orders_goes_unnoticed(self, own_server: EmbeddedServer) -> None:
        async def scenario(rig: RedisRig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            own_server.kill()
            own_server.start()
            await asyncio.sleep(0.05)

            assert await rig.backend.provision([provision((BILLING, "0"))]) == (ProvisionResult.DONE,)

        run(own_server.url, scenario)

    def test_a_server_that_hangs_leaves_a_publish_in_doubt_and_the_pool_sound(self, own_server: EmbeddedServer) -> None:
        async def scenario(rig: RedisRig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            async with short_log(own_server.url) as log:
                await log.append(KEY, {"n": 0}, None)
                await log.read([(access(5), 1)])
                os.kill(own_server.pid, signal.SIGSTOP)
                try:
                    with pytest.raises(MaybeWritten, match="no answer in time"):
                        await log.append(KEY, {"n": 1}, None)
                    with pytest.raises(StreamUnavailable, match="no answer in time"):
                        await log.read([(access(5), 1)])
                finally:
                    os.kill(own_server.pid, signal.SIGCONT)

                written = await log.append(KEY, {"n": 2}, None)

                assert (await rig.ids(KEY))[-1] == written
                assert (await log.read([(access(5), 10)]))[0].last_delivered == written

        run(own_server.url, scenario)

    def test_a_server_that_dies_with_a_publish_in_its_hands_leaves_it_in_doubt(
        self, own_server: EmbeddedServer
    ) -> None:
        async def scenario(rig: RedisRig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.log.append(KEY, {"n": 0}, None)
            os.kill(own_server.pid, signal.SIGSTOP)

            publishing = asyncio.create_task(rig.log.append(KEY, {"n": 1}, None))
            await asyncio.sleep(0.05)
            own_server.kill()

            with pytest.raises(MaybeWritten):
                await publishing

        run(own_server.url, scenario)


class TestRefusals:
    @pytest.mark.parametrize(
        ("trouble", "name"),
        [(("CONFIG", "SET", "maxmemory", "1"), "OOM"), (("REPLICAOF", HOST, "1"), "READONLY")],
        ids=["memory", "replica"],
    )
    def test_a_server_that_takes_no_writes_says_why_and_writes_nothing(
        self, own_server: EmbeddedServer, trouble: tuple[str, ...], name: str
    ) -> None:
        async def scenario(rig: RedisRig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.raw(*trouble)

            with pytest.raises(NotWritten, match=name):
                await rig.log.append(KEY, {"a": 1}, None)
            with pytest.raises(StreamUnavailable, match=name):
                await rig.backend.provision([provision((BILLING, "0"), shard=1)])
            assert await rig.ids(KEY) == ()

        run(own_server.url, scenario)

    def test_an_account_without_permission_is_told_so(self, own_server: EmbeddedServer) -> None:
        async def scenario(rig: RedisRig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            await rig.raw("ACL", "SETUSER", "guest", "on", ">secret", "~other:*", "+@all")
            url = own_server.url.replace("redis://", "redis://guest:secret@")

            async with short_log(url) as log:
                with pytest.raises(NotWritten, match="NOPERM"):
                    await log.append(KEY, {"a": 1}, None)
                with pytest.raises(StreamUnavailable, match="NOPERM"):
                    await log.read([(access(5), 1)])

        run(own_server.url, scenario)

    def test_a_wrong_password_is_told_so(self, redis_url: str) -> None:
        async def scenario() -> None:
            async with short_log(redis_url.replace("redis://", "redis://nobody:wrong@")) as log:
                with pytest.raises(NotWritten, match="AUTH"):
                    await log.append(KEY, {"a": 1}, None)

        asyncio.run(scenario())

    def test_a_server_that_is_loading_refuses_and_nothing_is_in_doubt(self) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(65_536):
                writer.write(b"-LOADING Redis is loading the dataset in memory\r\n")
            writer.close()

        async def scenario() -> None:
            async with await asyncio.start_server(answer, HOST, 0) as server:
                port = server.sockets[0].getsockname()[1]
                async with short_log(f"redis://{HOST}:{port}") as log:
                    with pytest.raises(NotWritten, match="LOADING"):
                        await log.append(KEY, {"a": 1}, None)
                    with pytest.raises(StreamUnavailable, match="LOADING"):
                        await log.read([(access(5), 1)])

        asyncio.run(scenario())
