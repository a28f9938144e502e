"""What each account can't do: whatever is not its role's."""

import asyncio

import pytest
from redis.exceptions import NoPermissionError, ResponseError

from streamshard.adapters.redis_acl import Asked, Role, Topology, rules
from streamshard.adapters.streams.connections import Command, Connections
from streamshard.adapters.streams.opening import stream_backend
from streamshard.core.ids import StreamPrefix
from tests.integration.accounts.accounts import SECRET, Accounts
from tests.integration.cluster import ask
from tests.integration.streams.rigs import BILLING, ZERO, provision

DANGEROUS: list[Command] = [
    ("FLUSHALL",),
    ("FLUSHDB",),
    ("CONFIG", "GET", "requirepass"),
    ("CONFIG", "SET", "appendonly", "no"),
    ("KEYS", "*"),
    ("ACL", "LIST"),
    ("ACL", "SETUSER", "me", "on", "nopass", "+@all"),
    ("SHUTDOWN", "NOSAVE"),
    ("CLIENT", "KILL", "TYPE", "normal"),
    ("MONITOR",),
    ("REPLICAOF", "NO", "ONE"),
    ("SCRIPT", "FLUSH"),
    ("FUNCTION", "LIST"),
    ("PUBLISH", "channel", "text"),
    ("SUBSCRIBE", "channel"),
    ("SET", "mine", "1"),
    ("GET", "mine"),
    ("XADD", "others:0", "*", "a", "1"),
    ("XADD", "orders2:0", "*", "a", "1"),
    ("XRANGE", "orders2:0", "-", "+"),
    ("HSET", "{orders2:0}:fence", "gen", "9"),
    ("COPY", "orders:0", "orders:1"),
    ("MIGRATE", "127.0.0.1", "1", "orders:0", "0", "1"),
]
NOT_A_CONSUMERS: list[Command] = [
    ("XADD", "orders:0", "*", "a", "1"),
    ("XRANGE", "orders:dlq", "-", "+"),
    ("DEL", "orders:0"),
    ("XDEL", "orders:0", "1-0"),
    ("XTRIM", "orders:0", "MAXLEN", 0),
    ("XGROUP", "CREATE", "orders:0", "mine", "0"),
    ("XGROUP", "DESTROY", "orders:0", "billing"),
    ("XGROUP", "SETID", "orders:0", "billing", "$"),
    ("HGETALL", "streamshard:{p:orders}:stream"),
    ("EVAL", "return redis.call('XADD', KEYS[1], '*', 'a', '1')", 1, "orders:0"),
    ("EVAL", "return redis.call('DEL', KEYS[1])", 1, "orders:0"),
]
NOT_A_PRODUCERS: list[Command] = [
    ("XRANGE", "orders:0", "-", "+"),
    ("XREAD", "STREAMS", "orders:0", "0"),
    ("XREADGROUP", "GROUP", "billing", "me", "STREAMS", "orders:0", ">"),
    ("XLEN", "orders:0"),
    ("XINFO", "STREAM", "orders:0"),
    ("XACK", "orders:0", "billing", "1-0"),
    ("XDEL", "orders:0", "1-0"),
    ("DEL", "orders:0"),
    ("XADD", "orders:dlq", "*", "a", "1"),
    ("HSET", "{orders:0}:fence", "gen", "9"),
    ("EVAL", "return 1", 0),
    ("INFO",),
]
NOT_A_MONITORS: list[Command] = [
    ("XADD", "orders:0", "*", "a", "1"),
    ("XDEL", "orders:dlq", "1-0"),
    ("XREADGROUP", "GROUP", "billing", "me", "STREAMS", "orders:0", ">"),
    ("XACK", "orders:0", "billing", "1-0"),
    ("XGROUP", "CREATE", "orders:0", "mine", "0"),
    ("DEL", "orders:0"),
    ("HSET", "{orders:0}:fence", "gen", "9"),
    ("EVAL", "return 1", 1, "orders:0"),
    ("EVAL_RO", "return redis.call('XADD', KEYS[1], '*', 'a', '1')", 1, "orders:0"),
    ("HGETALL", "streamshard:{p:orders}:stream"),
]
NOT_AN_OPERATORS: list[Command] = [
    ("XRANGE", "orders:0", "-", "+"),
    ("XDEL", "orders:0", "1-0"),
    ("DEL", "orders:dlq"),
    ("XADD", "orders:dlq", "*", "a", "1"),
]
NOT_A_COORDINATORS: list[Command] = [
    ("XADD", "orders:0", "*", "a", "1"),
    ("XREADGROUP", "GROUP", "billing", "me", "STREAMS", "orders:0", ">"),
    ("XDEL", "orders:0", "1-0"),
    ("XRANGE", "orders:dlq", "-", "+"),
    ("SCRIPT", "KILL"),
    ("UNLINK", "streamshard:{p:orders}:stream"),
]


