"""Between the matched route and its handler: who asks, whether he may, how often, and what is put on record."""

import base64
import binascii
import ipaddress
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import attrs
from starlette.types import Receive, Scope

from streamshard.entrypoints.http.exchange import (
    CALLER,
    TAG,
    ClientGone,
    Reply,
    Request,
    header,
    percent_decoded,
    raw_path,
    read_body,
)
from streamshard.entrypoints.http.faults import INTERNAL, http_status
from streamshard.entrypoints.http.operations import Operation
from streamshard.entrypoints.security.accounts import Account
from streamshard.entrypoints.security.audit import (
    AuditRecord,
    Sink,
    digest,
    outcome_of,
    short,
    summary,
    timestamp,
    to_log,
    understood,
)
from streamshard.entrypoints.security.identities import Identities, WrongPassword, caller_of
from streamshard.entrypoints.security.limits import FixedWindow
from streamshard.entrypoints.security.roles import ANYBODY, NOBODY, UNBOUND, Caller, Need
from streamshard.errors import Forbidden, StreamshardError, Unauthenticated

Handler = Callable[[Request], Awaitable[Reply]]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LOGIN = "LOGIN"
SECRET_BODIES = frozenset({LOGIN})
"""Not even a digest is kept of these: a password could be guessed from it."""


def _wall() -> float:
    return time.time()


@attrs.frozen
class Gate:
    """Lets requests through, or raises; without ``identities`` everybody may do everything."""

    identities: Identities | None = None
    changes: FixedWindow | None = None
    """How often an account may change something of a group; None: as often as it likes."""
    sink: Sink = to_log
    coordinator_id: str = ""
    proxies: Sequence[Network] = ()
    """Whose word is taken for where a request comes from."""
    open_metrics: bool = False
    wall: Callable[[], float] = _wall

    async def serve(
        self, scope: Scope, receive: Receive, operation: Operation, handler: Handler, params: Mapping[str, str]
    ) -> Reply:
        """What the handler answers; raises `Unauthenticated`, `Forbidden`, `RateLimited` or what it raises."""
        if operation.action is not None:
            return await self._on_record(scope, receive, operation, handler, params)
        await self.admit(scope, operation, params)
        body = await read_body(scope, receive)
        return await handler(Request(scope, params, body, receive))

    async def admit(self, scope: Scope, operation: Operation, params: Mapping[str, str]) -> Caller:
        """Who asks, if he may; raises `Unauthenticated` or `Forbidden`."""
        if self.identities is None:
            return ANYBODY
        need = Need.OPEN if self.open_metrics and operation.id == "getMetrics" else operation.need
        caller = scope[CALLER] = NOBODY if need is Need.OPEN else await self._caller(scope, self.identities)
        if need is Need.OPEN:
            return caller
        if caller.name is None:
            raise Unauthenticated("this coordinator has accounts: send a name and a password, or a token")
        if not caller.may(need):
            raise Forbidden(f"account '{caller.name}' lacks the role that this takes: {need.value}")
        if caller.prefixes:
            _confine(caller, need, params)
        return caller

    async def login(self, scope: Scope, name: str, password: str) -> Account:
        """The account that name and password belong to; raises `Unauthenticated` or `RateLimited`."""
        if self.identities is None:
            raise Unauthenticated("this coordinator has no accounts: nobody has to log in")
        return await self.identities.by_password(name, password, self.address(scope))

    def address(self, scope: Scope) -> str:
        """Where a request comes from; what it says of that itself is believed from configured proxies only."""
        client = scope.get("client")
        address = str(client[0]) if client else ""
        if not self.proxies or not self._is_proxy(address):
            return address
        told = (header(scope, b"x-forwarded-for") or b"").decode("latin-1").split(",")
        for each in reversed([part.strip() for part in told]):
            if not _is_address(each):
                return address
            address = each
            if not self._is_proxy(each):
                return each
        return address

    def _is_proxy(self, address: str) -> bool:
        return _is_address(address) and any(ipaddress.ip_address(address) in network for network in self.proxies)

    async def _caller(self, scope: Scope, identities: Identities) -> Caller:
        given = header(scope, b"authorization")
        if given is None:
            return NOBODY
        kind, _, shown = given.partition(b" ")
        match kind.lower():
            case b"bearer":
                return identities.by_token(shown.strip().decode("latin-1"))
            case b"basic":
                name, password = _basic(shown.strip())
                return await self._by_password(scope, identities, name, password)
        raise Unauthenticated("Authorization: must be Basic or Bearer")

    async def _by_password(self, scope: Scope, identities: Identities, name: str, password: str) -> Caller:
        began = self.wall()
        try:
            return caller_of(await identities.by_password(name, password, self.address(scope)))
        except WrongPassword as refusal:
            # As often as the limit of failed logins lets this happen, and no oftener.
            trail = _Trail(LOGIN, "", {}, known=name if identities.accounts.find(name) else None)
            self._note(scope, trail, http_status(refusal), began)
            raise

    async def _on_record(
        self, scope: Scope, receive: Receive, operation: Operation, handler: Handler, params: Mapping[str, str]
    ) -> Reply:
        began, status = self.wall(), INTERNAL
        trail = _Trail(operation.action or "", operation.path, params)
        try:
            trail.body = await read_body(scope, receive)
            caller = await self.admit(scope, operation, params)
            if self.changes is not None and operation.need is Need.WRITE:
                self.changes.take((caller.name, params.get("prefix"), params.get("group")))
            reply = await handler(Request(scope, params, trail.body, receive))
            status, trail.answer = reply.status, reply.body
            return reply
        except ClientGone:
            trail.given_up = True
            raise
        except StreamshardError as error:
            status = http_status(error)
            raise
        finally:
            if not trail.given_up:
                self._note(scope, trail, status, began)

    def _note(self, scope: Scope, trail: "_Trail", status: int, began: float) -> None:
        caller: Caller = scope.get(CALLER, NOBODY)
        fields = understood(trail.body)
        secret = trail.action in SECRET_BODIES
        known = fields.get("username") if secret and self._has_account(fields.get("username")) else trail.known
        self.sink(
            AuditRecord(
                timestamp=timestamp(int(began * 1000)),
                coordinator_id=self.coordinator_id,
                action=trail.action,
                outcome=outcome_of(status),
                status=status,
                principal=caller.name or known,
                roles=tuple(sorted(role.value for role in caller.roles)),
                method=scope["method"],
                route=trail.route,
                path=_shown(raw_path(scope)),
                stream_prefix=trail.named("prefix"),
                consumer_group=trail.named("group"),
                resharding_id=trail.resharding(),
                request_id=scope[TAG][1].decode(),
                requested_by=short(fields.get("requestedBy")),
                reason=short(fields.get("reason")),
                client_address=short(self.address(scope)) or None,
                user_agent=_shown(header(scope, b"user-agent") or b"") or None,
                duration_ms=max(0, round((self.wall() - began) * 1000)),
                request_body_sha256=None if secret or not trail.body else digest(trail.body),
                request_summary={} if secret else summary(fields),
            )
        )

    def _has_account(self, name: object) -> bool:
        """What is typed as a name may be a password: only names that are known are told."""
        return self.identities is not None and isinstance(name, str) and self.identities.accounts.find(name) is not None


