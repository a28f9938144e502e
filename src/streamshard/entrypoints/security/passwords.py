"""Passwords against argon2 hashes: off the event loop, few at a time, and once for each right one."""

import asyncio
import hashlib
import hmac
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from streamshard.entrypoints.security.accounts import Account
from streamshard.entrypoints.security.limits import too_many

AT_A_TIME = 2
"""Each takes a core for tens of milliseconds and tens of megabytes."""

MOST_WAITING = 128
"""Who comes when so many wait is sent away: the memory of a coordinator is not for guessing passwords."""


def hashed(password: str) -> str:
    """What an accounts file keeps of ``password``."""
    return PasswordHasher().hash(password)


class Passwords:
    """Compares; remembers of each account the last password that was right, as a digest under a key of its own."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: dict[str, tuple[str, bytes]] = {}
        self._hasher = PasswordHasher()
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self._waiting = 0
        self.computed = 0
        """How many hashes were computed."""

    def known(self, account: Account | None, password: str) -> bool:
        """It was right before, and nothing has changed since; costs next to nothing."""
        if account is None:
            return False
        hash, digest = self._known.get(account.name, ("", b""))
        return hmac.compare_digest(digest, self._digest(password)) and hash == account.hash

    async def right(self, account: Account | None, decoy: Account | None, password: str) -> bool:
        """Whether it is the account's; without one as much is computed for nothing."""
        compared = account or decoy
        if compared is None:
            return False
        if self._waiting >= MOST_WAITING:
            raise too_many("too many logins at a time: try again in a moment", 1)
        self._waiting += 1
        try:
            async with self._turns:
                if self.known(account, password):
                    return True
                self.computed += 1
                fits = await asyncio.to_thread(self._fits, compared.hash, password)
        finally:
            self._waiting -= 1
        if account is None or not fits:
            return False
        self._known[account.name] = (account.hash, self._digest(password))
        return True

    def _fits(self, hash: str, password: str) -> bool:
        try:
            return self._hasher.verify(hash, password)
        except (VerificationError, InvalidHashError, UnicodeEncodeError):
            return False

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode("utf-8", "surrogatepass"), hashlib.sha256)
