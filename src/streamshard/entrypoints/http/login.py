"""The handlers of tokens: get one, and take one back."""

import time

from streamshard.core.ids import WallMillis
from streamshard.entrypoints.http import wire
from streamshard.entrypoints.http.answers import Revoked, TokenAnswer
from streamshard.entrypoints.http.exchange import CALLER, Reply, Request, json_reply
from streamshard.entrypoints.http.gate import Gate
from streamshard.entrypoints.http.replies import instant
from streamshard.entrypoints.security.identities import caller_of
from streamshard.entrypoints.security.roles import Role
from streamshard.errors import Forbidden, InvalidRequest, Unauthenticated

_NO_STORE = ((b"cache-control", b"no-store"),)


class Access:
    """Only a password gets a token: whoever got hold of a token can't make it last."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def login(self, request: Request) -> Reply:
        """POST ``/auth/login``."""
        body = wire.decode_login(request.body)
        account = await self._gate.login(request.scope, body.username, body.password)
        assert self._gate.identities is not None, "there are accounts"
        text, claims = self._gate.identities.tokens.mint(account)
        request.scope[CALLER] = caller_of(account)
        answer = TokenAnswer(
            access_token=text,
            token_type="Bearer",
            expires_at=instant(WallMillis(claims.expires_at * 1000)),
            expires_in_seconds=claims.expires_at - claims.issued_at,
            roles=sorted(role.value for role in account.roles),
        )
        return Reply(200, json_reply(200, answer).body, _NO_STORE)

    async def revoke(self, request: Request) -> Reply:
        """POST ``/auth/revoke``."""
        if self._gate.identities is None:
            raise Unauthenticated("this coordinator has no accounts, and gives no tokens")
        tokens, caller = self._gate.identities.tokens, request.caller
        wanted = wire.decode_revoke(request.body).token_id or caller.token
        if wanted is None:
            raise InvalidRequest("tokenId: is missing: name a token, or send the one that is meant")
        if wanted != caller.token and Role.ADMIN not in caller.roles:
            raise Forbidden("another's token is taken back with the role ADMIN only")
        tokens.revoked.add(wanted, int(time.time()) + tokens.lifetime_s)
        return json_reply(200, Revoked(token_id=wanted, lasting=tokens.revoked.lasting))
