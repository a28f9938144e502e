"""What goes wrong between a process and its Redis, and what is left in order afterwards."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from streamshard.adapters.streams.connections import AnswerLost, Connections, NotSent
from streamshard.adapters.streams.embedded import HOST, EmbeddedServer
from streamshard.adapters.streams.redis_backend import RedisStreamBackend
from streamshard.adapters.streams.redis_log import RedisShardLog
from streamshard.adapters.streams.scripts import fence_key
from streamshard.core.effects import GuardResult, ProvisionResult, RaiseResult, RaiseVerdict
from streamshard.core.ids import Generation, LayoutVersion, Millis, Token
from streamshard.core.records import Access, AckMode, AckReply, ReadReply
from streamshard.core.slots import hash_slot
from streamshard.core.stream import FenceMark
from streamshard.errors import ConfigurationError, MaybeWritten, NotWritten, StreamUnavailable
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

SHORT = Millis(300)


def run(url: str, scenario: Callable[[RedisRig], Awaitable[None]]) -> None:
    async def main() -> None:
        rig = RedisRig(url)
        try:
            await scenario(rig)
        finally:
            await rig.close()

    asyncio.run(main())


@asynccontextmanager
async def short_log(url: str) -> AsyncIterator[RedisShardLog]:
    log = RedisShardLog.from_url(url, timeout=SHORT)
    try:
        yield log
    finally:
        await log.close()


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A server that the test may kill."""
    with EmbeddedServer() as server:
        yield server


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


class TestConnections:
    def test_more_callers_than_connections_wait_their_turn(self, redis_url: str) -> None:
        async def scenario() -> None:
            connections = Connections(redis_url, limit=2)
            try:
                echoed = await asyncio.gather(*[connections.exchange([("ECHO", n)]) for n in range(300)])
                (clients,) = await connections.exchange([("CLIENT", "LIST")])
            finally:
                await connections.close()

            assert echoed == [[b"%d" % n] for n in range(300)]
            assert isinstance(clients, bytes)
            assert clients.count(b"id=") == 2

        asyncio.run(scenario())

    def test_who_finds_none_free_in_time_is_told_which_option_to_raise(self, redis_url: str) -> None:
        async def scenario() -> None:
            connections = Connections(redis_url, limit=1, timeout=SHORT)
            blocked = asyncio.create_task(connections.exchange([("BLPOP", "nothing", 0)], Millis(5_000)))
            try:
                await asyncio.sleep(0.05)

                with pytest.raises(NotSent, match="max_connections"):
                    await connections.exchange([("PING",)])
            finally:
                blocked.cancel()
                await asyncio.gather(blocked, return_exceptions=True)
                await connections.close()

        asyncio.run(scenario())

    def test_cancelled_exchanges_never_leave_their_replies_to_others(self, redis_url: str) -> None:
        async def scenario() -> None:
            connections = Connections(redis_url, limit=3)
            pick = random.Random(7)
            try:
                for turn in range(100):
                    tasks = [
                        asyncio.create_task(connections.exchange([("ECHO", f"{turn}.{n}")] * 20)) for n in range(6)
                    ]
                    for _ in range(pick.randrange(12)):
                        await asyncio.sleep(0)
                    for task in pick.sample(tasks, 3):
                        task.cancel()
                    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
                    for n, outcome in enumerate(outcomes):
                        expected = [f"{turn}.{n}".encode()] * 20
                        assert isinstance(outcome, asyncio.CancelledError) or outcome == expected
                assert await connections.exchange([("PING",)] * 3) == [b"PONG"] * 3
            finally:
                await connections.close()

        asyncio.run(scenario())

    def test_the_driver_s_options_in_a_url_can_t_change_what_replies_look_like(self, redis_url: str) -> None:
        async def scenario() -> None:
            connections = Connections(redis_url + "?decode_responses=True&protocol=3&socket_timeout=1", limit=1)
            try:
                assert await connections.exchange([("ECHO", b"\xff")]) == [b"\xff"]
            finally:
                await connections.close()

        asyncio.run(scenario())

    def test_nothing_goes_out_after_the_end(self, redis_url: str) -> None:
        async def scenario() -> None:
            backend, log = RedisStreamBackend.from_url(redis_url), RedisShardLog.from_url(redis_url)
            await backend.provision([provision((BILLING, "0"))])
            await log.append(KEY, {"a": 1}, None)

            for _ in range(2):
                await backend.close()
                await log.close()

            with pytest.raises(StreamUnavailable, match="closed"):
                await backend.probe(ORDERS, [ZERO])
            with pytest.raises(StreamUnavailable, match="closed"):
                await log.read([(access(5), 1)])
            with pytest.raises(NotWritten, match="closed"):
                await log.append(KEY, {"a": 1}, None)

        asyncio.run(scenario())

    def test_what_is_under_way_at_the_end_is_told_the_truth(self, own_server: EmbeddedServer) -> None:
        async def scenario(rig: RedisRig) -> None:
            await rig.backend.provision([provision((BILLING, "0"))])
            log = RedisShardLog.from_url(own_server.url)
            await log.append(KEY, {"n": 0}, None)
            waiting = asyncio.create_task(log.wait({"orders:5": START}, Millis(60_000)))
            await asyncio.sleep(0.05)
            os.kill(own_server.pid, signal.SIGSTOP)
            sent = asyncio.create_task(log.append(KEY, {"n": 1}, None))
            await asyncio.sleep(0.05)
            queued = asyncio.create_task(log.append(KEY, {"n": 2}, None))
            await asyncio.sleep(0)

            await log.close()
            os.kill(own_server.pid, signal.SIGCONT)

            outcomes = await asyncio.gather(waiting, sent, queued, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [AnswerLost, MaybeWritten, NotWritten]

        run(own_server.url, scenario)

    @pytest.mark.parametrize(
        ("make", "named"),
        [
            (lambda: RedisShardLog.from_url("http://127.0.0.1"), "redis"),
            (lambda: RedisShardLog.from_url("redis://127.0.0.1", max_connections=0), "max_connections"),
            (lambda: RedisStreamBackend.from_url("redis://127.0.0.1", timeout=Millis(0)), "timeout"),
        ],
        ids=["url", "connections", "timeout"],
    )
    def test_an_option_out_of_range_is_named(self, make: Callable[[], object], named: str) -> None:
        with pytest.raises(ConfigurationError, match=named):
            make()
