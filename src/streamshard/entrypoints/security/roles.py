"""Roles of accounts, and what of them each operation needs."""

import enum
from collections.abc import Mapping

import attrs


class Role(enum.Enum):
    """What an account is for."""

    READ = "READ"
    WRITE = "WRITE"
    MEMBER = "MEMBER"
    PAYLOAD = "PAYLOAD"
    ADMIN = "ADMIN"


ALIASES: Mapping[str, Role] = {**{role.value: role for role in Role}, "MONITOR": Role.READ}
"""By what accounts files call them."""


class Need(enum.Enum):
    """What an operation asks of its caller."""

    OPEN = "OPEN"
    """Nothing at all."""
    ACCOUNT = "ACCOUNT"
    """An account, of whatever role."""
    READ = "READ"
    WRITE = "WRITE"
    MEMBER = "MEMBER"
    WATCH = "WATCH"
    PAYLOAD = "PAYLOAD"


SUFFICIENT: Mapping[Need, frozenset[Role]] = {
    Need.ACCOUNT: frozenset(Role),
    Need.READ: frozenset({Role.READ, Role.WRITE, Role.ADMIN}),
    Need.WRITE: frozenset({Role.WRITE, Role.ADMIN}),
    Need.MEMBER: frozenset({Role.MEMBER, Role.ADMIN}),
    Need.WATCH: frozenset({Role.READ, Role.WRITE, Role.MEMBER, Role.ADMIN}),
    Need.PAYLOAD: frozenset({Role.PAYLOAD, Role.WRITE, Role.ADMIN}),
}
"""Any one of these will do; an operation that is open asks for none."""

UNBOUND = frozenset({Need.OPEN, Need.ACCOUNT, Need.MEMBER})
"""Open to an account with prefixes where the path names no stream: several heartbeats are looked at one by one."""


@attrs.frozen
class Caller:
    """Who asks: an account as it is at this moment."""

    name: str | None
    """None: nobody has said who he is."""
    roles: frozenset[Role]
    prefixes: tuple[str, ...] = ()
    """Streams that the account is confined to; none means all. A ``*`` at the end stands for any rest."""
    token: str | None = None
    """The id of the token that was shown, if any."""

    def may(self, need: Need) -> bool:
        """One of its roles will do."""
        return need is Need.OPEN or not self.roles.isdisjoint(SUFFICIENT[need])

    def reaches(self, prefix: str) -> bool:
        """The stream is one of its own."""
        return not self.prefixes or any(_covers(pattern, prefix) for pattern in self.prefixes)


ANYBODY = Caller(None, frozenset(Role))
"""While there are no accounts."""

NOBODY = Caller(None, frozenset())


def _covers(pattern: str, prefix: str) -> bool:
    return prefix.startswith(pattern[:-1]) if pattern.endswith("*") else prefix == pattern