@attrs.define
class _Trail:
    """What is known of an attempt while it is under way."""

    action: str
    route: str
    params: Mapping[str, str]
    known: str | None = None
    body: bytes = b""
    answer: bytes = b""
    given_up: bool = False
    """The caller hung up before anything was asked."""

    def named(self, param: str) -> str | None:
        """What the path calls it."""
        return short(unquote(self.params[param], errors="replace")) if param in self.params else None

    def resharding(self) -> str | None:
        """The one that is named, or the one that was begun."""
        answer: dict[str, Any] = understood(self.answer)
        begun = [answer, *(each for each in answer.get("migrations") or () if isinstance(each, dict))]
        return self.named("resharding") or next((short(each.get("reshardingId")) for each in reversed(begun)), None)


def _confine(caller: Caller, need: Need, params: Mapping[str, str]) -> None:
    prefix = params.get("prefix")
    if prefix is None and need not in UNBOUND:
        raise Forbidden(f"account '{caller.name}' is confined to some streams, and this is about all of them")
    if prefix is not None and not caller.reaches(percent_decoded(prefix, "streamPrefix")):
        raise Forbidden(f"account '{caller.name}' is confined to other streams")


def _basic(shown: bytes) -> tuple[str, str]:
    try:
        name, colon, password = base64.b64decode(shown, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        colon = ""
    if not colon:
        raise Unauthenticated("Authorization: Basic takes NAME:PASSWORD, as UTF-8 in base64")
    return name, password


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _shown(raw: bytes) -> str:
    return short(raw.decode("latin-1")) or ""
