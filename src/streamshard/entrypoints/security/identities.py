"""From what a caller shows to who he is."""

import attrs

from streamshard.entrypoints.security.accounts import Account, Accounts
from streamshard.entrypoints.security.limits import FixedWindow
from streamshard.entrypoints.security.passwords import Passwords
from streamshard.entrypoints.security.roles import Caller
from streamshard.entrypoints.security.tokens import Tokens
from streamshard.errors import Unauthenticated

A_HOST_S_SHARE = 10
"""How many times as many failed logins a whole host has as one of the names it tries."""


class WrongPassword(Unauthenticated):
    """Name and password don't belong together; it is not said which of them is wrong."""


@attrs.frozen
class Identities:
    """Accounts with all that proves them; every answer is about the account as it is now."""

    accounts: Accounts
    tokens: Tokens
    failures: FixedWindow
    """Failed logins by host and name."""
    failures_of_hosts: FixedWindow
    passwords: Passwords = attrs.field(factory=Passwords)

    async def by_password(self, name: str, password: str, address: str) -> Account:
        """Raise `Unauthenticated`, or `RateLimited` after too many failures; a password known to be right always goes.

        As much is computed for a name that nobody has.
        """
        account = self.accounts.find(name)
        if account is not None and self.passwords.known(account, password):
            return account
        self.failures_of_hosts.check(address)
        self.failures.check((address, name))
        if await self.passwords.right(account, self.accounts.decoy(), password):
            found = self.accounts.find(name)
            if found is not None and found == account:
                return found
        self.failures_of_hosts.count(address)
        self.failures.count((address, name))
        raise WrongPassword("name and password don't belong together")

    def by_token(self, text: str) -> Caller:
        """Raise `Unauthenticated`."""
        claims = self.tokens.read(text)
        account = self.accounts.find(claims.name)
        if account is None or not self.tokens.fits(claims, account):
            raise Unauthenticated("the account of this token is gone, or has another password by now: log in again")
        return caller_of(account, claims.id)


def caller_of(account: Account, token: str | None = None) -> Caller:
    """The account as a caller."""
    return Caller(account.name, account.roles, account.prefixes, token)
