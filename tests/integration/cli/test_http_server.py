"""Bad input over a real socket, byte by byte as no client library would send it."""

import http.client
import json
import socket
from collections.abc import Iterator

import pytest

from tests.integration.cli.processes import IN_MEMORY, Served, serving

CREATE = json.dumps({"requestedBy": "ops", "initialShardCount": 2, "consumerGroups": ["billing"]}).encode()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(*IN_MEMORY) as started:
        yield started


def ask(served: Served, path: bytes, body: bytes, method: bytes = b"POST") -> tuple[int, dict[str, object]]:
    head = b"%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (
        method,
        path,
        len(body),
    )
    with socket.create_connection(("127.0.0.1", int(served.port)), timeout=20) as link:
        link.sendall(head + body)
        answer = http.client.HTTPResponse(link)
        answer.begin()
        return answer.status, json.loads(answer.read())


def groups(served: Served) -> object:
    return ask(served, b"/coord/v1/monitoring/groups", b"", b"GET")[1]


@pytest.mark.parametrize(
    "name",
    [b"{orders}", b"a%2fb", b"..", b".", b"%2e%2e", b"a%0ab", b"a%7fb", b"", b"x" * 201, b"%c0%af", b"%ff"],
)
def test_a_bad_name_is_refused_with_its_field_and_nothing_is_stored(served: Served, name: bytes) -> None:
    status, answer = ask(served, b"/coord/v1/streams/" + name, CREATE)

    assert (status, answer["errorCode"]) == (400, "INVALID_REQUEST")
    assert str(answer["message"]).startswith("streamPrefix: ")
    assert (answer["status"], answer["retryable"], answer["details"]) == ("BAD_REQUEST", False, None)


@pytest.mark.parametrize("count", [b"0", b"-1", b"1000000000", b"true", b"false", b"1.0", b'"4"', b"[]"])
def test_a_bad_count_is_refused_with_its_field_and_nothing_is_stored(served: Served, count: bytes) -> None:
    before = groups(served)

    status, answer = ask(
        served, b"/coord/v1/streams/counted", b'{"requestedBy": "ops", "initialShardCount": %s}' % count
    )

    assert (status, answer["errorCode"]) == (400, "INVALID_REQUEST")
    assert str(answer["message"]).startswith("initialShardCount: must be ")
    assert groups(served) == before


def test_two_mebibytes_are_refused_and_the_server_goes_on(served: Served) -> None:
    status, answer = ask(served, b"/coord/v1/streams/large", b"[" * 2**21)

    assert (status, answer["errorCode"], answer["status"]) == (413, "PAYLOAD_TOO_LARGE", "PAYLOAD_TOO_LARGE")
    assert ask(served, b"/livez", b"", b"GET") == (200, {"status": "UP"})


def test_broken_json_is_refused(served: Served) -> None:
    status, answer = ask(served, b"/coord/v1/streams/broken", b'{"requestedBy": "ops"')

    assert (status, answer["errorCode"]) == (400, "INVALID_REQUEST")
    assert str(answer["message"]).startswith("body: is no valid JSON")


def test_unknown_fields_break_nothing(served: Served) -> None:
    body = json.dumps({"requestedBy": "ops", "initialShardCount": 1, "colour": ["blue"]}).encode()

    status, answer = ask(served, b"/coord/v1/streams/tolerant", body)

    assert (status, answer["streamPrefix"], answer["shardCount"]) == (201, "tolerant", 1)


@pytest.mark.parametrize("host", [b"attacker.example", b"attacker.example:80", b"10.0.0.1", b"", b"localhost.evil"])
def test_a_name_that_a_page_had_resolved_to_this_machine_is_refused(served: Served, host: bytes) -> None:
    with socket.create_connection(("127.0.0.1", int(served.port)), timeout=20) as link:
        link.sendall(b"GET /livez HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host)
        answer = http.client.HTTPResponse(link)
        answer.begin()
        body = json.loads(answer.read())

    assert (answer.status, body["status"], body["errorCode"]) == (403, "FORBIDDEN", "FORBIDDEN")


@pytest.mark.parametrize("host", [b"localhost", b"localhost:8080", b"127.0.0.1:1", b"[::1]", b"[::1]:8080"])
def test_this_machine_may_be_called_by_its_own_names(served: Served, host: bytes) -> None:
    with socket.create_connection(("127.0.0.1", int(served.port)), timeout=20) as link:
        link.sendall(b"GET /livez HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host)
        answer = http.client.HTTPResponse(link)
        answer.begin()
        answer.read()

    assert answer.status == 200
