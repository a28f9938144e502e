"""Tokens: what makes one good, and everything that makes it bad."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import attrs
import jwt
import pytest

from streamshard.entrypoints.security.roles import Role
from streamshard.entrypoints.security.tokens import Revocations, Tokens
from streamshard.errors import ConfigurationError, Unauthenticated
from tests.integration.security.doors import (
    ACCOUNTS,
    LIFETIME_S,
    PASSWORD,
    QUICK,
    SECRET,
    Clock,
    Guarded,
    basic,
    guarded,
)

STREAMS = "/coord/v1/streams"
LOGIN = "/coord/v1/auth/login"
REVOKE = "/coord/v1/auth/revoke"


async def status(door: Guarded, token: str, path: str = STREAMS) -> int:
    answer = await door.http.get(path, headers={"authorization": f"Bearer {token}"})
    return answer.status_code


def test_a_login_gets_a_token_that_is_good_for_what_the_account_may_do() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            answer = await door.http.post(LOGIN, json={"username": "read", "password": PASSWORD})
            token = answer.json()["accessToken"]

            assert (await status(door, token)) == 200
            assert answer.json() == {
                "accessToken": token,
                "tokenType": "Bearer",
                "expiresAt": "2027-01-22T08:00:00.000Z",
                "expiresInSeconds": LIFETIME_S,
                "roles": ["READ"],
            }
            assert answer.headers["cache-control"] == "no-store"
            session = await door.http.get("/coord/v1/monitoring/session", headers={"authorization": f"Bearer {token}"})
            assert session.json() == {"authenticated": True, "username": "read", "roles": ["READ"]}

    asyncio.run(scenario())


def forged(token: str, **changes: Any) -> str:
    claims = {**jwt.decode(token, options={"verify_signature": False}), **changes}
    return jwt.encode({name: value for name, value in claims.items() if value is not None}, SECRET, "HS256")


def unsigned(token: str) -> str:
    head = base64.urlsafe_b64encode(json.dumps({"alg": "none", "typ": "JWT"}).encode()).rstrip(b"=").decode()
    return f"{head}.{token.split('.')[1]}."


def tampered(token: str) -> str:
    head, body, signature = token.split(".")
    told = json.loads(base64.urlsafe_b64decode(body + "=="))
    richer = base64.urlsafe_b64encode(json.dumps({**told, "sub": "admin"}).encode()).rstrip(b"=").decode()
    return f"{head}.{richer}.{signature}"


@pytest.mark.parametrize(
    "spoil",
    [
        tampered,
        unsigned,
        lambda token: token[:-4] + "AAAA",
        lambda token: token + "x" * 5_000,
        lambda token: "",
        lambda token: "a.b.c",
        lambda token: jwt.encode(jwt.decode(token, options={"verify_signature": False}), b"another" * 8, "HS256"),
        lambda token: jwt.encode(jwt.decode(token, options={"verify_signature": False}), SECRET * 2, "HS512"),
        lambda token: forged(token, jti=None),
        lambda token: forged(token, exp=None),
        lambda token: forged(token, bond=None),
        lambda token: forged(token, bond="0" * 32),
        lambda token: forged(token, iss="somebody"),
        lambda token: forged(token, sub="gone"),
        lambda token: forged(token, exp=1_000),
    ],
)
def test_any_other_token_is_none(spoil: Any) -> None:
    async def scenario() -> None:
        async with guarded() as door:
            good = door.token("read")

            assert await status(door, good) == 200
            assert await status(door, spoil(good)) == 401

    asyncio.run(scenario())


def test_a_token_ends_when_its_time_is_over() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            token = door.token("read")
            door.clock.at += LIFETIME_S - 1
            assert await status(door, token) == 200
            door.clock.at += 1
            assert await status(door, token) == 401

    asyncio.run(scenario())


def test_a_revoked_token_is_refused_at_once_and_others_of_the_account_are_not() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            first, second = door.token("read"), door.token("read")
            own = {"authorization": f"Bearer {first}"}
            assert await status(door, first) == 200

            answer = await door.http.post(REVOKE, json={}, headers=own)

            assert (answer.status_code, answer.json()["lasting"]) == (200, False)
            assert await status(door, first) == 401
            assert await status(door, second) == 200

    asyncio.run(scenario())


def test_anothers_token_is_taken_back_by_an_admin_alone() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            token = door.token("read")
            wanted = {"tokenId": door.identities.tokens.read(token).id}

            refused = await door.http.post(REVOKE, json=wanted, headers=door.bearer("write"))
            assert (refused.status_code, await status(door, token)) == (403, 200)
            done = await door.http.post(REVOKE, json=wanted, headers=door.bearer("admin"))
            assert (done.status_code, await status(door, token)) == (200, 401)

    asyncio.run(scenario())


def test_a_token_gets_no_other_token() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            for body in ({}, {"username": "read"}, {"username": "read", "password": ""}):
                answer = await door.http.post(LOGIN, json=body, headers=door.bearer("read"))
                assert answer.status_code in (400, 401)
            token = door.token("read")
            answer = await door.http.post(
                LOGIN, json={"username": "read", "password": token}, headers=door.bearer("read")
            )
            assert answer.status_code == 401

    asyncio.run(scenario())


def test_an_account_that_is_removed_demoted_or_has_a_new_password_loses_what_it_had_at_once() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            token, headers = door.token("write"), basic("write")
            account = door.accounts.listed["write"]
            assert await status(door, token) == 200
            assert (await door.http.get(STREAMS, headers=headers)).status_code == 200

            door.accounts.listed["write"] = attrs.evolve(account, roles=frozenset({Role.MEMBER}))
            assert await status(door, token) == 403
            assert (await door.http.get(STREAMS, headers=headers)).status_code == 403

            door.accounts.listed["write"] = attrs.evolve(account, hash=QUICK.hash("another"))
            assert await status(door, token) == 401
            assert (await door.http.get(STREAMS, headers=headers)).status_code == 401

            del door.accounts.listed["write"]
            assert await status(door, token) == 401
            assert (await door.http.get(STREAMS, headers=headers)).status_code == 401

    asyncio.run(scenario())


def test_other_coordinators_know_what_was_revoked_where_the_list_is_a_file(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "revoked"
    here, there = (Tokens(SECRET, 60, clock.now, Revocations(path, clock.now)) for _ in range(2))
    text, claims = here.mint(ACCOUNTS["read"])
    assert there.read(text) == claims

    here.revoked.add(claims.id, claims.expires_at)

    for tokens in (here, there, Tokens(SECRET, 60, clock.now, Revocations(path, clock.now))):
        with pytest.raises(Unauthenticated, match="revoked"):
            tokens.read(text)


def test_lines_that_are_no_revocations_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "revoked"
    path.write_text("# a comment\n\nxyz 12\n" + "a" * 32 + " soon\n" + "b" * 32 + " 12\n")
    revoked = Revocations(path, Clock().now)

    assert ["a" * 32 in revoked, "b" * 32 in revoked] == [False, True]


def test_a_short_secret_is_none() -> None:
    with pytest.raises(ConfigurationError, match="at least 32 bytes"):
        Tokens(b"x" * 31, 60, Clock().now, Revocations(None, Clock().now))
