"""Every operation, asked by everybody, at its own path and at those that only look like it."""

import asyncio
from collections.abc import Iterator

import pytest

from streamshard.entrypoints.http.app import resources
from streamshard.entrypoints.http.operations import OPERATIONS, Operation
from streamshard.entrypoints.security.roles import SUFFICIENT, UNBOUND, Need, Role
from tests.integration.http.service import ASKED, beat, running
from tests.integration.security.doors import ACCOUNTS, Guarded, guarded

NAMES = {"prefix": "orders", "group": "billing", "member": "web-m0", "resharding": "reshard-0", "shard": "0"}
REFUSED = (401, 403)
NOT_SERVED = (404, 405)
QUERY = {"watch": "?layout=0&waitMs=0", "routeKey": "?key=a"}


def path_of(operation: Operation, **names: str) -> str:
    return operation.path.format(**{**NAMES, **names})


def body_of(operation: Operation, prefix: str = "orders") -> dict[str, object] | None:
    if operation.id == "heartbeat":
        return beat()
    if operation.id == "heartbeats":
        return {"heartbeats": [beat(streamPrefix=prefix, consumerGroup="billing")]}
    return None if operation.body is None else {"username": "nobody", "password": "x", **ASKED}


async def ask(door: Guarded, operation: Operation, who: str | None, method: str, at: tuple[str, str]) -> int:
    """The status; ``at`` is the path, and the stream that a body names."""
    path, prefix = at
    headers = {} if who is None else door.bearer(who)
    url = path + QUERY.get(operation.id, "")
    answer = await door.http.request(method, url, headers=headers, json=body_of(operation, prefix))
    return answer.status_code


def methods(operation: Operation) -> tuple[str, ...]:
    return ("GET", "HEAD") if operation.method == "GET" else (operation.method,)


def expected(operation: Operation, who: str | None, *, foreign: bool = False) -> int | None:
    """The refusal; None: let in."""
    if operation.need is Need.OPEN:
        return None
    if who is None:
        return 401
    account = ACCOUNTS[who]
    if account.roles.isdisjoint(SUFFICIENT[operation.need]):
        return 403
    if account.prefixes and "{prefix}" not in operation.path and operation.need not in UNBOUND:
        return 403
    if account.prefixes and foreign and ("{prefix}" in operation.path or operation.id == "heartbeats"):
        return 403
    return None


CALLERS = (None, *ACCOUNTS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_an_operation_is_done_for_those_alone_who_have_a_role_for_it(operation: Operation) -> None:
    async def scenario() -> None:
        async with guarded() as door:
            for who in CALLERS:
                for method in methods(operation):
                    for prefix in ("orders", "payments"):
                        path = path_of(operation, prefix=prefix)
                        status = await ask(door, operation, who, method, (path, prefix))

                        refusal = expected(operation, who, foreign=prefix == "payments")
                        found = status if status in REFUSED else None
                        if operation.id in ("login", "revokeToken") and refusal is None:
                            assert status in (200, 400, 401, 429), (who, method, path)  # the handler's own refusals
                        else:
                            assert found == refusal, (who, method, path, status)

    asyncio.run(scenario())


def tricks(path: str) -> Iterator[str]:
    """Paths that something on the way, or a careless pattern, may take for ``path``."""
    yield path + "/"
    yield path + "//"
    yield "/" + path
    yield path.replace("/coord/v1", "/coord//v1")
    yield path.replace("/coord/v1", "/COORD/v1")
    yield path.replace("/coord/v1", "/coord/v1/.")
    yield path.replace("/coord/v1", "/coord/v1/x/..")
    yield path.replace("/coord/v1", "/coord/v1;x=1")
    yield path + ";x=1"
    yield path + "%2F"
    yield path + "%00"
    yield path + "/members/m/heartbeat"
    yield path.replace("/coord/v1/", "/coord/v1%2F")
    head, _, last = path.rpartition("/")
    yield head + "%2F" + last
    yield head + "/" + last.upper()
    yield head + "/members/" + last


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_no_path_that_looks_like_another_lets_anybody_in_without_a_role(operation: Operation) -> None:
    async def scenario() -> None:
        async with guarded() as door:
            for path in {*tricks(path_of(operation))} - {path_of(operation)}:
                for method in ("GET", "POST", "PATCH", "DELETE"):
                    status = await ask(door, operation, None, method, (path, "orders"))

                    assert status in REFUSED + NOT_SERVED, (method, path, status)

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["members", "heartbeat", "members%2Fm%2Fheartbeat", "auth", "login", "livez"])
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
def test_names_that_are_words_of_other_paths_open_nothing(name: str, method: str) -> None:
    async def scenario() -> None:
        async with guarded() as door:
            for path in (
                f"/coord/v1/streams/{name}",
                f"/coord/v1/streams/orders/groups/{name}",
                f"/coord/v1/streams/{name}/groups/{name}",
                f"/coord/v1/streams/{name}/scale",
                f"/coord/v1/streams/orders/groups/{name}/scale",
                f"/coord/v1/monitoring/streams/{name}/groups/heartbeat",
            ):
                anonymous = await door.http.request(method, path, json=ASKED)
                member = await door.http.request(method, path, json=ASKED, headers=door.bearer("member"))

                assert anonymous.status_code in (401, 404, 405), path
                assert member.status_code in (403, 404, 405), path

    asyncio.run(scenario())


