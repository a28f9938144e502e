"""Whatever the document allows, and much that it does not: no fault, and only answers that it describes."""

import asyncio
import functools
import typing
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.types import ASGIApp

from streamshard.entrypoints.http.operations import OPERATIONS, Operation
from tests.integration.http.service import running
from tests.integration.http.stage import owning, publish

CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
KNOWN = {"prefix": "orders", "group": "billing", "member": "web-m0", "shard": 0}
CASES = 12

TAKES_SOMETHING = [operation for operation in OPERATIONS if operation.body is not None or operation.query]


async def _prepared() -> ASGIApp:
    async with running(max_shard_count=8, default_shard_count=4) as service:
        await owning(service)
        await publish(service, 0, b"a", b"\xff")
        return service.app


@functools.cache
def _schema() -> Any:
    """The document of a coordinator with a group that is in use."""
    return schemathesis.openapi.from_asgi("/openapi.json", asyncio.run(_prepared()))


def ask(operation: Operation, mode: GenerationMode, known: dict[str, Any]) -> None:
    """Ask the same cases in every run; a failure names the request that brought it about."""
    described = _schema()[operation.path][operation.method]

    @settings(
        max_examples=CASES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(case=described.as_strategy(generation_mode=mode))
    def each(case: Any) -> None:
        case.path_parameters = {**(case.path_parameters or {}), **known}
        if operation.id == "watch":
            case.query = {**(case.query or {}), "waitMs": "0"}  # nobody waits for news that never comes
        case.call_and_validate(checks=CHECKS)

    typing.cast(Any, each)()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_a_request_that_the_document_allows_is_answered_as_it_says(operation: Operation) -> None:
    ask(operation, GenerationMode.POSITIVE, {})


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_a_request_about_what_is_there_is_answered_as_documented(operation: Operation) -> None:
    known = {name: value for name, value in KNOWN.items() if f"{{{name}}}" in operation.path}

    ask(operation, GenerationMode.POSITIVE, known)


@pytest.mark.parametrize("operation", TAKES_SOMETHING, ids=lambda operation: operation.id)
def test_a_request_that_the_document_does_not_allow_is_answered_as_documented(operation: Operation) -> None:
    ask(operation, GenerationMode.NEGATIVE, {})
