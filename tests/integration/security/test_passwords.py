"""Names and passwords: how they are compared, and how often they may be wrong."""

import asyncio
import base64

import pytest

from streamshard.entrypoints.security.limits import FixedWindow, Limit
from streamshard.entrypoints.security.passwords import MOST_WAITING, Passwords, hashed
from streamshard.errors import RateLimited
from tests.integration.security.doors import ACCOUNTS, PASSWORD, Clock, Guarded, basic, guarded

STREAMS = "/coord/v1/streams"
LOGIN = "/coord/v1/auth/login"


async def get(door: Guarded, name: str, password: str = PASSWORD) -> int:
    return (await door.http.get(STREAMS, headers=basic(name, password))).status_code


async def login(door: Guarded, name: str, password: str) -> int:
    return (await door.http.post(LOGIN, json={"username": name, "password": password})).status_code


def test_a_hash_is_argon2_and_salted() -> None:
    first, second = hashed(PASSWORD), hashed(PASSWORD)

    assert first.startswith("$argon2id$v=19$")
    assert first != second


@pytest.mark.parametrize(("name", "password"), [("read", "wrong"), ("nobody", PASSWORD), ("nobody", "x"), ("", "")])
def test_a_name_that_nobody_has_costs_as_much_as_a_wrong_password(name: str, password: str) -> None:
    async def scenario() -> None:
        async with guarded() as door:
            assert await get(door, name, password) == 401
            assert door.identities.passwords.computed == 1
            assert await login(door, name, password) == 401
            assert door.identities.passwords.computed == 2

    asyncio.run(scenario())


def test_the_answer_does_not_say_which_of_the_two_was_wrong() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            answers = [
                (await door.http.post(LOGIN, json={"username": name, "password": "wrong"})).json()
                for name in ("read", "nobody")
            ]

        assert answers[0] == answers[1]

    asyncio.run(scenario())


def test_a_right_password_is_computed_once() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            found = await asyncio.gather(*(get(door, "read") for _ in range(20)))

            assert found == [200] * 20
            assert door.identities.passwords.computed <= 2

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "header",
    [
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"nocolon").decode(),
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        "Digest x",
        "Bearer",
        "read:" + PASSWORD,
        "",
    ],
)
def test_what_is_neither_is_refused(header: str) -> None:
    async def scenario() -> None:
        async with guarded() as door:
            answer = await door.http.get(STREAMS, headers={"authorization": header})

            assert answer.status_code == 401
            assert door.identities.passwords.computed == 0

    asyncio.run(scenario())


def test_after_too_many_wrong_passwords_even_the_right_one_has_to_wait() -> None:
    async def scenario() -> None:
        async with guarded(logins=Limit(3, 60)) as door:
            assert [await login(door, "read", "wrong") for _ in range(5)] == [401, 401, 401, 429, 429]
            answer = await door.http.post(LOGIN, json={"username": "read", "password": PASSWORD})

            assert (answer.status_code, answer.json()["errorCode"]) == (429, "RATE_LIMIT_EXCEEDED")
            assert 1 <= int(answer.headers["retry-after"]) <= 61
            assert door.identities.passwords.computed == 3
            assert await get(door, "write") == 200

            door.clock.at += 60
            assert await login(door, "read", PASSWORD) == 200

    asyncio.run(scenario())


def test_who_is_known_already_is_not_locked_out_by_others_who_try_the_name() -> None:
    async def scenario() -> None:
        async with guarded(logins=Limit(3, 60)) as door:
            assert await get(door, "read") == 200
            for _ in range(5):
                await login(door, "read", "wrong")

            assert await get(door, "read") == 200

    asyncio.run(scenario())


def test_a_host_that_tries_many_names_is_stopped_too() -> None:
    async def scenario() -> None:
        async with guarded(logins=Limit(1, 60)) as door:
            found = [await login(door, f"name-{number}", "x") for number in range(12)]

            assert found == [401] * 10 + [429] * 2

    asyncio.run(scenario())


def test_counters_are_bounded_and_begin_anew_with_each_window() -> None:
    clock = Clock()
    window = FixedWindow(Limit(2, 60), clock.now, most=10)
    for number in range(1_000):
        window.count(number)

    assert len(window) == 11
    with pytest.raises(RateLimited):
        window.take("one that shares a counter with others")
    window.check(0)
    clock.at += 60
    window.take("anybody")
    assert len(window) == 1


def test_when_too_many_wait_others_are_sent_away() -> None:
    async def scenario() -> None:
        passwords, account = Passwords(), ACCOUNTS["read"]
        found = await asyncio.gather(
            *(passwords.right(account, account, f"wrong-{number}") for number in range(MOST_WAITING + 5)),
            return_exceptions=True,
        )

        assert [isinstance(each, RateLimited) for each in found].count(True) == 5

    asyncio.run(scenario())