@pytest.mark.parametrize(
    ("role", "forbidden"),
    [
        (Role.CONSUMER, NOT_A_CONSUMERS),
        (Role.PRODUCER, NOT_A_PRODUCERS),
        (Role.MONITOR, NOT_A_MONITORS),
        (Role.OPERATOR, NOT_AN_OPERATORS),
        (Role.COORDINATOR, NOT_A_COORDINATORS),
    ],
)
def test_an_account_is_refused_what_is_not_its_role_s(accounts: Accounts, role: Role, forbidden: list[Command]) -> None:
    make_shard(accounts)
    commands = [*DANGEROUS, *forbidden]

    outcomes = asyncio.run(exchange(accounts.url(role), commands))

    assert [c for c, outcome in zip(commands, outcomes, strict=True) if not is_refusal(outcome)] == []
    assert len(accounts.refused()) > 0
    assert ask(accounts.port, "XLEN", "orders:0") == 1


def is_refusal(outcome: object) -> bool:
    """By the account; what a server does not know it can't do either."""
    if isinstance(outcome, NoPermissionError):
        return True
    said = str(outcome) if isinstance(outcome, ResponseError) else ""
    return said.startswith(("ACL failure in script", "The user executing the script can't", "unknown command"))


def test_names_that_patterns_and_rules_would_misread_are_the_stream_s_own(accounts: Accounts) -> None:
    prefix = StreamPrefix("we[i]rd *?(x) \"q\" 'ü' \\")
    words = rules(Asked((Role.PRODUCER,), (prefix,)), f">{SECRET}")
    accounts.change(Role.PRODUCER, *words)
    for key in (f"{prefix}:0", "weird *?(x) \"q\" 'ü' \\:0", "wei anything :0"):
        ask(accounts.port, "XADD", key, "1-1", "a", "1")

    outcomes = asyncio.run(
        exchange(
            accounts.url(Role.PRODUCER),
            [
                ("XADD", f"{prefix}:0", "NOMKSTREAM", "2-1", "a", "1"),
                ("XADD", "weird *?(x) \"q\" 'ü' \\:0", "*", "a", "1"),
                ("XADD", "wei anything :0", "*", "a", "1"),
            ],
        )
    )

    assert outcomes[0] == b"2-1"
    assert [type(outcome) for outcome in outcomes[1:]] == [NoPermissionError] * 2


def test_rules_for_other_topologies_and_another_database_are_taken_by_every_server(accounts: Accounts) -> None:
    for role in Role:
        for topology in Topology:
            accounts.change(role, *rules(Asked((role,), topology=topology, redis=accounts.release, database=3)))


def test_an_account_with_several_roles_has_them_all(accounts: Accounts) -> None:
    make_shard(accounts)
    accounts.allow((Role.CONSUMER, Role.PRODUCER))
    url = accounts.url(Role.CONSUMER, Role.PRODUCER)

    written, seen, deleted = asyncio.run(
        exchange(url, [("XADD", "orders:0", "9-9", "a", "1"), ("XRANGE", "orders:0", "9", "+"), ("DEL", "orders:0")])
    )

    assert (written, seen) == (b"9-9", [[b"9-9", [b"a", b"1"]]])
    assert isinstance(deleted, NoPermissionError)


def make_shard(accounts: Accounts) -> None:
    """``orders:0`` with a record."""

    async def make() -> None:
        backend = stream_backend(accounts.url(Role.COORDINATOR))
        await backend.provision([provision((BILLING, "0"), shard=ZERO)])
        await backend.close()

    asyncio.run(make())
    ask(accounts.port, "XADD", "orders:0", "1-0", "a", "1")
    assert accounts.refused() == []


async def exchange(url: str, commands: list[Command]) -> list[object]:
    """Each over a connection of its own, so that none spoils the next."""
    outcomes: list[object] = []
    for command in commands:
        connections = Connections(url, limit=1)
        try:
            outcomes += await connections.exchange([command])
        finally:
            await connections.close()
    return outcomes
