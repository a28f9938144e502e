"""Tokens: JWT with HS256, each with an id of its own, by which it can be taken back before its time."""

import hashlib
import hmac
import logging
import os
import re
import secrets
from pathlib import Path
from typing import Any

import attrs
import jwt

from streamshard.entrypoints.security.accounts import Account, Wall, stamp_of
from streamshard.errors import ConfigurationError, Unauthenticated

logger = logging.getLogger(__name__)

ISSUER = "streamshard"
ALGORITHM = "HS256"
LEAST_SECRET_BYTES = 32
LONGEST = 4_096
"""Characters of a token that is looked at."""

MOST_READ = 4_096
"""Tokens whose signature is not checked again."""

_CLAIMS = ["iss", "sub", "jti", "iat", "exp", "bond"]
_ID = re.compile(r"[0-9a-f]{32}")


@attrs.frozen
class Claims:
    """What a token says."""

    name: str
    id: str
    issued_at: int
    expires_at: int
    """Seconds since 1970."""
    bond: str = attrs.field(repr=False)
    """Of the password's hash: a new password ends the tokens that came of the old one."""


class Revocations:
    """Ids of tokens that are not accepted any more; in a file, other coordinators and later ones know them too."""

    def __init__(self, path: Path | None, wall: Wall) -> None:
        self._path = path
        self._wall = wall
        self._until: dict[str, int] = {}
        self._stamp: object = None
        if path is not None:
            try:
                path.touch(mode=0o600)
            except OSError as error:
                raise ConfigurationError(f"--revoked-tokens: {path}: {error.strerror}") from None

    @property
    def lasting(self) -> bool:
        """Known also after this process."""
        return self._path is not None

    def __contains__(self, id: str) -> bool:
        self._look()
        return id in self._until

    def add(self, id: str, until: int) -> None:
        """Take the token back; it is forgotten once it would have ended anyway."""
        now = self._wall()
        self._until = {each: end for each, end in self._until.items() if end > now}
        self._until[id] = until
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(f"{id} {until}\n")
                file.flush()
                os.fsync(file.fileno())

    def _look(self) -> None:
        if self._path is None:
            return
        try:
            stamp = stamp_of(self._path)
            if stamp == self._stamp:
                return
            self._until |= dict(filter(None, map(_revoked, self._path.read_text().splitlines())))
            self._stamp = stamp
        except OSError as error:  # what is known goes on to hold
            logger.error("revoked tokens can't be read from %s: %s", self._path, error.strerror)


def _revoked(line: str) -> tuple[str, int] | None:
    id, _, until = line.partition(" ")
    return (id, int(until)) if _ID.fullmatch(id) and until.isdigit() else None


class Tokens:
    """Makes tokens and reads them; whether their account still exists is for others to say."""

    def __init__(self, secret: bytes, lifetime_s: int, wall: Wall, revoked: Revocations) -> None:
        if len(secret) < LEAST_SECRET_BYTES:
            raise ConfigurationError(f"the token secret must be at least {LEAST_SECRET_BYTES} bytes long")
        self._secret = secret
        self.lifetime_s = lifetime_s
        self._wall = wall
        self._read: dict[str, Claims] = {}
        self.revoked = revoked

    def mint(self, account: Account) -> tuple[str, Claims]:
        """A new token for ``account``."""
        now = int(self._wall())
        claims = Claims(account.name, secrets.token_hex(16), now, now + self.lifetime_s, self._bond(account))
        told = {
            "iss": ISSUER,
            "sub": claims.name,
            "jti": claims.id,
            "iat": claims.issued_at,
            "exp": claims.expires_at,
            "bond": claims.bond,
        }
        return jwt.encode(told, self._secret, ALGORITHM), claims

    def read(self, text: str) -> Claims:
        """What a token of ours says that still holds; raises `Unauthenticated` for any other."""
        claims = self._read.get(text) or self._verified(text)
        if claims.expires_at <= self._wall():
            raise Unauthenticated("the token has expired: log in again")
        if claims.id in self.revoked:
            raise Unauthenticated("the token was revoked: log in again")
        return claims

    def fits(self, claims: Claims, account: Account) -> bool:
        """The account's password is still the one that the token was given for."""
        return hmac.compare_digest(claims.bond, self._bond(account))

    def _verified(self, text: str) -> Claims:
        if len(text) > LONGEST:
            raise _no_token()
        try:
            # When it ends is compared with our clock above: what was read once is not read again.
            options: Any = {"require": _CLAIMS, "verify_exp": False, "verify_iat": False, "verify_nbf": False}
            told = jwt.decode(text, self._secret, [ALGORITHM], options=options, issuer=ISSUER)
            claims = Claims(told["sub"], told["jti"], int(told["iat"]), int(told["exp"]), told["bond"])
        except (jwt.InvalidTokenError, ValueError, TypeError):
            raise _no_token() from None
        if len(self._read) >= MOST_READ:
            self._read.clear()
        self._read[text] = claims
        return claims

    def _bond(self, account: Account) -> str:
        return hmac.new(self._secret, account.hash.encode(), hashlib.sha256).hexdigest()[:32]


def _no_token() -> Unauthenticated:
    return Unauthenticated("this is no token of this coordinator: log in again")


def claims_told(text: str) -> dict[str, Any]:
    """What a token says, whether it is true or not; raises `ValueError` if it is none."""
    try:
        told = jwt.decode(text, options={"verify_signature": False})
    except jwt.InvalidTokenError:
        raise ValueError("this is no token") from None
    return {name: value for name, value in told.items() if name != "bond"}
