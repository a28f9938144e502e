"""A coordinator with accounts in this process, and callers of every kind."""

import base64
import contextlib
from collections.abc import AsyncIterator, Mapping

import attrs
import httpx
from argon2 import PasswordHasher

from streamshard.adapters.streams.memory_inspector import MemoryStreamInspector
from streamshard.entrypoints.http.app import create_app
from streamshard.entrypoints.http.gate import Gate, Network
from streamshard.entrypoints.security.accounts import Account, Accounts
from streamshard.entrypoints.security.audit import AuditRecord
from streamshard.entrypoints.security.identities import Identities
from streamshard.entrypoints.security.limits import FixedWindow, Limit
from streamshard.entrypoints.security.roles import Role
from streamshard.entrypoints.security.tokens import Revocations, Tokens
from tests.integration.http.service import Running, running

SECRET = b"a secret of thirty-two bytes, no less"
LIFETIME_S = 7 * 86_400
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
TEN_A_MINUTE = Limit(10, 60)
PASSWORD = "correct horse"
HASH = QUICK.hash(PASSWORD)

ACCOUNTS: Mapping[str, Account] = {
    account.name: account
    for account in (
        *(Account(role.value.lower(), HASH, frozenset({role})) for role in Role),
        Account("confined-member", HASH, frozenset({Role.MEMBER}), ("orders", "spare-*")),
        Account("confined-admin", HASH, frozenset({Role.ADMIN}), ("orders",)),
        Account("other-member", HASH, frozenset({Role.MEMBER})),
    )
}


class OwnAccounts(Accounts):
    """Accounts that a test changes."""

    def __init__(self) -> None:
        self.listed = dict(ACCOUNTS)
        super().__init__(self.listed)


@attrs.define
class Clock:
    """Seconds, moved by hand."""

    at: float = 1_800_000_000.0

    def now(self) -> float:
        return self.at


@attrs.frozen
class Guarded:
    """A coordinator, its door, and what went on record there."""

    running: Running
    http: httpx.AsyncClient
    identities: Identities
    accounts: OwnAccounts
    clock: Clock
    records: list[AuditRecord]

    def token(self, name: str) -> str:
        """A token of that account."""
        return self.identities.tokens.mint(self.accounts.listed[name])[0]

    def bearer(self, name: str) -> dict[str, str]:
        """Headers with a token of that account."""
        return {"authorization": f"Bearer {self.token(name)}"}


def basic(name: str, password: str = PASSWORD) -> dict[str, str]:
    """Headers with a name and a password."""
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


@contextlib.asynccontextmanager
async def guarded(
    *,
    changes: Limit | None = None,
    logins: Limit = TEN_A_MINUTE,
    proxies: tuple[Network, ...] = (),
    open_metrics: bool = False,
    client: tuple[str, int] = ("192.0.2.7", 123),
) -> AsyncIterator[Guarded]:
    """Everything in memory; nobody is logged in."""
    clock, accounts, records = Clock(), OwnAccounts(), list[AuditRecord]()
    identities = Identities(
        accounts,
        Tokens(SECRET, LIFETIME_S, clock.now, Revocations(None, clock.now)),
        FixedWindow(logins, clock.now),
        FixedWindow(Limit(logins.count * 10, logins.seconds), clock.now),
    )
    gate = Gate(
        identities,
        None if changes is None else FixedWindow(changes, clock.now),
        records.append,
        "coordinator-1",
        proxies,
        open_metrics,
        clock.now,
    )
    async with running() as service:
        inspector = MemoryStreamInspector(service.world, service.clock.wall)
        app = create_app(service.coordinator, traffic=service.traffic, inspector=inspector, gate=gate)
        transport = httpx.ASGITransport(app=app, client=client)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            yield Guarded(service, http, identities, accounts, clock, records)