def test_a_foreign_prefix_is_found_out_however_it_is_spelt() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            for spelling in ("payments", "%70ayments", "orders%20", "ORDERS", "orders2", "spare", "%6frders.x"):
                path = f"/coord/v1/streams/{spelling}/groups/billing/members/web-m0/heartbeat"
                answer = await door.http.post(path, json=beat(), headers=door.bearer("confined-member"))

                assert answer.status_code in (400, 403), spelling
            for spelling in ("orders", "%6frders", "spare-1"):
                path = f"/coord/v1/streams/{spelling}/groups/billing/members/web-m0/heartbeat"
                answer = await door.http.post(path, json=beat(), headers=door.bearer("confined-member"))

                assert answer.json()["status"] == "UNKNOWN_MEMBER_ID"

    asyncio.run(scenario())


def test_refusals_say_what_is_missing_in_the_contract_s_shape() -> None:
    async def scenario() -> None:
        async with guarded() as door:
            anonymous = await door.http.get("/coord/v1/streams")
            member = await door.http.get("/coord/v1/streams", headers=door.bearer("member"))

        assert anonymous.json() == {
            "status": "UNAUTHORIZED",
            "errorCode": "UNAUTHENTICATED",
            "message": "this coordinator has accounts: send a name and a password, or a token",
            "retryable": False,
            "details": None,
        }
        assert anonymous.headers.get_list("www-authenticate") == [
            'Basic realm="streamshard", charset="UTF-8"',
            'Bearer realm="streamshard"',
        ]
        assert (member.status_code, member.json()["errorCode"]) == (403, "FORBIDDEN")
        assert member.json()["message"] == "account 'member' lacks the role that this takes: READ"

    asyncio.run(scenario())


def test_every_resource_says_what_it_needs() -> None:
    async def served() -> set[tuple[str, str]]:
        async with running() as service:
            table = resources(service.coordinator, service.traffic)
        return {(path, method) for path, known in table.items() for method in known}

    described = {(operation.path, operation.method): operation.need for operation in OPERATIONS}

    assert set(described) == asyncio.run(served())
    assert {id for id, need in NEEDS.items() if need is Need.OPEN} == {"login", "live", "ready"}
    assert {id for id, need in NEEDS.items() if need is Need.ACCOUNT} == {"revokeToken"}
    assert {id for id, need in NEEDS.items() if need is Need.MEMBER} == {"heartbeat", "heartbeats"}
    assert {id for id, need in NEEDS.items() if need is Need.PAYLOAD} == {"listMessages", "listGrafanaMessages"}


NEEDS = {operation.id: operation.need for operation in OPERATIONS}


def test_whatever_changes_something_takes_the_role_to_write_and_goes_on_record() -> None:
    changing = [o for o in OPERATIONS if o.method != "GET" and o.need not in (Need.OPEN, Need.ACCOUNT, Need.MEMBER)]

    assert all(operation.need is Need.WRITE and operation.action for operation in changing)
    assert all(operation.action is None for operation in OPERATIONS if operation.method == "GET")


def test_metrics_are_open_where_that_was_chosen_and_nothing_else_is() -> None:
    async def scenario() -> None:
        async with guarded(open_metrics=True) as door:
            assert (await door.http.get("/metrics")).status_code == 200
            assert (await door.http.get("/coord/v1/streams")).status_code == 401

    asyncio.run(scenario())


def test_the_matrix_is_as_large_as_it_should_be() -> None:
    cells = sum(len(methods(operation)) for operation in OPERATIONS) * len(CALLERS) * 2
    tricked = sum(len([*tricks(path_of(operation))]) * 4 for operation in OPERATIONS)

    assert cells >= 600
    assert tricked >= 600
    assert {role for account in ACCOUNTS.values() for role in account.roles} == set(Role)
